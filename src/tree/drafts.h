/* SPDX-License-Identifier: MIT */
/*
 * For folders whose files are like drafts: mail programs' own files in maildir/ are ordinary files, too, and
 * known to the kernel by the same table. For this layer alone.
 */
#ifndef INBOXFS_TREE_DRAFTS_H
#define INBOXFS_TREE_DRAFTS_H

#include "tree/draft_table.h"
#include "tree/tree.h"

/* The inode number that the user sees of a file; `ino` is its number where it is stored. */
uint64_t draft_shown_ino(ino_t ino);

/* The same as tree_lookup() and tree_create(), in a folder that is given by its node. */
int draft_lookup_in(struct tree *tree, struct draft_node *parent, const char *name, struct tree_entry *ret);
int draft_create_in(struct tree *tree, struct draft_node *parent, const char *name, mode_t mode, int flags,
                    struct tree_entry *ret_entry, struct tree_handle **ret_handle);

#endif
