/* SPDX-License-Identifier: MIT */
/*
 * What a user changes: names made, removed and renamed, attributes set. What each folder allows is the
 * filesystem contract's. Errors are -errno.
 */
#ifndef INBOXFS_TREE_CHANGE_H
#define INBOXFS_TREE_CHANGE_H

#include "tree/handle.h"
#include "tree/node.h"

/* In inboxes/ this creates an inbox (waits for the network); in drafts/ it is mkdir(2). Elsewhere -EPERM. The
 * entry counts as a lookup. */
int tree_make_dir(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                  mode_t mode, struct tree_entry *ret);
/* mknod(2) of a file, FIFO or socket, symlink(2) and link(2): within drafts/, elsewhere -EPERM. The entry
 * counts as a lookup. */
int tree_make_node(struct tree *tree, uint64_t parent, const char *name, mode_t mode, struct tree_entry *ret);
int tree_make_symlink(struct tree *tree, const char *target, uint64_t parent, const char *name,
                      struct tree_entry *ret);
int tree_make_link(struct tree *tree, uint64_t ino, uint64_t new_parent, const char *new_name,
                   struct tree_entry *ret);
/* The target of a symbolic link, with a NUL. May wait as tree_get_attributes(). */
int tree_read_link(struct tree *tree, const struct tree_caller *caller, uint64_t ino, char *ret_target,
                   size_t size);

int tree_remove_dir(struct tree *tree, uint64_t parent, const char *name);
/* A file in sent/, failed/ and attachments/ takes its receipt along; a receipt that went so by the same
 * process a moment ago counts as removed: 0. */
int tree_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name);

/* renameat2(2). Between drafts/ and the outbox's folders this hands in and takes out (waits; see outbox.h).
 * Never -EXDEV, upon which mv(1) would copy. */
int tree_rename(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                uint64_t new_parent, const char *new_name, unsigned int flags);

enum {
    TREE_SET_MODE = 1 << 0,
    TREE_SET_UID = 1 << 1,
    TREE_SET_GID = 1 << 2,
    TREE_SET_SIZE = 1 << 3,
    TREE_SET_TIMES = 1 << 4,
};
struct tree_change {
    unsigned int fields; /* TREE_SET_… */
    mode_t mode;
    uid_t uid;
    gid_t gid;
    off_t size;
    struct timespec times[2]; /* as utimensat(2): access, modification */
};
/* `handle`: the open file that it is done through, or NULL. */
int tree_set_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_handle *handle, const struct tree_change *change);

/* fsync(2) of a folder: of outbox/ and attachments/ it waits until all is settled. */
int tree_sync_folder(struct tree *tree, const struct tree_caller *caller, uint64_t ino);
/* Whether a folder is one of these two. */
bool tree_is_barrier(uint64_t folder_ino);

#endif
