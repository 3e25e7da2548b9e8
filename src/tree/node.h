/* SPDX-License-Identifier: MIT */
/*
 * Names to inodes, and what an inode is like. All answers come from memory, those about drafts from the
 * filesystem that holds them; nothing waits for anything else, but what says that it may.
 */
#ifndef INBOXFS_TREE_NODE_H
#define INBOXFS_TREE_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/cancel.h"
#include "tree/tree.h"

enum {
    TREE_ROOT_INO = 1
};

/* Who makes a request, and how its waiting is cut short. */
struct tree_caller {
    pid_t pid;             /* of the task; 0: not known */
    struct cancel *cancel; /* may be NULL */
};

struct tree_attributes {
    struct stat stat; /* st_ino is what the user sees */
    bool is_lasting;  /* true until the watcher is told otherwise; else true at this moment */
};

struct tree_entry {
    uint64_t ino;         /* what later calls name it by. 0 in a listing: look the name up first */
    bool is_name_lasting; /* as is_lasting, of the name leading to this inode */
    struct tree_attributes attributes;
};

/* Counts as one lookup, to be given back with tree_forget(). 0, -ENOENT, -ENOTDIR, or for drafts -errno.
 * `caller` may be NULL. */
int tree_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                struct tree_entry *ret);
void tree_forget(struct tree *tree, uint64_t ino, uint64_t lookups);

/* 0, or -ENOENT: it is gone; where it may wait, what that came to. `caller` may be NULL. */
int tree_get_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_attributes *ret);
/* Whether that, or reading it as a link, may wait: false where it is answered from memory. */
bool tree_get_attributes_may_wait(uint64_t ino);

/* Of the filesystem that holds drafts and spool. */
int tree_get_statistics(struct tree *tree, struct statvfs *ret);

/* Whether changing calls on this file, or on names in this folder, may wait for the disk, the network or
 * other requests, so that no thread that answers everybody should make them. */
bool tree_may_wait(uint64_t ino);

/* The same of looking a name up: false where that is answered from memory. */
bool tree_lookup_may_wait(struct tree *tree, uint64_t parent, const char *name);

#endif
