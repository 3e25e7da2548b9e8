/* SPDX-License-Identifier: MIT */
/*
 * outbox/, attachments/, sent/ and failed/: names, attributes and open files of the outbox's items, moves
 * into and out of these folders, and in sent/ the records of mail that was sent elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/strbuf.h"
#include "mail/receipt.h"
#include "tree/node.h"

enum {
    DELIVERY_MAX_BYTES = 1024 * 1024
};

/* rsync(1) with --delay-updates makes this folder, and moves all copies out of it at the end. If rsync
 * cannot make the folder, rsync deletes the copies and exits with 0. So the folder exists and refuses files:
 * rsync then fails. */
static const char rsync_folder_name[] = ".~tmp~";

static bool is_settled(enum outbox_folder folder)
{
    return folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED;
}

/* ---------------------------------------------------------------- folders */

uint64_t items_folder_ino(enum outbox_folder folder)
{
    return node_ino(is_settled(folder) ? NODE_SETTLED_FOLDER : NODE_OUTBOX_FOLDER, folder);
}

bool items_is_folder(uint64_t ino)
{
    return node_kind(ino) == NODE_OUTBOX_FOLDER || node_kind(ino) == NODE_SETTLED_FOLDER;
}

static enum outbox_folder folder_of(uint64_t ino)
{
    return (enum outbox_folder)node_number(ino);
}

static int64_t folder_changed_ms(const struct tree *tree, uint64_t ino)
{
    return outbox_folder_changed_ms(tree->outbox, folder_of(ino));
}

static int lookup_in_rsync_folder(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                                  const char *name, struct tree_entry *ret)
{
    return -ENOENT;
}

const struct node_ops rsync_folder_ops = {.mode = S_IFDIR | 0700, .lookup = lookup_in_rsync_folder};

/* ---------------------------------------------------------------- the service's list of sent mail */

/* Returns true if the mail has an item in sent/, which is shown instead of the record. */
static bool is_from_here(struct tree *tree, const struct email_view *view)
{
    const char *id = store_get_email_id(tree->store, view->number);
    return id != NULL && outbox_has_id(tree->outbox, OUTBOX_FOLDER_SENT, id);
}

static void fill_sent_record(const struct tree *tree, const struct email_view *view, struct tree_entry *ret)
{
    entry_fill_record(tree, node_ino(NODE_SENT_RECORD, view->number), view, 0, ret);
}

static bool find_sent_record(struct tree *tree, const char *name, struct email_view *ret)
{
    return store_find_email(tree->store, STORE_SENT, false, name, ret) && !is_from_here(tree, ret);
}

static int get_sent_record(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                           struct tree_entry *ret)
{
    struct email_view view;
    if (!store_get_email(tree->store, (uint32_t)node_number(ino), &view))
        return -ENOENT;
    fill_sent_record(tree, &view, ret);
    return 0;
}

static int open_sent_record(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                            struct tree_handle **ret_handle)
{
    char *json;
    size_t len;
    int error = store_read_email(tree->store, (uint32_t)node_number(ino), &json, &len);
    return error != 0 ? error : handle_open_text(tree, flags, json, len, ret_handle);
}

const struct node_ops sent_record_ops = {.get = get_sent_record, .open = open_sent_record};

/* Permanently removes a record of mail sent elsewhere. Return: 0; -ENOENT when there is no such record. */
static int remove_sent_record(struct tree *tree, const char *name)
{
    struct email_view view;
    const char *id =
        find_sent_record(tree, name, &view) ? store_get_email_id(tree->store, view.number) : NULL;
    if (id == NULL)
        return -ENOENT;
    store_hide_sent(tree->store, id);
    return 0;
}

/* Returns the service's id of this file in sent/ (the caller frees it), or NULL if the file has none, or the
 * folder is not sent/. */
static char *copy_sent_id(struct tree *tree, enum outbox_folder folder, const char *name)
{
    struct outbox_stat stat;
    bool is_sent = folder == OUTBOX_FOLDER_SENT && outbox_find(tree->outbox, folder, name, &stat) &&
                   stat.aspect == OUTBOX_CONTENT;
    return is_sent ? outbox_copy_id(tree->outbox, stat.number) : NULL;
}

