/* SPDX-License-Identifier: MIT */
/*
 * What is in the outbox's folders: open messages, attachments and receipts, and sent mail as the service has
 * it.
 */
#include "tree/items.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/receipt.h"
#include "tree/entry.h"
#include "tree/handle_type.h"
#include "tree/inode.h"

/* ---------------------------------------------------------------- open files */

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

/* ---------------------------------------------------------------- sent mail */

enum {
    DELIVERY_MAX_BYTES = 1024 * 1024
};

/* ---------------------------------------------------------------- records */

static bool is_from_here(struct tree *tree, uint32_t number)
{
    const char *id = store_get_sent_id(tree->store, number);
    return id != NULL && outbox_has_id(tree->outbox, OUTBOX_FOLDER_SENT, id);
}

int sent_folder_lookup(struct tree *tree, const char *name, struct tree_entry *ret)
{
    struct email_view view;
    if (!store_find_sent(tree->store, name, &view) || is_from_here(tree, view.number))
        return -ENOENT;
    entry_of_sent(tree, &view, ret);
    return 0;
}

bool sent_folder_get(struct tree *tree, uint32_t number, struct tree_entry *ret)
{
    struct email_view view;
    if (!store_get_sent(tree->store, number, &view))
        return false;
    entry_of_sent(tree, &view, ret);
    return true;
}

int sent_folder_remove(struct tree *tree, const char *name)
{
    struct email_view view;
    const char *id = NULL;
    if (store_find_sent(tree->store, name, &view) && !is_from_here(tree, view.number))
        id = store_get_sent_id(tree->store, view.number);
    if (id == NULL)
        return -ENOENT;
    store_hide_sent(tree->store, id);
    return 0;
}

char *sent_folder_get_id(struct tree *tree, const char *name)
{
    struct outbox_stat stat;
    char *id = NULL;
    if (outbox_find(tree->outbox, OUTBOX_FOLDER_SENT, name, &stat) && stat.aspect == OUTBOX_CONTENT)
        (void)outbox_get_id(tree->outbox, stat.number, &id);
    return id;
}

void sent_folder_forget(struct tree *tree, char *id)
{
    if (id != NULL)
        store_hide_sent(tree->store, id);
    free(id);
}

int sent_folder_map_ids(const struct outbox_listing *listing, struct map *ret_ids)
{
    for (size_t i = 0; i < listing->len; i++) {
        struct outbox_entry *entry = &listing->entries[i];
        int error = entry->id == NULL ? 0 : map_set(ret_ids, entry->id, entry);
        if (error != 0)
            return error;
    }
    return 0;
}

static bool is_listed(struct tree *tree, const struct map *ids, const struct email_view *view)
{
    struct outbox_stat stat;
    const char *id = store_get_sent_id(tree->store, view->number);
    return (id != NULL && map_find(ids, id) != NULL) ||
           outbox_find(tree->outbox, OUTBOX_FOLDER_SENT, view->name, &stat);
}

bool sent_folder_next(struct tree *tree, const struct map *listed_ids, uint64_t *position,
                      const char **ret_name, struct tree_entry *ret)
{
    struct email_view view;
    while (store_list_sent(tree->store, *position, &view, position, 1) == 1) {
        if (is_listed(tree, listed_ids, &view))
            continue;
        *ret_name = view.name;
        entry_of_sent(tree, &view, ret);
        return true;
    }
    return false;
}

int sent_record_open(struct tree *tree, uint32_t number, int flags, struct tree_handle **ret_handle)
{
    char *json;
    size_t len;
    int error = store_read_sent(tree->store, number, &json, &len);
    return error != 0 ? error : text_open(tree, flags, json, len, ret_handle);
}

/* ---------------------------------------------------------------- receipts */

/* Nothing, where the service tells nothing of it. */
static int format_delivery(const struct tree *tree, uint64_t number, struct strbuf *out)
{
    struct email_view view;
    _cleanup_free_ char *id = NULL;
    _cleanup_free_ char *json = NULL;
    size_t len;
    int error = outbox_get_id(tree->outbox, number, &id);
    if (error != 0 || id == NULL || !store_find_sent_by_id(tree->store, id, &view))
        return error;
    error = store_read_sent(tree->store, view.number, &json, &len);
    return error != 0 ? error : receipt_delivery_format(json, len, out);
}

size_t sent_delivery_len(const struct tree *tree, const struct outbox_stat *stat)
{
    _cleanup_strbuf_ struct strbuf delivery = STRBUF_INIT(DELIVERY_MAX_BYTES);
    if (stat->aspect != OUTBOX_RECEIPT || stat->folder != OUTBOX_FOLDER_SENT ||
        format_delivery(tree, stat->number, &delivery) != 0)
        return 0;
    return delivery.len;
}

static int read_receipt(struct tree *tree, const struct tree_caller *caller, const struct outbox_stat *stat,
                        struct strbuf *out)
{
    struct outbox_handle *handle = NULL;
    int error = outbox_open_item(tree->outbox, stat->number, OUTBOX_RECEIPT, O_RDONLY, caller->pid, &handle);
    if (error != 0)
        return error;
    char bytes[16 * 1024];
    ssize_t len;
    while ((len = outbox_read(handle, bytes, sizeof(bytes), (off_t)out->len)) > 0)
        if (strbuf_append(out, bytes, (size_t)len) != 0)
            break;
    outbox_release(handle);
    return len < 0 ? (int)len : out->error;
}

int sent_receipt_open(struct tree *tree, const struct tree_caller *caller, uint64_t number, int flags,
                      struct tree_handle **ret_handle)
{
    struct outbox_stat stat;
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(SIZE_MAX / 2);
    _cleanup_strbuf_ struct strbuf delivery = STRBUF_INIT(DELIVERY_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf joined = STRBUF_INIT(SIZE_MAX / 2);
    bool is_sent =
        outbox_get(tree->outbox, number, OUTBOX_RECEIPT, &stat) && stat.folder == OUTBOX_FOLDER_SENT;
    if (!is_sent || format_delivery(tree, number, &delivery) != 0 || delivery.len == 0 ||
        (flags & O_ACCMODE) != O_RDONLY)
        return item_open(tree, caller, number, OUTBOX_RECEIPT, flags, ret_handle);
    int error = read_receipt(tree, caller, &stat, &receipt);
    if (error != 0)
        return error;
    size_t end = receipt_end(receipt.data, receipt.len);
    strbuf_append(&joined, receipt.data, end);
    strbuf_append(&joined, delivery.data, delivery.len);
    strbuf_append(&joined, receipt.data + end, receipt.len - end);
    size_t len = joined.len;
    return text_open(tree, flags, strbuf_take(&joined, NULL), len, ret_handle);
}
