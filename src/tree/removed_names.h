/* SPDX-License-Identifier: MIT */
/*
 * Names that look different to one thread, because it removed something a moment ago. There are two uses. A
 * receipt is removed with its file, but stays visible to the thread: `rm sent/<all>` and `find failed -type
 * f -delete` remove the receipt next, and must not fail because it is gone already. A reply file
 * (reply_file.c) cannot be removed, but is hidden from the thread, which creates it next.
 *
 * Only the latest REMOVED_NAMES_MAX names are remembered, for REMOVED_NAMES_MS.
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
    REMOVED_NAMES_MAX = 32,
    REMOVED_NAMES_MS = 10 * 1000,
};

struct removed_name {
    uint64_t folder_ino; /* 0 if the entry is free */
    pid_t pid;           /* thread that removed the name */
    int64_t until_ms;    /* end of validity, monotonic clock */
    struct tree_entry entry;
    char name[NAME_MAX + 1];
};

struct removed_names {
    struct clock *clock; /* borrowed */
    pthread_mutex_t lock;
    struct removed_name ring[REMOVED_NAMES_MAX]; /* protected by lock */
    unsigned int next;                           /* protected by lock */
};

void removed_names_init(struct removed_names *names, struct clock *clock);
void removed_names_release(struct removed_names *names);

/* Adds a name that this thread removed; `entry` is the entry that the name led to. Does nothing if the thread
 * is not known (pid 0). */
void removed_names_add(struct removed_names *names, pid_t pid, uint64_t folder_ino, const char *name,
                       const struct tree_entry *entry);
/* Returns true, with the former entry, if this thread removed the name. */
bool removed_names_find(struct removed_names *names, pid_t pid, uint64_t folder_ino, const char *name,
                        struct tree_entry *ret_entry);
/* Forgets the names of this inode that this thread removed. */
void removed_names_forget(struct removed_names *names, pid_t pid, uint64_t ino);

#endif