/* Hides the record of a file that the user removed from sent/. `id` may be NULL. */
static void hide_sent(struct tree *tree, const char *id)
{
    if (id != NULL)
        store_hide_sent(tree->store, id);
}

/* Appends the members that the service's list of sent mail adds to a receipt in sent/. */
static void append_delivery(const struct tree *tree, const struct outbox_stat *receipt, struct strbuf *out)
{
    struct email_view view;
    _cleanup_free_ char *id =
        receipt->folder == OUTBOX_FOLDER_SENT ? outbox_copy_id(tree->outbox, receipt->number) : NULL;
    _cleanup_free_ char *json = NULL;
    _cleanup_strbuf_ struct strbuf delivery = STRBUF_INIT(DELIVERY_MAX_BYTES);
    size_t len;
    if (id != NULL && store_find_sent_by_id(tree->store, id, &view) &&
        store_read_email(tree->store, view.number, &json, &len) == 0 &&
        receipt_delivery_format(json, len, &delivery) == 0)
        strbuf_append(out, delivery.data, delivery.len);
}

/* ---------------------------------------------------------------- entries */

/* `folder`: the folder in which the name was looked up, which the item may have left. */
static uint64_t item_ino(const struct outbox_stat *stat, enum outbox_folder folder)
{
    if (stat->aspect == OUTBOX_RECEIPT)
        return node_ino(NODE_RECEIPT, stat->number);
    return node_ino(is_settled(folder) ? NODE_SETTLED_ITEM : NODE_ITEM, stat->number);
}

static void fill_item(const struct tree *tree, const struct outbox_stat *stat, uint64_t ino,
                      struct tree_entry *ret)
{
    _cleanup_strbuf_ struct strbuf delivery = STRBUF_INIT(DELIVERY_MAX_BYTES);
    if (stat->aspect == OUTBOX_RECEIPT)
        append_delivery(tree, stat, &delivery);
    entry_fill(tree, ino, S_IFREG | stat->mode, (uint64_t)stat->size + delivery.len, stat->mtime, 0, ret);
}

/* An inode stays valid when its item moves to another folder. */
static int get_item(struct tree *tree, const struct tree_caller *caller, uint64_t ino, struct tree_entry *ret)
{
    struct outbox_stat stat;
    enum outbox_aspect aspect = node_kind(ino) == NODE_RECEIPT ? OUTBOX_RECEIPT : OUTBOX_CONTENT;
    if (!outbox_get(tree->outbox, node_number(ino), aspect, &stat))
        return -ENOENT;
    fill_item(tree, &stat, ino, ret);
    return 0;
}

static int lookup_item(struct tree *tree, const struct tree_caller *caller, uint64_t folder_ino,
                       const char *name, struct tree_entry *ret)
{
    enum outbox_folder folder = folder_of(folder_ino);
    struct outbox_stat stat;
    struct email_view view;
    if (outbox_find(tree->outbox, folder, name, &stat)) {
        fill_item(tree, &stat, item_ino(&stat, folder), ret);
        return 0;
    }
    if (folder == OUTBOX_FOLDER_SENT && find_sent_record(tree, name, &view)) {
        fill_sent_record(tree, &view, ret);
        return 0;
    }
    if (!is_settled(folder) && strcmp(name, rsync_folder_name) == 0)
        return node_get(tree, caller, node_ino(NODE_RSYNC_FOLDER, folder), ret);
    return removed_names_find(&tree->removed, caller->pid, folder_ino, name, ret) ? 0 : -ENOENT;
}

/* ---------------------------------------------------------------- listings */

/* The listing's state: the items when position 0 was last read. */
static int open_items(const struct tree_caller *caller, struct tree_dir *dir)
{
    dir->state = g_new0(struct outbox_listing, 1);
    return 0;
}

static void release_items(struct tree_dir *dir)
{
    outbox_listing_release(dir->state);
    g_free(dir->state);
}

