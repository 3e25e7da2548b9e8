/* SPDX-License-Identifier: MIT */
/*
 * What appeared by the service's doing, once more: created by a process of our own, so that the kernel raises
 * the events that inotify watchers wait for (fs/watch_helper.h). To that process alone these are free names.
 * Only in folders where no request waits for the service: an inbox, sent/, failed/.
 */
#ifndef INBOXFS_TREE_ANNOUNCED_H
#define INBOXFS_TREE_ANNOUNCED_H

#include <stdbool.h>
#include <stdint.h>

#include "tree/handle.h"
#include "tree/node.h"

/* Whether the watcher is told of what appears in this folder (tree_watcher.appeared). */
bool tree_is_announced(uint64_t folder_ino);

/* Answers that process's open(2) with O_CREAT | O_EXCL with the file that is there. The handle is for closing
 * alone. -ENOENT: it has gone meanwhile; -EPERM: not in this folder. */
int tree_create_announced(struct tree *tree, uint64_t folder_ino, const char *name,
                          struct tree_entry *ret_entry, struct tree_handle **ret_handle);

#endif
