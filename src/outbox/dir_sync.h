/* SPDX-License-Identifier: MIT */
/*
 * fsync of one directory for many threads: those that come while one is under way share the next.
 */
#ifndef INBOXFS_OUTBOX_DIR_SYNC_H
#define INBOXFS_OUTBOX_DIR_SYNC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct dir_sync {
    int dir_fd; /* borrowed */
    pthread_mutex_t lock;
    pthread_cond_t round_ended;
    uint64_t rounds_begun; /* protected by lock, like all below */
    uint64_t rounds_ended;
    uint64_t last_failed; /* the latest round that failed, */
    int last_error;       /* and how */
};

void dir_sync_init(struct dir_sync *sync, int dir_fd);
void dir_sync_release(struct dir_sync *sync);

/* All that was changed in the directory before the call is durable when it returns 0. Waits for the disk. */
int dir_sync_wait(struct dir_sync *sync);

#endif
