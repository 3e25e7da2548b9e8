/* SPDX-License-Identifier: MIT */
/*
 * inboxes/ and the inboxes: inbox.json and index.jsonl, the records of the emails, and .invalid/ with the
 * quarantined emails, if the service lists these. An email has two entries in its inbox: its record, and its
 * folder (email_folder.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "mail/inbox_record.h"
#include "outbox/writer_fate.h"
#include "store/store_content.h"
#include "tree/node.h"

enum {
    EMAILS_AT_ONCE = 64,
    FIRST_CONTENT_MAX_BYTES = 16 * 1024, /* nearly every record is shorter */
    INDEX_BLOCK_BYTES = 128 * 1024, /* preferred size of a read, since the kernel does not cache the file */
    INBOX_TEXT_MAX_BYTES = 1024 * 1024, /* of the text that programs write to inbox.json */
};

struct inboxes {
    /* Upper half: the inbox of the latest lookups of emails; lower half: the number of these lookups, at most
     * INBOX_LOOKUPS_OF_DEMAND. Threads may overwrite each other's counts, but rarely do. */
    atomic_uint_least64_t lookups;

    pthread_mutex_t lock;
    GArray *opened; /* protected by `lock`: a bit for each email, set at its first open since the mount */
};

static int init_inboxes(struct tree *tree, int state_dir_fd)
{
    tree->inboxes = g_new0(struct inboxes, 1);
    tree->inboxes->opened = g_array_new(FALSE, TRUE, sizeof(uint8_t));
    pthread_mutex_init(&tree->inboxes->lock, NULL);
    return 0;
}

static void release_inboxes(struct tree *tree)
{
    struct inboxes *inboxes = tree->inboxes;
    if (inboxes == NULL)
        return;
    g_array_unref(inboxes->opened);
    pthread_mutex_destroy(&inboxes->lock);
    free(inboxes);
}

/* A listing has the attributes of its entries, so that programs need not ask for them. But the attributes of
 * an entry cost the kernel a kilobyte and two microseconds, in vain if a program reads only the names. So in
 * a very large inbox only the first emails are listed with attributes, until enough lookups show that
 * programs need the other attributes, too. */
static void count_lookup(struct inboxes *inboxes, uint32_t inbox)
{
    uint64_t first = (uint64_t)inbox << 32;
    uint64_t now = atomic_load_explicit(&inboxes->lookups, memory_order_relaxed);
    if (now >> 32 != inbox)
        now = first;
    if (now < first + INBOX_LOOKUPS_OF_DEMAND)
        atomic_store_explicit(&inboxes->lookups, now + 1, memory_order_relaxed);
}

/* ---------------------------------------------------------------- emails */

static void fill_email(const struct tree *tree, const struct email_view *view, struct tree_entry *ret)
{
    entry_fill_record(tree, node_ino(NODE_EMAIL, view->number), view, LASTING, ret);
}

static int get_email(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                     struct tree_entry *ret)
{
    struct email_view view;
    if (!store_get_email(tree->store, (uint32_t)node_number(ino), &view))
        return -ENOENT;
    fill_email(tree, &view, ret);
    return 0;
}

/* Returns true the first time for each email. */
static bool is_first_open(struct inboxes *inboxes, uint32_t number)
{
    guint index = number / 8;
    uint8_t bit = (uint8_t)(1U << (number % 8));
    LOCK_GUARD(&inboxes->lock);
    if (index >= inboxes->opened->len)
        g_array_set_size(inboxes->opened, index + 1);
    uint8_t *byte = &g_array_index(inboxes->opened, uint8_t, index);
    bool is_first = (*byte & bit) == 0;
    *byte |= bit;
    return is_first;
}

struct email_handle {
    struct tree_handle base;
    uint32_t number;
    uint64_t first_record; /* email_view.record before take_first_content_of_email() read the content */
};

/* Reads the current record, not the record at the time of the open: the kernel caches the bytes for all
 * readers of the file. */
static int read_email(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct email_handle *email = (struct email_handle *)handle;
    char *text;
    size_t text_len;
    int error = store_read_email(handle->tree->store, email->number, &text, &text_len);
    if (error != 0)
        return error;
    ret->owned = text;
    return handle_read_text(text, text_len, len, offset, ret);
}

