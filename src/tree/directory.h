/* SPDX-License-Identifier: MIT */
/*
 * Listings of folders. A position is where to go on; 0 is the start, and gives what is there at that moment.
 */
#ifndef INBOXFS_TREE_DIRECTORY_H
#define INBOXFS_TREE_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "tree/node.h"

struct tree_dir;

/* `caller` may be NULL. */
int tree_open_dir(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                  struct tree_dir **ret_dir);
/* Whether opening it may wait, as tree_may_wait(). */
bool tree_open_dir_may_wait(struct tree *tree, uint64_t ino);
void tree_release_dir(struct tree_dir *dir);

/* Whether the kernel may keep the listing until the watcher is told. */
bool tree_dir_is_lasting(const struct tree_dir *dir);

/* Takes an entry; false: it has no room, and the entry is to come again. `next` is the position behind it.
 * entry->ino is 0 where the name is to be looked up first (then type and st_ino alone are right); with
 * another number the entry counts as no lookup. */
typedef bool (*tree_dir_sink)(void *context, const char *name, const struct tree_entry *entry, uint64_t next);

/* Hands out entries from `position` on until the sink is full or the folder ends. One thread at a time. */
int tree_read_dir(struct tree_dir *dir, uint64_t position, tree_dir_sink sink, void *context);

#endif
