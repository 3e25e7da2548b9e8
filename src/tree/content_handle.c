/* SPDX-License-Identifier: MIT */
/*
 * Open files in the folder of an email. They hold their bytes open, whatever becomes of the cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tree/content_node.h"
#include "tree/handle_type.h"
#include "tree/inode.h"

struct content_handle {
    struct tree_handle base;
    int fd;
    uint64_t offset; /* of the first byte in that file */
    uint64_t len;
};

static int read_content(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct content_handle *content = (struct content_handle *)handle;
    if (offset < 0)
        return -EINVAL;
    if ((uint64_t)offset >= content->len)
        return 0;
    uint64_t rest = content->len - (uint64_t)offset;
    ret->fd = content->fd;
    ret->offset = (off_t)content->offset + offset;
    ret->len = len < rest ? len : (size_t)rest;
    return 0;
}

static void release_content(struct tree_handle *handle)
{
    close(((struct content_handle *)handle)->fd);
    free(handle);
}

/* A descriptor and the place of the bytes in it. */
static int open_bytes(struct tree *tree, struct cancel *cancel, const struct content_node *node,
                      const struct store_content *content, struct content_handle *handle)
{
    struct store_bytes bytes;
    if (!content_has_node(content, node))
        return -ENOENT;
    const struct content_entry *entry =
        node->kind >= CONTENT_NODE_TEXT ? &content->folder.entries[node->index] : NULL;
    int error = 0;
    switch (node->kind) {
    case CONTENT_NODE_TEXT:
    case CONTENT_NODE_EARLIER:
        handle->fd = fcntl(content->fd, F_DUPFD_CLOEXEC, 0);
        handle->offset = entry->offset;
        handle->len = entry->len;
        return handle->fd < 0 ? -errno : 0;
    case CONTENT_NODE_MESSAGE:
        error = store_raw_open(tree->store, node->email, cancel, &bytes);
        break;
    case CONTENT_NODE_ATTACHMENT:
        error = store_attachment_open(tree->store, node->email, entry->id, cancel, &bytes);
        break;
    case CONTENT_NODE_LINK:
        return -ELOOP;
    default:
        return -EISDIR;
    }
    if (error == 0) {
        handle->fd = bytes.fd;
        handle->len = bytes.len;
    }
    return error;
}

int content_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                 struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_LASTING, .read = read_content, .release = release_content};
    const struct content_node node = content_node_of(ino);
    struct cancel *cancel = caller != NULL ? caller->cancel : NULL;
    struct store_content *content;
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0)
        return -EACCES;
    struct content_handle *handle = handle_new(tree, &ops, sizeof(*handle), flags);
    if (handle == NULL)
        return -ENOMEM;
    int error = store_content_get(tree->store, node.email, cancel, &content);
    if (error == 0) {
        error = open_bytes(tree, cancel, &node, content, handle);
        store_content_unref(tree->store, content);
    }
    if (error != 0) {
        free(handle);
        return error;
    }
    *ret_handle = &handle->base;
    return 0;
}
