/* SPDX-License-Identifier: MIT */
/*
 * For folders whose files are like drafts: mail programs' own files in maildir/ are ordinary files, too, and
 * the kernel knows them by the same table. Only this layer includes this header.
 */
#ifndef INBOXFS_TREE_DRAFTS_H
#define INBOXFS_TREE_DRAFTS_H

#include "tree/draft_table.h"
#include "tree/tree.h"

/* Returns the inode number that users see; `ino` is the number in the filesystem below. */
uint64_t draft_shown_ino(ino_t ino);

/* tree_lookup() and tree_create() in a folder that is given by its node. Both wait for the disk. */
int draft_lookup_in(struct tree *tree, struct draft_node *parent, const char *name, struct tree_entry *ret);
int draft_create_in(struct tree *tree, struct draft_node *parent, const char *name, mode_t mode, int flags,
                    struct tree_entry *ret_entry, struct tree_handle **ret_handle);

#endif