static bool take_first_content_of_email(struct tree_handle *handle, struct tree_data *ret)
{
    struct email_handle *email = (struct email_handle *)handle;
    struct email_view view;
    if (!is_first_open(handle->tree->inboxes, email->number) ||
        !store_get_email(handle->tree->store, email->number, &view) ||
        view.json_len > FIRST_CONTENT_MAX_BYTES)
        return false;
    email->first_record = view.record;
    return read_email(handle, view.json_len, 0, ret) == 0;
}

static bool is_first_content_current_of_email(struct tree_handle *handle)
{
    const struct email_handle *email = (struct email_handle *)handle;
    struct email_view view;
    return store_get_email(handle->tree->store, email->number, &view) && view.record == email->first_record;
}

static int open_email(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                      struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {.caching = TREE_CACHE_LASTING,
                                          .read = read_email,
                                          .take_first_content = take_first_content_of_email,
                                          .is_first_content_current = is_first_content_current_of_email,
                                          .release = tree_handle_free};
    if (!handle_is_for_reading(flags))
        return -EACCES;
    struct email_handle *email = handle_new(tree, &ops, sizeof(*email), flags);
    email->number = (uint32_t)node_number(ino);
    *ret_handle = &email->base;
    return 0;
}

const struct node_ops email_ops = {.get = get_email, .open = open_email, .answers_at_once = true};

/* ---------------------------------------------------------------- inbox.json */

static uint32_t inbox_of(uint64_t ino)
{
    return (uint32_t)node_number(ino);
}

/*
 * Written bytes are collected. At a close the text is sent to the service, if it is one complete JSON value.
 *
 * An incomplete text fails the close, so that no edit is dropped in silence. But the kernel does not say
 * which close is the last: a shell closes a duplicate before any write (so an empty text is not an error),
 * and the program that the shell starts closes its descriptor, perhaps after a part of the text. So only the
 * process that opened the file gets the error.
 */

struct inbox_handle {
    struct tree_handle base;
    uint32_t inbox;
    int fd;                 /* the text, in memory */
    atomic_bool is_changed; /* the text changed since the open, or since it was last sent to the service */
    pid_t opener;           /* process that opened the file; if 0 (unknown), every close gets the error */
};

static int read_inbox(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    return handle_read_file(((struct inbox_handle *)handle)->fd, len, offset, ret);
}

static ssize_t write_inbox(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                           size_t len, off_t offset)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    if (offset < 0 || offset > INBOX_TEXT_MAX_BYTES || len > INBOX_TEXT_MAX_BYTES - (size_t)offset)
        return -EFBIG;
    int error = file_pwrite_all(inbox->fd, bytes, len, offset);
    if (error != 0)
        return error;
    inbox->is_changed = true;
    return (ssize_t)len;
}

static int set_inbox_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    if (size < 0 || size > INBOX_TEXT_MAX_BYTES)
        return -EFBIG;
    inbox->is_changed = true;
    return ftruncate(inbox->fd, size) == 0 ? 0 : -errno;
}

static int flush_inbox(struct tree_handle *handle, const struct tree_caller *caller)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    _cleanup_free_ char *text = NULL;
    _cleanup_free_ char *reason = NULL;
    size_t len = 0;
    /* If several closes come at the same time, only one makes the request and gets its error. */
    if (!atomic_exchange(&inbox->is_changed, false))
        return 0;
    int error = file_read_fd(inbox->fd, SIZE_MAX, &text, &len);
    if (error == 0 && len == 0)
        return 0;
    if (error == 0 && inbox_text_is_complete(text, len))
        return store_update_inbox(handle->tree->store, inbox->inbox, text, len, caller->cancel, &reason);
    inbox->is_changed = true;
    bool is_opener = inbox->opener <= 0 || caller->pid <= 0 || writer_process(caller->pid) == inbox->opener;
    return error != 0 ? error : is_opener ? -EINVAL : 0;
}

