/* SPDX-License-Identifier: MIT */
/*
 * .invalid/ in an inbox: the mail that its rules or checks hold back, where the service tells of it. A rename
 * between it and the inbox marks an email as valid or not, and keeps its name.
 */
#ifndef INBOXFS_TREE_HELD_FOLDER_H
#define INBOXFS_TREE_HELD_FOLDER_H

#include "tree/tree.h"

/* ".invalid" */
extern const char held_folder_name[];

/* The folder itself; false: there is none. */
bool held_folder_get(struct tree *tree, uint32_t inbox, struct tree_entry *ret);

/* A name in it. 0 or -ENOENT. */
int held_folder_lookup(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret);

/* Whether one of the two is such a folder and the other its inbox, so that a rename is a mark. */
bool held_folder_is_move(uint64_t parent, uint64_t new_parent);
/* Waits for the network, 5 s. -EPERM: another name; the service does not move it; -EINVAL: flags but for
 * RENAME_NOREPLACE; -ENOENT, -EACCES, -EAGAIN, -EHOSTUNREACH, -EINTR. */
int held_folder_move(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                     uint64_t new_parent, const char *new_name, unsigned int flags);

#endif
