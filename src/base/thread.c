/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <glib.h>
#include <signal.h>
#include <stdlib.h>

#include "base/lock.h"

struct worker_pool {
    const char *name;
    unsigned int max_threads;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* signals that a thread ended */
    GQueue jobs; /* queue of struct worker_job that no thread runs yet; protected by `lock`, like all below */
    unsigned int threads;
};

int thread_start(pthread_t *ret_thread, const char *name, void *(*function)(void *), void *argument)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(ret_thread, NULL, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return -error;
    pthread_setname_np(*ret_thread, name);
    return 0;
}

struct worker_pool *worker_pool_new(const char *name, unsigned int max_threads)
{
    struct worker_pool *pool = g_new0(struct worker_pool, 1);
    pool->name = name;
    pool->max_threads = max_threads;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->ended, NULL);
    return pool;
}

static void *run_jobs(void *argument)
{
    struct worker_pool *pool = argument;
    struct worker_job *job;
    pthread_mutex_lock(&pool->lock);
    while ((job = g_queue_pop_head(&pool->jobs)) != NULL) {
        pthread_mutex_unlock(&pool->lock);
        job->run(job);
        pthread_mutex_lock(&pool->lock);
    }
    pool->threads--;
    pthread_cond_broadcast(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int worker_pool_submit(struct worker_pool *pool, struct worker_job *job)
{
    pthread_t thread;
    LOCK_GUARD(&pool->lock);
    if (pool->threads < pool->max_threads) {
        int error = thread_start(&thread, pool->name, run_jobs, pool);
        if (error != 0 && pool->threads == 0)
            return error;
        if (error == 0) {
            pthread_detach(thread);
            pool->threads++;
        }
    }
    g_queue_push_tail(&pool->jobs, job);
    return 0;
}

void worker_pool_free(struct worker_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    while (pool->threads > 0)
        pthread_cond_wait(&pool->ended, &pool->lock);
    pthread_mutex_unlock(&pool->lock);

    pthread_cond_destroy(&pool->ended);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