/* The kernel reads from the middle after it has dropped a part of its cached listing. So a position is made
 * of the item's order of hand-in, not of an index in the listing, which removals change. The positions of
 * mail sent elsewhere begin at POSITION_SENT_RECORDS, which no order reaches. */
#define POSITION_SENT_RECORDS (UINT64_C(1) << 62)

static uint64_t position_of(const struct outbox_entry *entry)
{
    return 2 * entry->order + (entry->stat.aspect == OUTBOX_RECEIPT);
}

/* Passes only names: no entry of these folders is lasting, so the kernel looks each name up anyway. */
static int read_items(struct tree_dir *dir, uint64_t position)
{
    struct tree *tree = dir->base.tree;
    enum outbox_folder folder = folder_of(dir->ino);
    struct outbox_listing *items = dir->state;
    struct outbox_stat stat;
    struct email_view view;
    if (position == 0 || items->entries == NULL) {
        outbox_listing_release(items);
        outbox_list(tree->outbox, folder, items);
    }
    for (size_t i = 0; i < items->len; i++) {
        const struct outbox_entry *item = &items->entries[i];
        uint64_t ino = item_ino(&item->stat, item->stat.folder);
        if (position_of(item) >= position &&
            !dir_put_name(dir, item->name, ino, S_IFREG, position_of(item) + 1))
            return 0;
    }
    uint64_t next = position > POSITION_SENT_RECORDS ? position - POSITION_SENT_RECORDS : 0;
    while (folder == OUTBOX_FOLDER_SENT &&
           store_list_emails(tree->store, STORE_SENT, false, next, &view, &next, 1) == 1)
        if (!is_from_here(tree, &view) && !outbox_find(tree->outbox, folder, view.name, &stat) &&
            !dir_put_name(dir, view.name, node_ino(NODE_SENT_RECORD, view.number), S_IFREG,
                          POSITION_SENT_RECORDS + next))
            break;
    return 0;
}

/* ---------------------------------------------------------------- open files */

struct item_handle {
    struct tree_handle base;
    struct answer *answer;                /* of a reply file: makes the item at the first write; else NULL */
    pthread_mutex_t making;               /* held during answer_make() */
    _Atomic(struct outbox_handle *) file; /* NULL before the first write to a reply file */
};

static void free_item(struct item_handle *item)
{
    answer_free(item->answer);
    pthread_mutex_destroy(&item->making);
    free(item);
}

static struct outbox_handle *file_of(const struct tree_handle *handle)
{
    return atomic_load(&((const struct item_handle *)handle)->file);
}

/* Gets the item's file; for a reply file, first makes the item if there is none. `bytes`: as for
 * answer_make(). */
static int get_file(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                    size_t len, struct outbox_handle **ret_file)
{
    struct item_handle *item = (struct item_handle *)handle;
    *ret_file = file_of(handle);
    if (*ret_file != NULL)
        return 0;
    LOCK_GUARD(&item->making);
    *ret_file = file_of(handle);
    if (*ret_file != NULL)
        return 0;
    int error = answer_make(item->answer, caller, bytes, len, ret_file);
    if (error == 0)
        atomic_store(&item->file, *ret_file);
    return error;
}

static int read_item(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    struct outbox_handle *file = file_of(handle);
    /* After posix_fadvise(2) the kernel reads even a reply file, which is open only for writing. */
    if (file == NULL || ((struct item_handle *)handle)->answer != NULL)
        return -EBADF;
    ssize_t count = outbox_read(file, handle_read_buffer(ret, len), len, offset);
    if (count < 0)
        return (int)count;
    ret->len = (size_t)count;
    return 0;
}

/* The kernel does not know the size of a reply file, so bytes that are written with O_APPEND go to the end of
 * the message, whatever their offset. The kernel sends one write at a time. */
