/* SPDX-License-Identifier: MIT */
/*
 * Names that one thread removed a moment ago. This thread sees such a name differently from the others:
 * - A receipt is removed with its file, but the thread still sees the receipt: `rm sent/<all>` and `find
 * failed -type f -delete` remove the receipt next, and must not fail.
 * - A message that was moved into outbox/ may be sent at once, but the thread still sees the message there:
 * mv(1) of several files stats each file after its move.
 * - A reply file (reply_file.c) cannot be removed, but the thread does not see the file, and creates it next.
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
    struct removed_name ring[REMOVED_NAMES_MAX]; /* protected by `lock` */
    unsigned int next;                           /* protected by `lock` */
};

void removed_names_init(struct removed_names *names, struct clock *clock);
void removed_names_release(struct removed_names *names);

/* Adds a name that this thread removed, with its former entry. Does nothing if `pid` is 0 (unknown). */
void removed_names_add(struct removed_names *names, pid_t pid, uint64_t folder_ino, const char *name,
                       const struct tree_entry *entry);
/* Returns true, with the former entry, if this thread removed the name. */
bool removed_names_find(struct removed_names *names, pid_t pid, uint64_t folder_ino, const char *name,
                        struct tree_entry *ret_entry);
/* Forgets the names of this inode that this thread removed. */
void removed_names_forget(struct removed_names *names, pid_t pid, uint64_t ino);

#endif
