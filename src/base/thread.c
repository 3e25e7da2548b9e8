/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <glib.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"

enum {
    IDLE_SECONDS = 30
};

struct worker_pool {
    const char *name;
    unsigned int max_threads;
    pthread_mutex_t lock;
    pthread_cond_t thread_ended;
    sem_t wanted; /* one for each job in the queue, and for each thread that is to end. It wakes one thread; a
                     signal of a condition could be lost (glibc bug 25847) */
    GQueue jobs; /* queue of struct worker_job that no thread runs yet; protected by `lock`, like all below */
    unsigned int threads;
    unsigned int idle; /* number of threads without a job */
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
    clock_condition_init(&pool->thread_ended);
    sem_init(&pool->wanted, 0, 0);
    return pool;
}

/* Waits for the next job, without the lock. Returns NULL after IDLE_SECONDS, or when the pool ends. */
static struct worker_job *wait_for_job_locked(struct worker_pool *pool)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_SECONDS;
    pool->idle++;
    pthread_mutex_unlock(&pool->lock);
    bool is_wanted = sem_clockwait(&pool->wanted, CLOCK_MONOTONIC, &until) == 0;
    pthread_mutex_lock(&pool->lock);
    pool->idle--;
    /* A job may have arrived since the time was over. */
    return is_wanted || sem_trywait(&pool->wanted) == 0 ? g_queue_pop_head(&pool->jobs) : NULL;
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
    pthread_cond_broadcast(&pool->thread_ended);
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
    sem_post(&pool->wanted);
    return 0;
}

void worker_pool_free(struct worker_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    for (unsigned int i = 0; i < pool->threads; i++)
        sem_post(&pool->wanted);
    while (pool->threads > 0)
        pthread_cond_wait(&pool->thread_ended, &pool->lock);
    pthread_mutex_unlock(&pool->lock);

    sem_destroy(&pool->wanted);
    pthread_cond_destroy(&pool->thread_ended);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
