/* SPDX-License-Identifier: MIT */
/*
 * Threads with all signals blocked (the main thread alone takes them), and a pool for work that may wait.
 */
#ifndef INBOXFS_BASE_THREAD_H
#define INBOXFS_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a joinable thread with all signals blocked; `name` (up to 15 bytes) shows in debuggers. 0 or -errno.
 */
int thread_start(pthread_t *ret_thread, const char *name, void *(*function)(void *), void *argument);

/* A pool that starts threads as jobs come, up to a bound, and ends idle ones. Jobs beyond the bound queue. */
struct worker_pool;

struct worker_job {
    void (*run)(struct worker_job *job); /* owns the job from here on */
};

/* `ret_pool` is freed with worker_pool_free(). 0 or -ENOMEM. */
int worker_pool_new(const char *name, unsigned int max_threads, struct worker_pool **ret_pool);

/* Hands in a job. 0, or -errno when no thread can be started (the job was not taken). */
int worker_pool_submit(struct worker_pool *pool, struct worker_job *job);

/* Takes back a job that is no longer wanted. True: it will not run, and is the caller's again; false: it is
 * not in the queue, but runs or ran, or was never handed in. */
bool worker_pool_withdraw(struct worker_pool *pool, const struct worker_job *job);

/* Waits until all jobs are done, and frees. NULL-safe. */
void worker_pool_free(struct worker_pool *pool);

#endif
