/* SPDX-License-Identifier: MIT */
/*
 * The files reply, reply-all and forward, for the folder of an email that they are in. `folder` is its inode,
 * `name` one that reply_file_has_name().
 */
#ifndef INBOXFS_TREE_REPLY_FILE_H
#define INBOXFS_TREE_REPLY_FILE_H

#include "tree/tree.h"

bool reply_file_has_name(const char *name);

/* 0; -ENOENT: the email is gone, or this process has just removed the file, as mv(1) from another filesystem
 * and install(1) do before they create one in its place; for all others it stays. No wait. */
int reply_file_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t folder, uint32_t email,
                      const char *name, struct tree_entry *ret);
/* Removes it for this process, for some seconds. No wait. */
int reply_file_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t folder, uint32_t email,
                      const char *name);
/* open(2) with O_CREAT, after that. No wait. */
int reply_file_create(struct tree *tree, const struct tree_caller *caller, uint64_t folder, uint32_t email,
                      const char *name, int flags, struct tree_entry *ret_entry,
                      struct tree_handle **ret_handle);

/* Hands in a draft (items.h) as the answer that this file stands for. Waits for the email's content: errors
 * as in store_content.h, too. */
int reply_file_hand_in(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                       uint32_t email, const char *reply_name);

#endif
