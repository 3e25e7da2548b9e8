/* SPDX-License-Identifier: MIT */
/*
 * Open files: which kind an inode opens as, and the way through to that kind; and texts that are made when
 * they are opened.
 */
#include "tree/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tree/handle_type.h"
#include "tree/inode.h"
#include "tree/items.h"
#include "tree/maildir.h"
#include "tree/reply_file.h"
#include "tree/root.h"

void *handle_new(struct tree *tree, const struct handle_ops *ops, size_t size, int flags)
{
    struct tree_handle *handle = calloc(1, size);
    if (handle != NULL)
        *handle = (struct tree_handle){.ops = ops, .tree = tree, .flags = flags};
    return handle;
}

void tree_link_add(struct tree *tree, struct tree_link *list, struct tree_link *link)
{
    pthread_mutex_lock(&tree->open_lock);
    *link = (struct tree_link){.previous = list->previous, .next = list};
    list->previous->next = link;
    list->previous = link;
    pthread_mutex_unlock(&tree->open_lock);
}

void tree_link_remove(struct tree *tree, struct tree_link *link)
{
    pthread_mutex_lock(&tree->open_lock);
    link->previous->next = link->next;
    link->next->previous = link->previous;
    pthread_mutex_unlock(&tree->open_lock);
}

void tree_data_release(struct tree_data *data)
{
    free(data->owned);
    data->owned = NULL;
}

bool handle_is_for_reading(int flags)
{
    return (flags & O_ACCMODE) == O_RDONLY && (flags & O_TRUNC) == 0;
}

void tree_handle_free(struct tree_handle *handle)
{
    free(handle);
}

/* Answers from a text that outlives the reply. */
int handle_read_text(const char *text, size_t text_len, size_t len, off_t offset, struct tree_data *ret)
{
    if (offset < 0)
        return -EINVAL;
    if ((size_t)offset >= text_len)
        return 0;
    size_t rest = text_len - (size_t)offset;
    ret->bytes = text + offset;
    ret->len = len < rest ? len : rest;
    return 0;
}

/* ---------------------------------------------------------------- texts made when they are opened */

struct text_handle {
    struct tree_handle base;
    char *text;
    size_t len;
};

static int read_text(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct text_handle *text = (struct text_handle *)handle;
    return handle_read_text(text->text, text->len, len, offset, ret);
}

static void release_text(struct tree_handle *handle)
{
    free(((struct text_handle *)handle)->text);
    free(handle);
}

int text_open(struct tree *tree, int flags, char *text, size_t len, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {.read = read_text, .release = release_text};
    _cleanup_free_ char *taken = text;
    if (!handle_is_for_reading(flags))
        return -EACCES;
    struct text_handle *handle = text == NULL ? NULL : handle_new(tree, &ops, sizeof(*handle), flags);
    if (handle == NULL)
        return -ENOMEM;
    handle->text = TAKE_PTR(taken);
    handle->len = len;
    *ret_handle = &handle->base;
    return 0;
}

/* ---------------------------------------------------------------- which kind an inode opens as */

static int open_fixed(struct tree *tree, uint64_t node, int flags, struct tree_handle **ret_handle)
{
    switch (node) {
    case FIXED_README:
        return readme_open(tree, flags, ret_handle);
    case FIXED_STATUS:
        return status_open(tree, flags, ret_handle);
    case FIXED_EVENTS:
        return event_stream_open(tree, flags, ret_handle);
    case FIXED_CTL:
        return control_open(tree, flags, ret_handle);
    default:
        return -EISDIR;
    }
}

static int open_draft(struct tree *tree, uint64_t ino, int flags, struct tree_handle **ret_handle)
{
    struct draft_node *node = draft_table_get(&tree->drafts, ino);
    return node == NULL ? -ESTALE : draft_open(tree, node, flags, ret_handle);
}

static bool item_has_left(struct tree *tree, uint64_t number)
{
    struct outbox_stat stat;
    return outbox_get(tree->outbox, number, OUTBOX_CONTENT, &stat) &&
           (stat.folder == OUTBOX_FOLDER_SENT || stat.folder == OUTBOX_FOLDER_FAILED);
}

