/* SPDX-License-Identifier: MIT */
#ifndef INBOXFS_TREE_SEARCH_H
#define INBOXFS_TREE_SEARCH_H

#include "tree/tree.h"

/* Whether opening the folder of a query, or looking a name up in it, is answered without a wait. */
bool search_query_knows(struct tree *tree, uint64_t ino, const char *name);
bool search_query_is_fresh(struct tree *tree, uint64_t ino);

#endif
