/* SPDX-License-Identifier: MIT */
/*
 * Creating what is there already.
 */
#include "tree/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "tree/fixed.h"
#include "tree/handle_type.h"
#include "tree/inode.h"

bool tree_is_announced(uint64_t folder_ino)
{
    enum outbox_folder folder;
    if (inode_kind(folder_ino) == INODE_INBOX)
        return true;
    return inode_kind(folder_ino) == INODE_FIXED &&
           fixed_is_outbox_folder((enum fixed_node)inode_number(folder_ino), &folder) &&
           (folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED);
}

static void free_handle(struct tree_handle *handle)
{
    free(handle);
}

int tree_create_announced(struct tree *tree, uint64_t folder_ino, const char *name,
                          struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    /* What the kernel has cached of it stays true: nothing is written. */
    static const struct handle_ops ops = {.caching = TREE_CACHE_LASTING, .release = free_handle};
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