static int open_node(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                     struct tree_handle **ret_handle)
{
    uint64_t number = inode_number(ino);
    switch (inode_kind(ino)) {
    case INODE_FIXED:
        return open_fixed(tree, number, flags, ret_handle);
    case INODE_INBOX:
    case INODE_HELD:
    case INODE_SEARCH:
    case INODE_DELAYED:
        return -EISDIR;
    case INODE_SEARCH_HIT:
        return -ELOOP;
    case INODE_INBOX_RECORD:
        return inbox_record_open(tree, caller, (uint32_t)number, flags, ret_handle);
    case INODE_INBOX_INDEX:
        return inbox_index_open(tree, (uint32_t)number, flags, ret_handle);
    case INODE_MAILDIR:
        return maildir_is_folder(ino) ? -EISDIR
                                      : maildir_uidvalidity_open(tree, maildir_inbox(ino), flags, ret_handle);
    case INODE_MAILDIR_MESSAGE:
        return maildir_message_open(tree, caller, (uint32_t)number, flags, ret_handle);
    case INODE_EMAIL:
        return email_open(tree, (uint32_t)number, flags, ret_handle);
    case INODE_ITEM:
        /* A name that has left is there to be touched and renamed, not to be read and sent once more. */
        if ((flags & O_ACCMODE) == O_RDONLY && (flags & O_TRUNC) == 0 && item_has_left(tree, number))
            return -ENOENT;
        return item_open(tree, caller, number, OUTBOX_CONTENT, flags, ret_handle);
    case INODE_SETTLED_ITEM:
        return item_open(tree, caller, number, OUTBOX_CONTENT, flags, ret_handle);
    case INODE_RECEIPT:
        return sent_receipt_open(tree, caller, number, flags, ret_handle);
    case INODE_SENT:
        return sent_record_open(tree, (uint32_t)number, flags, ret_handle);
    case INODE_ANSWER:
        return answer_open(tree, caller, ino, flags, ret_handle);
    case INODE_CONTENT:
        return content_open(tree, caller, ino, flags, ret_handle);
    case INODE_SEARCH_NOTE:
        return search_note_open(tree, ino, flags, ret_handle);
    case INODE_EVENT_LOG:
        return event_log_open(tree, number, flags, ret_handle);
    case INODE_DRAFT:
        return open_draft(tree, ino, flags, ret_handle);
    }
    return -ENOENT;
}

int tree_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
              struct tree_handle **ret_handle)
{
    int error = open_node(tree, caller, ino, flags, ret_handle);
    if (error == 0)
        tree_link_add(tree, &tree->open_handles, &(*ret_handle)->link);
    return error;
}

bool tree_open_may_wait(struct tree *tree, uint64_t ino, int flags)
{
    (void)tree;
    if (inode_kind(ino) == INODE_MAILDIR_MESSAGE)
        return true;
    bool wants_write = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
    return inode_kind(ino) == INODE_CONTENT || (wants_write && tree_may_wait(ino));
}

static int create_node(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                       mode_t mode, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    struct answer_door door;
    enum outbox_folder folder;
    struct draft_node *draft = draft_table_get(&tree->drafts, parent);
    if (maildir_is_folder(parent))
        return maildir_create(tree, parent, name, mode, flags, ret_entry, ret_handle);
    if (answer_door_find(tree, parent, name, &door)) {
        removed_names_take(&tree->removed, parent, name, caller->pid, clock_monotonic_ms(tree->clock));
        return answer_create(tree, &door, flags, ret_entry, ret_handle);
    }
    if (draft != NULL)
        return draft_create(tree, draft, name, mode, flags, ret_entry, ret_handle);
    if (inode_kind(parent) == INODE_FIXED &&
        fixed_is_outbox_folder((enum fixed_node)inode_number(parent), &folder))
        return item_create(tree, caller, folder, name, flags, ret_entry, ret_handle);
    return -EPERM;
}

int tree_create(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                mode_t mode, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    int error = create_node(tree, caller, parent, name, mode, flags, ret_entry, ret_handle);
    if (error == 0)
        tree_link_add(tree, &tree->open_handles, &(*ret_handle)->link);
    return error;
}

enum tree_caching tree_handle_caching(const struct tree_handle *handle)
{
    return handle->ops->caching;
}

bool tree_handle_is_writable(const struct tree_handle *handle)
{
    return (handle->flags & O_ACCMODE) != O_RDONLY;
}

bool tree_handle_may_wait(const struct tree_handle *handle)
{
    return handle->ops->may_wait;
}

bool tree_handle_write_may_wait(const struct tree_handle *handle)
{
    return handle->ops->write_may_wait;
}

bool tree_handle_next_write_may_wait(struct tree_handle *handle)
{
    const struct handle_ops *ops = handle->ops;
    return ops->write_may_wait || (ops->next_write_may_wait != NULL && ops->next_write_may_wait(handle));
}

int tree_read(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    *ret = (struct tree_data){.fd = -1};
    return handle->ops->read == NULL ? -EBADF : handle->ops->read(handle, len, offset, ret);
}

