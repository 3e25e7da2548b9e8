/* SPDX-License-Identifier: MIT */
/*
 * Open files of maildir/: messages, and .uidvalidity.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/store_content.h"
#include "tree/handle_type.h"
#include "tree/maildir.h"

/* ---------------------------------------------------------------- messages */

struct message_handle {
    struct tree_handle base;
    struct store_bytes bytes;
};

/* Never waits: all of it was fetched when it was opened. */
static int read_message(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct message_handle *message = (struct message_handle *)handle;
    if (offset < 0)
        return -EINVAL;
    if ((uint64_t)offset >= message->bytes.len)
        return 0;
    uint64_t rest = message->bytes.len - (uint64_t)offset;
    ret->fd = message->bytes.fd;
    ret->offset = offset;
    ret->len = len < rest ? len : (size_t)rest;
    return 0;
}

static void release_message(struct tree_handle *handle)
{
    struct message_handle *message = (struct message_handle *)handle;
    cleanup_close(&message->bytes.fd);
    free(message);
}

int maildir_message_open(struct tree *tree, const struct tree_caller *caller, uint32_t email, int flags,
                         struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_LASTING, .read = read_message, .release = release_message};
    struct tree_entry entry;
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0)
        return -EACCES;
    if (!maildir_get_entry(tree, inode_make(INODE_MAILDIR_MESSAGE, email), &entry))
        return -ENOENT;
    struct message_handle *message = handle_new(tree, &ops, sizeof(*message), flags);
    if (message == NULL)
        return -ENOMEM;
    int error = store_raw_open(tree->store, email, caller->cancel, &message->bytes);
    if (error != 0) {
        free(message);
        return error;
    }
    *ret_handle = &message->base;
    return 0;
}

/* ---------------------------------------------------------------- .uidvalidity */

struct uidvalidity_handle {
    struct tree_handle base;
    size_t len;
    char text[MAILDIR_UIDVALIDITY_SIZE];
};

static int read_uidvalidity(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct uidvalidity_handle *uidvalidity = (struct uidvalidity_handle *)handle;
    if (offset < 0)
        return -EINVAL;
    if ((size_t)offset >= uidvalidity->len)
        return 0;
    size_t rest = uidvalidity->len - (size_t)offset;
    ret->bytes = uidvalidity->text + offset;
    ret->len = len < rest ? len : rest;
    return 0;
}

/* What it says already may be written again. Numbers are given here alone. */
static ssize_t write_uidvalidity(struct tree_handle *handle, const struct tree_caller *caller,
                                 const void *bytes, size_t len, off_t offset)
{
    const struct uidvalidity_handle *uidvalidity = (struct uidvalidity_handle *)handle;
    (void)caller;
    bool is_same = offset >= 0 && (size_t)offset <= uidvalidity->len &&
                   len <= uidvalidity->len - (size_t)offset &&
                   memcmp(uidvalidity->text + offset, bytes, len) == 0;
    return is_same ? (ssize_t)len : -EPERM;
}

static int set_uidvalidity_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    (void)caller;
    return size == (off_t)((struct uidvalidity_handle *)handle)->len ? 0 : -EPERM;
}

static void release_uidvalidity(struct tree_handle *handle)
{
    free(handle);
}

int maildir_uidvalidity_open(struct tree *tree, uint32_t inbox, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_NONE,
        .read = read_uidvalidity,
        .write = write_uidvalidity,
        .set_size = set_uidvalidity_size,
        .release = release_uidvalidity,
    };
    if ((flags & O_TRUNC) != 0)
        return -EPERM;
    struct uidvalidity_handle *uidvalidity = handle_new(tree, &ops, sizeof(*uidvalidity), flags);
    if (uidvalidity == NULL)
        return -ENOMEM;
    uidvalidity->len = maildir_uidvalidity(tree, inbox, uidvalidity->text);
    *ret_handle = &uidvalidity->base;
    return 0;
}
