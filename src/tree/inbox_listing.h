/* SPDX-License-Identifier: MIT */
/*
 * What an inbox lists: its own files, and an email as two entries, its record and the folder with what it
 * holds; and what its .invalid/ lists. For this layer alone.
 */
#ifndef INBOXFS_TREE_INBOX_LISTING_H
#define INBOXFS_TREE_INBOX_LISTING_H

#include "tree/tree.h"

/* Entries from `position` on, 0 at first; they are handed out with `base` added to the position behind them.
 */
void inbox_list(struct tree *tree, uint32_t inbox, uint64_t position, uint64_t base, tree_dir_sink sink,
                void *context);
void inbox_list_held(struct tree *tree, uint32_t inbox, uint64_t position, uint64_t base, tree_dir_sink sink,
                     void *context);

#endif
