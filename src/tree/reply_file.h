/* SPDX-License-Identifier: MIT */
/*
 * The files reply, reply-all and forward in the folder of an email. `folder` is the folder's inode, and
 * `name` must pass reply_file_has_name().
 */
#ifndef INBOXFS_TREE_REPLY_FILE_H
#define INBOXFS_TREE_REPLY_FILE_H

#include "tree/tree.h"

bool reply_file_has_name(const char *name);

/* Looks a reply file up. Does not wait. Return: 0; -ENOENT when the email is gone, or when this process has
 * just removed the file, as mv(1) from another filesystem and install(1) do before they create one in its
 * place. */
int reply_file_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t folder, uint32_t email,
                      const char *name, struct tree_entry *ret);
/* unlink(2): hides the file from this process for some seconds. Does not wait.
 * Returns as reply_file_lookup() does. */
int reply_file_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t folder, uint32_t email,
                      const char *name);
/* open(2) with O_CREAT, after an unlink. Does not wait. */
int reply_file_create(struct tree *tree, const struct tree_caller *caller, uint64_t folder, uint32_t email,
                      const char *name, int flags, struct tree_entry *ret_entry,
                      struct tree_handle **ret_handle);

/* Hands in a draft (items_hand_in()) as the answer that this file stands for. Waits for the email's content.
 * Return: as items_hand_in(), and the errors of store_content.h. */
int reply_file_hand_in(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                       uint32_t email, const char *reply_name);

#endif
