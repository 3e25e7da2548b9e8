/* SPDX-License-Identifier: MIT */
/*
 * Threads block signals. A pool runs each job once, on at most `max_threads` threads.
 */
#include "base/thread.h"

#include <signal.h>
#include <unistd.h>

#include "support/test.h"

enum {
    JOBS = 2000,
    THREADS = 4
};

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned int running;
    unsigned int most; /* greatest number of jobs under way at one time, so far */
    unsigned int done;
    int is_open;
};

struct gated_job {
    struct worker_job job; /* the first member */
    struct gate *gate;
    unsigned int runs;
};

static void run_gated(struct worker_job *job)
{
    struct gated_job *gated = (struct gated_job *)job;
    struct gate *gate = gated->gate;
    pthread_mutex_lock(&gate->lock);
    gated->runs++;
    gate->running++;
    if (gate->running > gate->most)
        gate->most = gate->running;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->is_open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    gate->running--;
    gate->done++;
    pthread_mutex_unlock(&gate->lock);
}

TEST(jobs_run_in_parallel_up_to_the_bound)
{
    static struct gated_job jobs[JOBS];
    struct gate gate = {.running = 0};
    struct worker_pool *pool = worker_pool_new("test", THREADS);
    pthread_mutex_init(&gate.lock, NULL);
    pthread_cond_init(&gate.changed, NULL);
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i] = (struct gated_job){.job = {.run = run_gated}, .gate = &gate};
        assert_int_equal(worker_pool_submit(pool, &jobs[i].job), 0);
    }
    pthread_mutex_lock(&gate.lock);
    while (gate.running < THREADS)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.is_open = 1;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);

    worker_pool_free(pool);
    assert_int_equal(gate.done, JOBS);
    assert_int_equal(gate.most, THREADS);
    for (size_t i = 0; i < JOBS; i++)
        assert_int_equal(jobs[i].runs, 1);
    pthread_cond_destroy(&gate.changed);
    pthread_mutex_destroy(&gate.lock);
}

TEST(a_pool_without_work_can_be_freed)
{
    worker_pool_free(worker_pool_new("test", 1));
    worker_pool_free(NULL);
}

static void *read_signal_mask(void *ret_mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, ret_mask);
    return NULL;
}

TEST(threads_block_signals)
{
    sigset_t mask;
    sigset_t own_before;
    sigset_t own_after;
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, NULL, &own_before);
    assert_int_equal(thread_start(&thread, "test", read_signal_mask, &mask), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &own_after);
    assert_int_equal(sigismember(&mask, SIGTERM), 1);
    assert_int_equal(sigismember(&mask, SIGINT), 1);
    assert_int_equal(sigismember(&mask, SIGPIPE), 1);
    assert_int_equal(sigismember(&own_after, SIGTERM), sigismember(&own_before, SIGTERM));
}
