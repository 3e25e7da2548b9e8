/* SPDX-License-Identifier: MIT */
/*
 * Threads that block all signals, so that only the main thread receives signals, and a pool of threads for
 * jobs that wait.
 */
#ifndef INBOXFS_BASE_THREAD_H
#define INBOXFS_BASE_THREAD_H

#include <pthread.h>

/* Starts a joinable thread. Debuggers show `name`, which has up to 15 bytes. Return: 0 or -errno. */
int thread_start(pthread_t *ret_thread, const char *name, void *(*function)(void *), void *argument);

/* A pool starts up to `max_threads` threads for jobs, and ends idle threads. Further jobs wait in a queue. */
struct worker_pool;

struct worker_job {
    void (*run)(struct worker_job *job); /* becomes the owner of the job */
};

/* Makes a pool without threads, to be freed with worker_pool_free(); `name` is borrowed. */
struct worker_pool *worker_pool_new(const char *name, unsigned int max_threads);

/* Queues a job. Return: 0; or -errno when the pool has no thread and cannot start one; the caller then still
 * owns the job. */
int worker_pool_submit(struct worker_pool *pool, struct worker_job *job);

/* Waits until all jobs are done, and frees the pool. NULL-safe. */
void worker_pool_free(struct worker_pool *pool);

#endif
