/* SPDX-License-Identifier: MIT */
/*
 * The files reply, reply-all and forward in the folder of an email. What is written to one, or moved onto it,
 * is a message in outbox/ from its first byte on (outbox_create_answer() in outbox.h); the file itself holds
 * nothing, and cannot be read. They are not listed: what reads everything must not stop at them.
 */
#include "tree/reply_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/draft.h"
#include "mail/reply.h"
#include "store/store_content.h"
#include "tree/events.h"
#include "tree/items.h"
#include "tree/node.h"

enum {
    KIND_BITS = 2
};

static const char *const names[] = {
    [REPLY_SENDER] = "reply",
    [REPLY_ALL] = "reply-all",
    [REPLY_FORWARD] = "forward",
};

/* The email that a reply file answers, and the kind of answer. */
struct reply_target {
    uint32_t email;
    enum reply_kind kind;
};

/* ---------------------------------------------------------------- names and attributes */

static struct reply_target target_of(uint64_t ino)
{
    uint64_t number = node_number(ino);
    return (struct reply_target){
        .email = (uint32_t)(number >> KIND_BITS),
        .kind = (enum reply_kind)(number & ((1U << KIND_BITS) - 1)),
    };
}

static uint64_t ino_of(const struct reply_target *target)
{
    return node_ino(NODE_REPLY_FILE, (uint64_t)target->email << KIND_BITS | target->kind);
}

static bool find_kind(const char *name, enum reply_kind *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0) {
            *ret = (enum reply_kind)i;
            return true;
        }
    return false;
}

bool reply_file_has_name(const char *name)
{
    enum reply_kind kind;
    return find_kind(name, &kind);
}

static uint64_t ino_of_name(uint32_t email, const char *name)
{
    struct reply_target target = {.email = email};
    return find_kind(name, &target.kind) ? ino_of(&target) : 0;
}

/* A rename onto it leaves its name with another inode in the kernel, so nothing of it is lasting. */
static int get_reply_file(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                          struct tree_entry *ret)
{
    struct email_view view;
    if (!store_get_email(tree->store, target_of(ino).email, &view))
        return -ENOENT;
    entry_fill(tree, ino, S_IFREG | 0200, 0, timespec_of_ms(view.date_ms), 0, ret);
    return 0;
}

int reply_file_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t folder, uint32_t email,
                      const char *name, struct tree_entry *ret)
{
    if (caller != NULL &&
        removed_names_find(&tree->removed, folder, name, caller->pid, clock_monotonic_ms(tree->clock), ret))
        return -ENOENT;
    return get_reply_file(tree, caller, ino_of_name(email, name), ret);
}

int reply_file_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t folder, uint32_t email,
                      const char *name)
{
    struct tree_entry entry;
    int error = reply_file_lookup(tree, caller, folder, email, name, &entry);
    if (error == 0)
        removed_names_add(&tree->removed, folder, name, caller->pid, clock_monotonic_ms(tree->clock), &entry);
    return error;
}

/* ---------------------------------------------------------------- what an answer is made of */

struct addresses {
    char **items;
    size_t len;
};

static void addresses_release(struct addresses *addresses)
{
    for (size_t i = 0; i < addresses->len; i++)
        free(addresses->items[i]);
    free(addresses->items);
}