static void release_inbox(struct tree_handle *handle)
{
    struct inbox_handle *inbox = (struct inbox_handle *)handle;
    struct inbox_view view;
    /* This text was never sent. After a failed request the store adds the event. */
    if (inbox->is_changed && lseek(inbox->fd, 0, SEEK_END) > 0) {
        bool is_there = store_get_inbox(handle->tree->store, inbox->inbox, &view);
        _cleanup_free_ char *path = is_there ? g_strdup_printf("inboxes/%s/inbox.json", view.name) : NULL;
        events_report(handle->tree, EVENT_INBOX, path,
                      "what was written is not a complete JSON value, so nothing was changed");
    }
    close(inbox->fd);
    free(inbox);
}

static int open_record(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                       struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .read = read_inbox,
        .write = write_inbox,
        .set_size = set_inbox_size,
        .flush = flush_inbox,
        .release = release_inbox,
    };
    _cleanup_free_ char *json = NULL;
    _cleanup_close_ int fd = memfd_create("inbox.json", MFD_CLOEXEC);
    size_t len = 0;
    int error = fd < 0 ? -errno : store_read_inbox(tree->store, inbox_of(ino), &json, &len);
    if (error == 0 && (flags & O_TRUNC) == 0)
        error = file_pwrite_all(fd, json, len, 0);
    if (error != 0)
        return error;
    struct inbox_handle *inbox = handle_new(tree, &ops, sizeof(*inbox), flags);
    inbox->inbox = inbox_of(ino);
    if ((flags & O_ACCMODE) != O_RDONLY && caller->pid > 0)
        inbox->opener = writer_process(caller->pid);
    inbox->fd = TAKE_FD(fd);
    inbox->is_changed = (flags & O_TRUNC) != 0;
    *ret_handle = &inbox->base;
    return 0;
}

static int get_record(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                      struct tree_entry *ret)
{
    struct inbox_view view;
    if (!store_get_inbox(tree->store, inbox_of(ino), &view))
        return -ENOENT;
    entry_fill(tree, ino, S_IFREG | 0600, view.json_len, timespec_of_ms(view.record_ms), LASTING_NAME, ret);
    return 0;
}

/* The file can be truncated only through an open file. */
static int set_record(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                      struct tree_handle *handle, const struct tree_change *change)
{
    return handle == NULL || handle->ops->set_size == NULL ? -EPERM
                                                           : set_inbox_size(handle, caller, change->size);
}

const struct node_ops inbox_record_ops = {
    .get = get_record,
    .open = open_record,
    .ignored_changes = TREE_SET_WITHOUT_SIZE,
    .set_attributes = set_record,
};

/* ---------------------------------------------------------------- index.jsonl */

struct index_handle {
    struct tree_handle base;
    struct store_jsonl *index;
};

static int read_index(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct index_handle *index = (struct index_handle *)handle;
    if (offset < 0)
        return -EINVAL;
    return store_jsonl_read(index->index, (uint64_t)offset, handle_read_buffer(ret, len), len, &ret->len);
}

static void release_index(struct tree_handle *handle)
{
    store_jsonl_free(((struct index_handle *)handle)->index);
    free(handle);
}

/* The kernel must not cache index.jsonl: programs that opened the file before and after new mail read
 * different lists. */
static int open_index(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                      struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_NONE, .read = read_index, .release = release_index};
    if (!handle_is_for_reading(flags))
        return -EACCES;
    struct store_jsonl *lines;
    int error = store_jsonl_new(tree->store, inbox_of(ino), &lines);
    if (error != 0)
        return error;
    struct index_handle *index = handle_new(tree, &ops, sizeof(*index), flags);
    index->index = lines;
    *ret_handle = &index->base;
    return 0;
}

static int get_index(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                     struct tree_entry *ret)
{
    struct inbox_view view;
    if (!store_get_inbox(tree->store, inbox_of(ino), &view))
        return -ENOENT;
    entry_fill(tree, ino, S_IFREG | 0444, view.jsonl_bytes, timespec_of_ms(view.changed_ms), LASTING, ret);
    ret->attributes.stat.st_blksize = INDEX_BLOCK_BYTES;
    return 0;
}

const struct node_ops inbox_index_ops = {.get = get_index, .open = open_index};

/* ---------------------------------------------------------------- .invalid/ */

