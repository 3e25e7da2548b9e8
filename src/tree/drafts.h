/* SPDX-License-Identifier: MIT */
/*
 * Functions for other folders whose files are like drafts: in maildir/, mail programs' own files are ordinary
 * files, and are in the same table. Only this layer includes this header.
 */
#ifndef INBOXFS_TREE_DRAFTS_H
#define INBOXFS_TREE_DRAFTS_H

#include "tree/draft_table.h"
#include "tree/tree.h"

/* Returns the inode number that users see; `ino` is the number in the filesystem below. */
uint64_t draft_shown_ino(ino_t ino);

/* Like tree_lookup() and tree_create(), but the folder is given by its node. Both wait for the disk. */
int draft_lookup_in(struct tree *tree, struct draft_node *parent, const char *name, struct tree_entry *ret);
int draft_create_in(struct tree *tree, struct draft_node *parent, const char *name, mode_t mode, int flags,
                    struct tree_entry *ret_entry, struct tree_handle **ret_handle);

#endif
