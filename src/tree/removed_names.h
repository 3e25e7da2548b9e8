/* SPDX-License-Identifier: MIT */
/*
 * Names that look different to one process, because it removed something a moment ago. There are two uses. A
 * receipt is removed with its file, but stays visible to the process: `rm sent/<all>` and `find failed -type
 * f -delete` remove the receipt next, and must not fail because it is gone already. A reply file
 * (reply_file.h) cannot be removed, but is hidden from the process, which creates it next.
 */
#ifndef INBOXFS_TREE_REMOVED_NAMES_H
#define INBOXFS_TREE_REMOVED_NAMES_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tree/tree.h"

enum {
    REMOVED_NAMES_MAX = 32, /* only the latest are remembered */
    REMOVED_NAMES_MS = 10 * 1000,
};

struct removed_name {
    uint64_t folder_ino; /* 0 if the entry is free */
    pid_t pid;
    int64_t until_ms; /* monotonic */
    struct tree_entry entry;
    char name[NAME_MAX + 1];
};

struct removed_names {
    pthread_mutex_t lock;
    struct removed_name ring[REMOVED_NAMES_MAX]; /* protected by lock */
    unsigned int next;                           /* protected by lock */
};

void removed_names_init(struct removed_names *names);
void removed_names_release(struct removed_names *names);

/* Adds a name; `entry` is the entry that the name led to. */
void removed_names_add(struct removed_names *names, uint64_t folder_ino, const char *name, pid_t pid,
                       int64_t now_ms, const struct tree_entry *entry);
bool removed_names_find(struct removed_names *names, uint64_t folder_ino, const char *name, pid_t pid,
                        int64_t now_ms, struct tree_entry *ret_entry);
/* Forgets all names of this inode. */
void removed_names_forget(struct removed_names *names, uint64_t ino);
/* Forgets the name. Returns true if the name was known. */
bool removed_names_take(struct removed_names *names, uint64_t folder_ino, const char *name, pid_t pid,
                        int64_t now_ms);

#endif
