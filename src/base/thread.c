/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <glib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"

enum {
    IDLE_SECONDS = 30
};

struct worker_pool {
    const char *name;
    unsigned int max_threads;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job arrived, a thread ended, or the pool ends */
    GQueue jobs; /* queue of struct worker_job that no thread runs yet; protected by `lock`, like all below */
    unsigned int threads;
    unsigned int idle; /* number of threads without a job */
    bool ending;
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
    clock_condition_init(&pool->changed);
    return pool;
}

/* Waits for the next job. Returns NULL after IDLE_SECONDS, or when the pool ends. */
static struct worker_job *wait_for_job_locked(struct worker_pool *pool)
{
    struct clock *clock = clock_system();
    int64_t until = clock_monotonic_ms(clock) + INT64_C(1000) * IDLE_SECONDS;
    struct worker_job *job;
    pool->idle++;
    while ((job = g_queue_pop_head(&pool->jobs)) == NULL && !pool->ending &&
           clock_monotonic_ms(clock) < until)
        clock_wait(clock, &pool->changed, &pool->lock, until);
    pool->idle--;
    return job;
}

static void *run_jobs(void *argument)
{
    struct worker_pool *pool = argument;
    struct worker_job *job;
    pthread_mutex_lock(&pool->lock);
    while ((job = wait_for_job_locked(pool)) != NULL) {
        pthread_mutex_unlock(&pool->lock);
        job->run(job);
        pthread_mutex_lock(&pool->lock);
    }
    pool->threads--;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int worker_pool_submit(struct worker_pool *pool, struct worker_job *job)
{
    pthread_t thread;
    LOCK_GUARD(&pool->lock);
    if (pool->idle <= pool->jobs.length && pool->threads < pool->max_threads) {
        int error = thread_start(&thread, pool->name, run_jobs, pool);
        if (error != 0 && pool->threads == 0)
            return error;
        if (error == 0) {
            pthread_detach(thread);
            pool->threads++;
        }
    }
    g_queue_push_tail(&pool->jobs, job);
    pthread_cond_signal(&pool->changed);
    return 0;
}

void worker_pool_free(struct worker_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->changed);
    while (pool->threads > 0)
        pthread_cond_wait(&pool->changed, &pool->lock);
    pthread_mutex_unlock(&pool->lock);

    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