static ssize_t write_item(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                          size_t len, off_t offset)
{
    const struct item_handle *item = (struct item_handle *)handle;
    struct outbox_handle *file;
    bool is_appended = item->answer != NULL && (handle->flags & O_APPEND) != 0;
    int error = get_file(handle, caller, offset == 0 || is_appended ? bytes : NULL, len, &file);
    if (error != 0)
        return error;
    return outbox_write(file, bytes, len, is_appended ? OUTBOX_AT_END : offset, caller->pid);
}

static int set_item_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    struct outbox_handle *file;
    if (size == 0 && file_of(handle) == NULL)
        return 0;
    int error = get_file(handle, caller, NULL, 0, &file);
    return error != 0 ? error : outbox_set_size(file, size, caller->pid);
}

static int sync_item(struct tree_handle *handle, bool is_data_only)
{
    return outbox_sync_file(file_of(handle));
}

static int flush_item(struct tree_handle *handle, const struct tree_caller *caller)
{
    return outbox_flush(file_of(handle), caller->pid);
}

static bool is_item_closed_well(const struct tree_handle *handle)
{
    return outbox_is_flushed(file_of(handle));
}

static void release_item(struct tree_handle *handle)
{
    outbox_release(file_of(handle));
    free_item((struct item_handle *)handle);
}

static void abandon_item(struct tree_handle *handle)
{
    outbox_abandon(file_of(handle));
    free_item((struct item_handle *)handle);
}

static const struct handle_ops item_handle_ops = {
    .caching = TREE_CACHE_OPEN,
    .read = read_item,
    .write = write_item,
    .set_size = set_item_size,
    .sync = sync_item,
    .flush = flush_item,
    .is_closed_well = is_item_closed_well,
    .release = release_item,
    .abandon = abandon_item,
};

static struct item_handle *new_item(struct tree *tree, int flags, struct outbox_handle *file)
{
    struct item_handle *item = handle_new(tree, &item_handle_ops, sizeof(*item), flags);
    pthread_mutex_init(&item->making, NULL);
    item->file = file;
    return item;
}

/* All writers to a reply file share an inode, but each writes a message of its own: the kernel must not cache
 * the bytes. */
void items_open_answer(struct tree *tree, int flags, struct answer *answer, struct tree_handle **ret_handle)
{
    struct item_handle *item = new_item(tree, flags, NULL);
    item->base.caching = TREE_CACHE_NONE;
    item->answer = answer;
    *ret_handle = &item->base;
}

static int open_item(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                     struct tree_handle **ret_handle)
{
    uint64_t number = node_number(ino);
    struct outbox_stat stat;
    struct outbox_handle *file;
    /* The item may have left the folder since the lookup; its name is then free, or another item's. */
    if (node_kind(ino) == NODE_ITEM && outbox_get(tree->outbox, number, OUTBOX_CONTENT, &stat) &&
        is_settled(stat.folder)) {
        removed_names_forget(&tree->removed, caller->pid, ino);
        return -ESTALE;
    }
    int error = outbox_open_item(tree->outbox, number, flags, caller->pid, &file);
    if (error != 0)
        return error;
    *ret_handle = &new_item(tree, flags, file)->base;
    return 0;
}

static int open_receipt(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                        struct tree_handle **ret_handle)
{
    uint64_t number = node_number(ino);
    struct outbox_stat stat;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RECEIPT_MAX_BYTES + DELIVERY_MAX_BYTES);
    int error = outbox_read_receipt(tree->outbox, number, &text);
    if (error != 0)
        return error;
    strbuf_truncate(&text, text.len - strlen(RECEIPT_END));
    if (outbox_get(tree->outbox, number, OUTBOX_RECEIPT, &stat))
        append_delivery(tree, &stat, &text);
    strbuf_append_str(&text, RECEIPT_END);
    size_t len = text.len;
    return handle_open_text(tree, flags, strbuf_take(&text, NULL), len, ret_handle);
}