static int get_folder(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                      struct tree_entry *ret)
{
    struct inbox_view view;
    if (!store_get_inbox(tree->store, inbox_of(ino), &view))
        return -ENOENT;
    entry_fill(tree, ino, S_IFDIR | 0700, 0, timespec_of_ms(view.changed_ms), LASTING, ret);
    return 0;
}

static int get_invalid(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                       struct tree_entry *ret)
{
    return store_shows_quarantine(tree->store) ? get_folder(tree, caller, ino, ret) : -ENOENT;
}

static int lookup_in_invalid(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                             const char *name, struct tree_entry *ret)
{
    struct email_view view;
    if (!store_find_email(tree->store, inbox_of(folder), true, name, &view))
        return -ENOENT;
    fill_email(tree, &view, ret);
    return 0;
}

/* The entries of an inbox beside its emails, in the order of the listing. */
static const struct {
    const char *name;
    enum node_kind kind;
} fixed_entries[] = {
    {"inbox.json", NODE_INBOX_RECORD},
    {"index.jsonl", NODE_INBOX_INDEX},
    {".invalid", NODE_INVALID},
};

/* Positions in an inbox: the fixed entries, the records of all emails, the folders of all emails. The last
 * two add positions of the store, which never reach POSITION_FOLDERS. */
#define POSITION_EMAILS ARRAY_LEN(fixed_entries)
#define POSITION_FOLDERS (UINT64_C(1) << 40)

/* Passes an entry for each email, beginning at `position` of the store. `first`: POSITION_EMAILS for records,
 * POSITION_FOLDERS for folders, 0 for the records in .invalid/. Returns false if the buffer is full. */
static bool put_emails(const struct tree_dir *dir, uint64_t first, uint64_t position)
{
    struct store *store = dir->base.tree->store;
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    struct tree_entry entry;
    char folder_name[NAME_MAX + 1];
    uint32_t inbox = inbox_of(dir->ino);
    bool is_demanded = atomic_load_explicit(&dir->base.tree->inboxes->lookups, memory_order_relaxed) ==
                       ((uint64_t)inbox << 32) + INBOX_LOOKUPS_OF_DEMAND;
    for (;;) {
        size_t count = store_list_emails(store, inbox, first == 0, position, views, next, EMAILS_AT_ONCE);
        if (count == 0)
            return true;
        for (size_t i = 0; i < count; i++) {
            const char *name = views[i].name;
            if (first == POSITION_FOLDERS) {
                node_email_folder_name(&views[i], folder_name, sizeof(folder_name));
                email_folder_fill(dir->base.tree, &views[i], &entry);
                name = folder_name;
            } else {
                fill_email(dir->base.tree, &views[i], &entry);
            }
            if (next[i] > INBOX_LISTED_WITH_ATTRIBUTES && !is_demanded)
                entry.ino = 0;
            if (!dir_put(dir, name, &entry, first + next[i]))
                return false;
        }
        position = next[count - 1];
    }
}

static int read_invalid(struct tree_dir *dir, uint64_t position)
{
    put_emails(dir, 0, position);
    return 0;
}

/* A rename between an inbox and .invalid/ marks an email as valid or invalid. Waits for the network, at most
 * 5 s. Return: 0; -EPERM when the name changes; the errors of store_mark_email(). */
static int mark_email(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                      uint64_t new_folder, const char *new_name, unsigned int flags)
{
    _cleanup_free_ char *reason = NULL;
    struct email_view view;
    bool is_valid = node_kind(new_folder) == NODE_INBOX;
    bool is_mark = node_kind(folder) == (is_valid ? NODE_INVALID : NODE_INBOX) &&
                   node_number(folder) == node_number(new_folder);
    if (!is_mark || strcmp(name, new_name) != 0 ||
        !store_find_email(tree->store, inbox_of(folder), is_valid, name, &view))
        return -EPERM;
    return store_mark_email(tree->store, view.number, is_valid, caller->cancel, &reason);
}

const struct node_ops invalid_ops = {
    .get = get_invalid,
    .lookup = lookup_in_invalid,
    .read_dir = read_invalid,
    .is_listing_lasting = true,
    .rename = mark_email,
};

/* ---------------------------------------------------------------- an inbox */