bool tree_take_first_content(struct tree_handle *handle, struct tree_data *ret)
{
    *ret = (struct tree_data){.fd = -1};
    return handle->ops->take_first_content != NULL && handle->ops->take_first_content(handle, ret);
}

bool tree_is_readable(struct tree_handle *handle)
{
    return handle->ops->is_readable == NULL || handle->ops->is_readable(handle);
}

ssize_t tree_write(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                   size_t len, off_t offset)
{
    return handle->ops->write == NULL ? -EBADF : handle->ops->write(handle, caller, bytes, len, offset);
}

int tree_allocate(struct tree_handle *handle, const struct tree_caller *caller, int mode, off_t offset,
                  off_t len)
{
    return handle->ops->allocate == NULL ? -EOPNOTSUPP
                                         : handle->ops->allocate(handle, caller, mode, offset, len);
}

off_t tree_seek(struct tree_handle *handle, const struct tree_caller *caller, uint64_t ino, off_t offset,
                int whence)
{
    struct tree_attributes attributes;
    off_t found = handle->ops->seek == NULL ? -EOPNOTSUPP : handle->ops->seek(handle, offset, whence);
    if (found != -EOPNOTSUPP)
        return found;
    int error = tree_get_attributes(handle->tree, caller, ino, &attributes);
    if (error != 0)
        return error;
    off_t size = attributes.stat.st_size;
    if (offset < 0 || offset >= size)
        return -ENXIO;
    return whence == SEEK_HOLE ? size : offset;
}

ssize_t tree_copy_range(struct tree_handle *from, off_t from_offset, struct tree_handle *to, off_t to_offset,
                        size_t len)
{
    int from_fd = draft_handle_fd(from);
    int to_fd = draft_handle_fd(to);
    if (from_fd < 0 || to_fd < 0)
        return -EOPNOTSUPP;
    ssize_t copied = copy_file_range(from_fd, &from_offset, to_fd, &to_offset, len, 0);
    return copied < 0 ? -errno : copied;
}

int tree_sync_file(struct tree_handle *handle, bool is_data_only)
{
    return handle->ops->sync == NULL ? 0 : handle->ops->sync(handle, is_data_only);
}

int tree_flush(struct tree_handle *handle, const struct tree_caller *caller)
{
    return handle->ops->flush == NULL ? 0 : handle->ops->flush(handle, caller);
}

void tree_release(struct tree_handle *handle)
{
    tree_link_remove(handle->tree, &handle->link);
    handle->ops->release(handle);
}

static struct tree_handle *handle_at(struct tree_link *link)
{
    return (struct tree_handle *)(void *)((char *)link - offsetof(struct tree_handle, link));
}

void tree_close_handles(struct tree *tree)
{
    struct tree_link *next;
    for (struct tree_link *link = tree->open_handles.next; link != &tree->open_handles; link = next) {
        struct tree_handle *handle = handle_at(link);
        next = link->next;
        if (handle->ops->is_closed_well == NULL || handle->ops->is_closed_well(handle))
            tree_release(handle);
    }
}

static void abandon(struct tree_handle *handle)
{
    tree_link_remove(handle->tree, &handle->link);
    if (handle->ops->abandon != NULL)
        handle->ops->abandon(handle);
    else
        handle->ops->release(handle);
}

void tree_abandon_handles(struct tree *tree)
{
    while (tree->open_handles.next != &tree->open_handles)
        abandon(handle_at(tree->open_handles.next));
    directory_abandon_all(tree);
}

/* ---------------------------------------------------------------- what appeared, once more */

bool tree_is_announced(uint64_t folder_ino)
{
    enum outbox_folder folder;
    if (inode_kind(folder_ino) == INODE_INBOX)
        return true;
    return inode_kind(folder_ino) == INODE_FIXED &&
           fixed_is_outbox_folder((enum fixed_node)inode_number(folder_ino), &folder) &&
           (folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED);
}

int tree_create_announced(struct tree *tree, uint64_t folder_ino, const char *name,
                          struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    /* What the kernel has cached of it stays true: nothing is written. */
    static const struct handle_ops ops = {.caching = TREE_CACHE_LASTING, .release = tree_handle_free};
    if (!tree_is_announced(folder_ino))
        return -EPERM;
    int error = tree_lookup(tree, NULL, folder_ino, name, ret_entry);
    if (error != 0)
        return error;
    struct tree_handle *handle = handle_new(tree, &ops, sizeof(*handle), O_RDONLY);
    if (handle == NULL)
        return -ENOMEM;
    tree_link_add(tree, &tree->open_handles, &handle->link);
    *ret_handle = handle;
    return 0;
}