static int set_item(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                    struct tree_handle *handle, const struct tree_change *change)
{
    uint64_t number = node_number(ino);
    int error = 0;
    if ((change->fields & TREE_SET_SIZE) != 0) {
        bool has_handle = handle != NULL && handle->ops->set_size != NULL;
        error = has_handle ? handle->ops->set_size(handle, caller, change->size)
                           : outbox_truncate(tree->outbox, number, change->size, caller->pid);
    }
    if (error == 0 && (change->fields & TREE_SET_TIMES) != 0)
        error = outbox_set_times(tree->outbox, number, change->times);
    return error;
}

/* install(1) and cp -p set mode and owner by path after the close, when the mail may already be sent. */
const struct node_ops item_ops = {
    .get = get_item,
    .open = open_item,
    .ignored_changes = TREE_SET_MODE | TREE_SET_UID | TREE_SET_GID,
    .set_attributes = set_item,
};
const struct node_ops receipt_ops = {.get = get_item, .open = open_receipt};

/* ---------------------------------------------------------------- names made and removed */

static int create_item(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                       mode_t mode, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    struct outbox_stat stat;
    struct outbox_handle *file;
    int error = outbox_create(tree->outbox, folder_of(folder), name, caller->pid, NULL, &file, &stat);
    if (error != 0)
        return error;
    fill_item(tree, &stat, item_ino(&stat, folder_of(folder)), ret_entry);
    *ret_handle = &new_item(tree, flags, file)->base;
    return 0;
}

static int unlink_item(struct tree *tree, const struct tree_caller *caller, uint64_t folder_ino,
                       const char *name)
{
    enum outbox_folder folder = folder_of(folder_ino);
    char receipt[NAME_MAX + sizeof(RECEIPT_SUFFIX)];
    struct tree_entry entry;
    snprintf(receipt, sizeof(receipt), "%s%s", name, RECEIPT_SUFFIX);
    bool has_receipt = lookup_item(tree, &no_caller, folder_ino, receipt, &entry) == 0;
    _cleanup_free_ char *id = copy_sent_id(tree, folder, name);
    int error = outbox_unlink(tree->outbox, folder, name);
    if (error == 0) {
        hide_sent(tree, id);
        if (has_receipt)
            removed_names_add(&tree->removed, caller->pid, folder_ino, receipt, &entry);
    }
    if (error != -ENOENT)
        return error;
    if (folder == OUTBOX_FOLDER_SENT && remove_sent_record(tree, name) == 0)
        return 0;
    /* removed_names also has the names of sent items in outbox/, whose removal must fail. */
    if (!removed_names_find(&tree->removed, caller->pid, folder_ino, name, &entry) ||
        node_kind(entry.ino) != NODE_RECEIPT)
        return -ENOENT;
    removed_names_forget(&tree->removed, caller->pid, entry.ino);
    return 0;
}

/* ---------------------------------------------------------------- drafts that are handed in */

/* Returns a path as "drafts/sub/name" (the caller frees it) for messages to the user. */
static char *format_shown_path(const struct tree *tree, int folder_fd, const char *name)
{
    char fd_path[DRAFT_FD_PATH_SIZE];
    draft_fd_path(tree->drafts.root.fd, fd_path);
    _cleanup_free_ char *root = g_file_read_link(fd_path, NULL);
    draft_fd_path(folder_fd, fd_path);
    _cleanup_free_ char *path = g_file_read_link(fd_path, NULL);
    bool is_below = root != NULL && path != NULL && g_str_has_prefix(path, root);
    return g_strdup_printf("drafts%s/%s", is_below ? path + strlen(root) : "", name);
}

static int hand_in_file(struct tree *tree, const struct tree_caller *caller, int folder_fd, const char *name,
                        const struct hand_in *to, const char *shown_path)
{
    _cleanup_close_ int dir_fd = draft_open_folder(folder_fd);
    if (dir_fd < 0)
        return dir_fd;
    struct outbox_stat stat;
    struct tree_entry entry;
    int error = outbox_hand_in(tree->outbox, dir_fd, name, shown_path, to, caller->pid, &stat);
    if (error != 0 || to->reply_template != NULL)
        return error;
    /* mv(1) of several files stats each file after its move, when the file may already be sent. */
    fill_item(tree, &stat, item_ino(&stat, to->folder), &entry);
    removed_names_add(&tree->removed, caller->pid, items_folder_ino(to->folder), to->name, &entry);
    return 0;
}