static int add_address(struct addresses *addresses, const char *address)
{
    if (address == NULL)
        return 0;
    char **items = realloc(addresses->items, (addresses->len + 1) * sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    addresses->items = items;
    items[addresses->len] = strdup(address);
    return items[addresses->len] != NULL ? (addresses->len++, 0) : -ENOMEM;
}

static int collect_own(struct tree *tree, struct addresses *addresses)
{
    struct inbox_view view;
    uint64_t position = 0;
    int error = 0;
    while (error == 0 && store_list_inboxes(tree->store, position, &view, &position, 1) == 1)
        error = add_address(addresses, view.address);
    return error;
}

static int read_head(struct tree *tree, const struct tree_caller *caller, uint32_t email,
                     struct email_content *ret_head)
{
    struct store_content *content;
    int error = store_content_get(tree->store, email, caller->cancel, &content);
    if (error != 0)
        return error;
    error = store_content_read_head(content, ret_head);
    store_content_unref(content);
    return error;
}

/* What is to be known before anything can be handed in here: `answers` (reply_make() in reply.h), and a name
 * for the message; the caller frees both. Waits for the email's content: errors as in store_content.h. */
static int prepare_answer(struct tree *tree, const struct tree_caller *caller,
                          const struct reply_target *target, char **ret_answers, char **ret_name)
{
    _cleanup_(addresses_release) struct addresses own = {0};
    _cleanup_email_content_ struct email_content head = {0};
    struct email_view view;
    struct inbox_view inbox;
    const char *id = store_get_email_id(tree->store, target->email);
    if (id == NULL || !store_get_email(tree->store, target->email, &view) ||
        !store_get_inbox(tree->store, view.inbox, &inbox))
        return -ENOENT;
    int error = read_head(tree, caller, target->email, &head);
    error = error != 0 ? error : collect_own(tree, &own);
    if (error != 0)
        return error;

    const struct reply_original original = {
        .email_id = id,
        .inbox_address = inbox.address,
        .head = &head,
        .own_addresses = (const char *const *)own.items,
        .own_addresses_len = own.len,
    };
    _cleanup_free_ char *answers = NULL;
    error = reply_make(target->kind, &original, &answers);
    if (error != 0)
        return error;
    *ret_name = reply_file_name(answers);
    if (*ret_name == NULL)
        return -ENOMEM;
    *ret_answers = TAKE_PTR(answers);
    return 0;
}

/* ---------------------------------------------------------------- open files */

/* The kernel has one inode for all who write to a reply file at a time, so it must not cache: each of them
 * writes a message of its own, which is made at the first write. */

struct reply_handle {
    struct tree_handle base;
    struct reply_target target;
    char *answers; /* NULL: not known yet */
    char *name;

    pthread_mutex_t making;               /* held while the file is made */
    _Atomic(struct outbox_handle *) file; /* NULL: nothing was written yet */
    uint64_t number;                      /* of the message; set before `file` */
    atomic_llong end;                     /* where O_APPEND writes, which the kernel cannot know */
};

static struct outbox_handle *outbox_file_of(const struct tree_handle *handle)
{
    return atomic_load(&((const struct reply_handle *)handle)->file);
}

static int prepare(struct reply_handle *reply, const struct tree_caller *caller)
{
    if (reply->answers != NULL)
        return 0;
    return prepare_answer(reply->base.tree, caller, &reply->target, &reply->answers, &reply->name);
}

static void report_refused(struct reply_handle *reply, const char *words)
{
    struct tree *tree = reply->base.tree;
    char folder[NAME_MAX + 1];
    struct email_view view;
    struct inbox_view inbox;
    _cleanup_free_ char *path = NULL;
    if (!store_get_email(tree->store, reply->target.email, &view) ||
        !store_get_inbox(tree->store, view.inbox, &inbox))
        return;
    node_email_folder_name(&view, folder, sizeof(folder));
    if (asprintf(&path, "inboxes/%s/%s/%s", inbox.name, folder, names[reply->target.kind]) < 0)
        path = NULL;
    events_report(tree, EVENT_REFUSED, path, words);
}

/* What is first written to it. */
struct beginning {
    const void *bytes;
    size_t len;
};

/* Tells the writer at once what draft_parse() would find out when the file is closed, and the writer is gone.
 */
static int check_beginning(struct reply_handle *reply, const struct beginning *beginning)
{
    _cleanup_free_ char *words = NULL;
    int error = draft_check_beginning(beginning->bytes, beginning->len, reply->answers, &words);
    if (error == -EDESTADDRREQ)
        report_refused(reply, words);
    return error;
}

static int make_file_locked(struct reply_handle *reply, const struct tree_caller *caller,
                            const struct beginning *beginning)
{
    struct outbox_handle *file = NULL;
    struct outbox_stat stat;
    if (atomic_load(&reply->file) != NULL)
        return 0;
    int error = prepare(reply, caller);
    if (error == 0 && beginning != NULL)
        error = check_beginning(reply, beginning);
    if (error == 0)
        error = outbox_create_answer(reply->base.tree->outbox, reply->answers, reply->name, caller->pid,
                                     &file, &stat);
    if (error == 0) {
        reply->number = stat.number;
        atomic_store(&reply->file, file);
    }
    return error;
}

/* The file, made if it is not there. `beginning` may be NULL: nothing is written yet, or not at its start. */
static int need_file(struct tree_handle *handle, const struct tree_caller *caller,
                     const struct beginning *beginning, struct outbox_handle **ret_file)
{
    struct reply_handle *reply = (struct reply_handle *)handle;
    int error = 0;
    if (outbox_file_of(handle) == NULL) {
        pthread_mutex_lock(&reply->making);
        error = make_file_locked(reply, caller, beginning);
        pthread_mutex_unlock(&reply->making);
    }
    *ret_file = outbox_file_of(handle);
    return error;
}

/* The kernel lets one write at a time through. */
static ssize_t write_reply(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                           size_t len, off_t offset)
{
    struct reply_handle *reply = (struct reply_handle *)handle;
    const struct beginning beginning = {.bytes = bytes, .len = len};
    struct outbox_handle *file;
    bool is_at_start = offset == 0 || (handle->flags & O_APPEND) != 0;
    int error = need_file(handle, caller, is_at_start ? &beginning : NULL, &file);
    if (error != 0)
        return error;
    off_t end = (off_t)atomic_load(&reply->end);
    if ((handle->flags & O_APPEND) != 0)
        offset = end;
    ssize_t written = outbox_write(file, bytes, len, offset, caller->pid);
    if (written > 0 && end < offset + written)
        atomic_store(&reply->end, offset + written);
    return written;
}

static int set_reply_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    struct reply_handle *reply = (struct reply_handle *)handle;
    struct outbox_handle *file;
    if (size == 0 && outbox_file_of(handle) == NULL)
        return 0;
    int error = need_file(handle, caller, NULL, &file);
    if (error == 0)
        error = outbox_set_size(handle->tree->outbox, reply->number, file, size, caller->pid);
    if (error == 0)
        atomic_store(&reply->end, size);
    return error;
}

