/* SPDX-License-Identifier: MIT */
/*
 * Open files of the outbox: messages, attachments and receipts.
 */
#include <errno.h>
#include <stdlib.h>

#include "tree/entry.h"
#include "tree/handle_type.h"

struct item_handle {
    struct tree_handle base;
    struct outbox_handle *file;
    uint64_t number;
};

static struct outbox_handle *file_of(const struct tree_handle *handle)
{
    return ((const struct item_handle *)handle)->file;
}

static int read_item(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    ret->owned = malloc(len);
    if (ret->owned == NULL)
        return -ENOMEM;
    ssize_t count = outbox_read(file_of(handle), ret->owned, len, offset);
    if (count < 0) {
        tree_data_release(ret);
        return (int)count;
    }
    ret->bytes = ret->owned;
    ret->len = (size_t)count;
    return 0;
}

static bool item_write_may_wait(struct tree_handle *handle)
{
    return outbox_write_may_wait(file_of(handle));
}

static ssize_t write_item(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                          size_t len, off_t offset)
{
    return outbox_write(file_of(handle), bytes, len, offset, caller->pid);
}

static int set_item_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    const struct item_handle *item = (struct item_handle *)handle;
    return outbox_set_size(handle->tree->outbox, item->number, item->file, size, caller->pid);
}

static int allocate_item(struct tree_handle *handle, const struct tree_caller *caller, int mode, off_t offset,
                         off_t len)
{
    (void)caller;
    return outbox_allocate(file_of(handle), mode, offset, len);
}

static int sync_item(struct tree_handle *handle, bool is_data_only)
{
    (void)is_data_only;
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
    free(handle);
}

static void abandon_item(struct tree_handle *handle)
{
    outbox_abandon(file_of(handle));
    free(handle);
}

static const struct handle_ops item_ops = {
    .caching = TREE_CACHE_OPEN,
    .may_wait = true,
    .next_write_may_wait = item_write_may_wait,
    .read = read_item,
    .write = write_item,
    .set_size = set_item_size,
    .allocate = allocate_item,
    .sync = sync_item,
    .flush = flush_item,
    .is_closed_well = is_item_closed_well,
    .release = release_item,
    .abandon = abandon_item,
};

int item_open(struct tree *tree, const struct tree_caller *caller, uint64_t number, enum outbox_aspect aspect,
              int flags, struct tree_handle **ret_handle)
{
    struct item_handle *item = handle_new(tree, &item_ops, sizeof(*item), flags);
    if (item == NULL)
        return -ENOMEM;
    int error = outbox_open_item(tree->outbox, number, aspect, flags, caller->pid, &item->file);
    if (error != 0) {
        free(item);
        return error;
    }
    item->number = number;
    *ret_handle = &item->base;
    return 0;
}

int item_create(struct tree *tree, const struct tree_caller *caller, enum outbox_folder folder,
                const char *name, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    struct outbox_stat stat;
    struct item_handle *item = handle_new(tree, &item_ops, sizeof(*item), flags);
    if (item == NULL)
        return -ENOMEM;
    int error = outbox_create(tree->outbox, folder, name, caller->pid, &item->file, &stat);
    if (error != 0) {
        free(item);
        return error;
    }
    item->number = stat.number;
    entry_of_item(tree, &stat, folder, ret_entry);
    *ret_handle = &item->base;
    return 0;
}