int items_hand_in(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  const struct hand_in *to)
{
    int folder_fd = draft_table_node(&tree->drafts, node_number(folder))->fd;
    struct draft_node *node = NULL;
    struct stat stat;
    int error = draft_table_find(&tree->drafts, folder_fd, name, &node, &stat);
    if (error != 0)
        return error;
    _cleanup_free_ char *shown_path = format_shown_path(tree, folder_fd, name);
    error = draft_node_begin_move(&tree->drafts, node, caller->cancel);
    if (error == 0) {
        error = hand_in_file(tree, caller, folder_fd, name, to, shown_path);
        draft_node_end_move(&tree->drafts, node, error == 0);
    } else if (error == -EBUSY) {
        events_report(tree, EVENT_REFUSED, shown_path, "the file is being written, mapped or moved");
    }
    draft_node_unref(&tree->drafts, node, 1);
    return error;
}

/* ---------------------------------------------------------------- renames of items */

/* Returns false for receipts and for records of mail sent elsewhere. */
static bool can_be_renamed(struct tree *tree, enum outbox_folder folder, const char *name)
{
    struct outbox_stat stat;
    struct email_view view;
    if (outbox_find(tree->outbox, folder, name, &stat))
        return stat.aspect != OUTBOX_RECEIPT;
    return folder != OUTBOX_FOLDER_SENT || !find_sent_record(tree, name, &view);
}

int items_take_out(struct tree *tree, uint64_t folder_ino, const char *name, int dir_fd, const char *new_name,
                   unsigned int flags)
{
    enum outbox_folder folder = folder_of(folder_ino);
    if (!can_be_renamed(tree, folder, name))
        return -EPERM;
    _cleanup_free_ char *id = copy_sent_id(tree, folder, name);
    int error = outbox_take_out(tree->outbox, folder, name, dir_fd, new_name, flags);
    if (error == 0)
        hide_sent(tree, id);
    return error;
}

static int rename_into_folder(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                              const char *name, uint64_t new_folder, const char *new_name, unsigned int flags)
{
    const struct hand_in to = {.folder = folder_of(new_folder), .name = new_name, .flags = flags};
    if (node_kind(folder) == NODE_DRAFT)
        return items_hand_in(tree, caller, folder, name, &to);
    if (!items_is_folder(folder) || !can_be_renamed(tree, folder_of(folder), name))
        return -EPERM;
    _cleanup_free_ char *id = copy_sent_id(tree, folder_of(folder), name);
    int error = outbox_rename(tree->outbox, folder_of(folder), name, to.folder, new_name, flags, caller->pid);
    if (error == 0)
        hide_sent(tree, id);
    return error;
}

/* ---------------------------------------------------------------- the folders' operations */

static int wait_until_settled(struct tree *tree, const struct tree_caller *caller, uint64_t folder)
{
    return outbox_wait_settled(tree->outbox, folder_of(folder), caller->pid, caller->cancel);
}

const struct node_ops outbox_folder_ops = {
    .mode = S_IFDIR | 0700,
    .lasting = LASTING_NAME,
    .changed_ms = folder_changed_ms,
    .ignored_changes = TREE_SET_WITHOUT_SIZE,
    .lookup = lookup_item,
    .open_dir = open_items,
    .read_dir = read_items,
    .release_dir = release_items,
    .is_barrier = true,
    .create = create_item,
    .unlink = unlink_item,
    .rename = rename_into_folder,
    .sync = wait_until_settled,
};

const struct node_ops settled_folder_ops = {
    .mode = S_IFDIR | 0700,
    .lasting = LASTING_NAME,
    .changed_ms = folder_changed_ms,
    .lookup = lookup_item,
    .open_dir = open_items,
    .read_dir = read_items,
    .release_dir = release_items,
    .is_listing_lasting = true,
    .lookup_announced = lookup_item,
    .unlink = unlink_item,
};