static int lookup_in_inbox(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                           const char *name, struct tree_entry *ret)
{
    uint32_t inbox = inbox_of(folder);
    struct email_view view;
    for (size_t i = 0; i < ARRAY_LEN(fixed_entries); i++)
        if (strcmp(name, fixed_entries[i].name) == 0)
            return node_get(tree, caller, node_ino(fixed_entries[i].kind, inbox), ret);
    if (store_find_email(tree->store, inbox, false, name, &view))
        fill_email(tree, &view, ret);
    else if (!email_folder_find(tree, inbox, name, ret))
        return -ENOENT;
    count_lookup(tree->inboxes, inbox);
    return 0;
}

static int read_inbox_dir(struct tree_dir *dir, uint64_t position)
{
    struct tree_entry entry;
    for (; position < POSITION_EMAILS; position++) {
        uint64_t ino = node_ino(fixed_entries[position].kind, inbox_of(dir->ino));
        if (node_get(dir->base.tree, &no_caller, ino, &entry) == 0 &&
            !dir_put(dir, fixed_entries[position].name, &entry, position + 1))
            return 0;
    }
    if (position < POSITION_FOLDERS && !put_emails(dir, POSITION_EMAILS, position - POSITION_EMAILS))
        return 0;
    if (store_has_content(dir->base.tree->store))
        put_emails(dir, POSITION_FOLDERS, position > POSITION_FOLDERS ? position - POSITION_FOLDERS : 0);
    return 0;
}

const struct node_ops inbox_ops = {
    .get = get_folder,
    .lookup = lookup_in_inbox,
    .read_dir = read_inbox_dir,
    .is_listing_lasting = true,
    .lookup_announced = lookup_in_inbox,
    .rename = mark_email,
    .answers_at_once = true,
};

/* ---------------------------------------------------------------- inboxes/ */

static int64_t inboxes_changed_ms(const struct tree *tree, uint64_t ino)
{
    return store_inboxes_changed_ms(tree->store);
}

static int lookup_inbox(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                        const char *name, struct tree_entry *ret)
{
    struct inbox_view view;
    return store_find_inbox(tree->store, name, &view)
               ? get_folder(tree, caller, node_ino(NODE_INBOX, view.number), ret)
               : -ENOENT;
}

static int read_inboxes(struct tree_dir *dir, uint64_t position)
{
    struct inbox_view view;
    struct tree_entry entry;
    while (store_next_inbox(dir->base.tree->store, &position, &view))
        if (get_folder(dir->base.tree, &no_caller, node_ino(NODE_INBOX, view.number), &entry) == 0 &&
            !dir_put(dir, view.name, &entry, position))
            break;
    return 0;
}

static int make_inbox(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                      const struct tree_new_entry *what, struct tree_entry *ret)
{
    _cleanup_free_ char *reason = NULL;
    struct inbox_view view;
    uint32_t number = 0;
    if (!S_ISDIR(what->mode))
        return -EPERM;
    int error = store_create_inbox(tree->store, name, caller->cancel, &number, &reason);
    if (error != 0)
        return error;
    if (!store_get_inbox(tree->store, number, &view) ||
        get_folder(tree, caller, node_ino(NODE_INBOX, number), ret) != 0)
        return -EIO;
    /* The service may write the address in another form, which is then the folder's name. */
    ret->is_name_lasting = strcmp(view.name, name) == 0;
    return 0;
}

const struct node_ops inboxes_ops = {
    .init = init_inboxes,
    .release = release_inboxes,
    .state_name = "inboxes",
    .mode = S_IFDIR | 0700,
    .lasting = LASTING,
    .changed_ms = inboxes_changed_ms,
    .lookup = lookup_inbox,
    .read_dir = read_inboxes,
    .is_listing_lasting = true,
    .make = make_inbox,
};

void inbox_notify_mail(struct tree *tree, uint32_t inbox)
{
    notify_changed(tree, node_ino(NODE_INVALID, inbox));
    notify_changed(tree, node_ino(NODE_INBOX, inbox));
    notify_changed(tree, node_ino(NODE_INBOX_INDEX, inbox));
}

void inbox_notify(struct tree *tree, uint32_t inbox)
{
    inbox_notify_mail(tree, inbox);
    notify_changed(tree, node_ino(NODE_INBOX_RECORD, inbox));
}
