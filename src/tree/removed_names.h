/* SPDX-License-Identifier: MIT */
/*
 * Names that are for one process alone what others do not see, since it removed something a moment ago.
 * Receipts that went because their file was removed: `rm sent/<all>` and `find failed -type f -delete` come
 * to the receipt next, and it is no failure that it is gone already. And reply files (reply_file.h), which
 * never go: who removed one goes on to create it.
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
    REMOVED_NAMES_MAX = 32, /* the latest */
    REMOVED_NAMES_MS = 10 * 1000,
};

struct removed_name {
    uint64_t folder_ino; /* 0: no entry */
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

/* `entry`: what the name led to. */
void removed_names_add(struct removed_names *names, uint64_t folder_ino, const char *name, pid_t pid,
                       int64_t now_ms, const struct tree_entry *entry);
bool removed_names_find(struct removed_names *names, uint64_t folder_ino, const char *name, pid_t pid,
                        int64_t now_ms, struct tree_entry *ret_entry);
/* Forgets the names of this inode: they are free from now on. */
void removed_names_forget(struct removed_names *names, uint64_t ino);
/* Forgets it; whether it was there. */
bool removed_names_take(struct removed_names *names, uint64_t folder_ino, const char *name, pid_t pid,
                        int64_t now_ms);

#endif