static int allocate_reply(struct tree_handle *handle, const struct tree_caller *caller, int mode,
                          off_t offset, off_t len)
{
    struct outbox_handle *file;
    int error = need_file(handle, caller, NULL, &file);
    return error != 0 ? error : outbox_allocate(file, mode, offset, len);
}

static int sync_reply(struct tree_handle *handle, bool is_data_only)
{
    struct outbox_handle *file = outbox_file_of(handle);
    return file == NULL ? 0 : outbox_sync_file(file);
}

static int flush_reply(struct tree_handle *handle, const struct tree_caller *caller)
{
    struct outbox_handle *file = outbox_file_of(handle);
    return file == NULL ? 0 : outbox_flush(file, caller->pid);
}

static bool is_reply_closed_well(const struct tree_handle *handle)
{
    struct outbox_handle *file = outbox_file_of(handle);
    return file == NULL || outbox_is_flushed(file);
}

static void free_reply(struct tree_handle *handle)
{
    struct reply_handle *reply = (struct reply_handle *)handle;
    pthread_mutex_destroy(&reply->making);
    free(reply->answers);
    free(reply->name);
    free(reply);
}

static void release_reply(struct tree_handle *handle)
{
    struct outbox_handle *file = outbox_file_of(handle);
    if (file != NULL)
        outbox_release(file);
    free_reply(handle);
}

static void abandon_reply(struct tree_handle *handle)
{
    struct outbox_handle *file = outbox_file_of(handle);
    if (file != NULL)
        outbox_abandon(file);
    free_reply(handle);
}

static struct reply_handle *new_reply(struct tree *tree, const struct reply_target *target, int flags)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_NONE,
        .write = write_reply,
        .set_size = set_reply_size,
        .allocate = allocate_reply,
        .sync = sync_reply,
        .flush = flush_reply,
        .is_closed_well = is_reply_closed_well,
        .release = release_reply,
        .abandon = abandon_reply,
    };
    struct reply_handle *reply = handle_new(tree, &ops, sizeof(*reply), flags);
    if (reply == NULL)
        return NULL;
    pthread_mutex_init(&reply->making, NULL);
    reply->target = *target;
    return reply;
}

static int open_reply_file(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                           struct tree_handle **ret_handle)
{
    const struct reply_target target = target_of(ino);
    if ((flags & O_ACCMODE) != O_WRONLY)
        return -EACCES;
    struct reply_handle *reply = new_reply(tree, &target, flags);
    if (reply == NULL)
        return -ENOMEM;
    int error = prepare(reply, caller);
    if (error != 0)
        free_reply(&reply->base);
    else
        *ret_handle = &reply->base;
    return error;
}

/* Creating may not wait: what is to be known is found out at the first write. */
int reply_file_create(struct tree *tree, const struct tree_caller *caller, uint64_t folder, uint32_t email,
                      const char *name, int flags, struct tree_entry *ret_entry,
                      struct tree_handle **ret_handle)
{
    uint64_t ino = ino_of_name(email, name);
    const struct reply_target target = target_of(ino);
    removed_names_take(&tree->removed, folder, name, caller->pid, clock_monotonic_ms(tree->clock));
    if ((flags & O_ACCMODE) != O_WRONLY)
        return -EACCES;
    int error = get_reply_file(tree, caller, ino, ret_entry);
    if (error != 0)
        return error;
    struct reply_handle *reply = new_reply(tree, &target, flags);
    if (reply == NULL)
        return -ENOMEM;
    *ret_handle = &reply->base;
    return 0;
}

int reply_file_hand_in(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                       uint32_t email, const char *reply_name)
{
    const struct reply_target target = target_of(ino_of_name(email, reply_name));
    _cleanup_free_ char *answers = NULL;
    _cleanup_free_ char *message_name = NULL;
    int error = prepare_answer(tree, caller, &target, &answers, &message_name);
    if (error != 0)
        return error;
    const struct hand_in to = {.name = message_name, .answers = answers};
    return items_hand_in(tree, caller, folder, name, &to);
}

/* Tools set attributes of a file that they are writing, or have written. */
static int set_reply_file(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                          struct tree_handle *handle, const struct tree_change *change)
{
    bool has_handle = handle != NULL && handle->ops->set_size != NULL;
    if ((change->fields & TREE_SET_SIZE) == 0 || (!has_handle && change->size == 0))
        return 0;
    return has_handle ? handle->ops->set_size(handle, caller, change->size) : -EINVAL;
}

const struct node_ops reply_file_ops = {
    .get = get_reply_file, .open = open_reply_file, .set_attributes = set_reply_file};
