/* SPDX-License-Identifier: MIT */
/*
 * Shared fsyncs, in rounds: one thread at a time leads a round, the others wait for one that began after they
 * came.
 */
#include "outbox/dir_sync.h"

#include "base/file.h"

void dir_sync_init(struct dir_sync *sync, int dir_fd)
{
    *sync = (struct dir_sync){.dir_fd = dir_fd};
    pthread_mutex_init(&sync->lock, NULL);
    pthread_cond_init(&sync->round_ended, NULL);
}

void dir_sync_release(struct dir_sync *sync)
{
    pthread_cond_destroy(&sync->round_ended);
    pthread_mutex_destroy(&sync->lock);
}

static void lead_round_locked(struct dir_sync *sync)
{
    uint64_t round = ++sync->rounds_begun;
    pthread_mutex_unlock(&sync->lock);
    int error = file_sync(sync->dir_fd);
    pthread_mutex_lock(&sync->lock);
    sync->rounds_ended = round;
    if (error != 0) {
        sync->last_failed = round;
        sync->last_error = error;
    }
    pthread_cond_broadcast(&sync->round_ended);
}

int dir_sync_wait(struct dir_sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    uint64_t mine = sync->rounds_begun + 1;
    while (sync->rounds_ended < mine) {
        if (sync->rounds_begun == sync->rounds_ended)
            lead_round_locked(sync);
        else
            pthread_cond_wait(&sync->round_ended, &sync->lock);
    }
    int error = sync->last_failed >= mine ? sync->last_error : 0;
    pthread_mutex_unlock(&sync->lock);
    return error;
}
