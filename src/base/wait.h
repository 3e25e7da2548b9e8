/* SPDX-License-Identifier: MIT */
/*
 * Waiting with an end. A thread waits on a condition until the condition is signalled, until a point in time,
 * or until somebody cancels: a user pressed Ctrl-C, or the program is ending. Threads that wait for work, and
 * how long to wait before another attempt, are here too.
 *
 * A cancel is set once and from any thread, and stays set. It belongs to one thread at a time, which waits on
 * one condition at a time. A thread that waits for something else than a condition, such as the network, asks
 * cancel_is_set() at least once a second.
 */
#ifndef INBOXFS_BASE_WAIT_H
#define INBOXFS_BASE_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* ---------------------------------------------------------------- until it is cancelled */

struct cancel {
    pthread_mutex_t lock;      /* a leaf: nothing is locked with it held */
    pthread_cond_t woken;      /* `waking` became 0 */
    unsigned int waking;       /* protected by lock, like all below: calls that wake `condition` just now */
    pthread_cond_t *condition; /* borrowed, NULL when nobody waits */
    pthread_mutex_t *condition_of; /* the mutex that goes with it */
    atomic_bool is_set;            /* readable without any lock */
};

void cancel_init(struct cancel *cancel);
void cancel_release(struct cancel *cancel);

/* Must not be called with the mutex held of a condition that is waited on under this cancel. */
void cancel_set(struct cancel *cancel);

/* Takes no lock. NULL is never set. */
bool cancel_is_set(struct cancel *cancel);

/*
 * Waits on `condition` (made by clock_condition_init()) with `mutex` held. Returns 0 when the condition was
 * signalled, and sometimes for no reason: look at the state again. -EINTR: cancelled. -ETIMEDOUT: the
 * clock reached `until_ms` (CLOCK_FOREVER: never). NULL for `cancel`: nobody cancels. So a wait reads:
 *
 *     int error = 0;
 *     while (!is_done_locked(x) && error == 0)
 *         error = wait_until(clock, &x->changed, &x->lock, until_ms, cancel);
 */
int wait_until(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ms,
               struct cancel *cancel);

/* ---------------------------------------------------------------- for work */

/*
 * Threads that wait for work, each on a condition of its own. So waking one wakes exactly that one, and it is
 * the one that slept last, whose memory is still in the cache of its CPU. Several waiters on one condition
 * would do, but for glibc before 2.41: there a pthread_cond_signal() can wake nobody (glibc bug 25847), and
 * the work lies until something else comes.
 */
struct sleeper {
    pthread_cond_t wake;
    bool is_asleep; /* protected by the mutex of its sleepers, like all below */
    struct sleeper *next;
};

/* Protected by a mutex of its owner's, which is held in all calls. All zero: nobody sleeps. */
struct sleepers {
    struct sleeper *first;
};

/* A thread's own; released when it sleeps no more. */
void sleeper_init(struct sleeper *sleeper);
void sleeper_release(struct sleeper *sleeper);

/* Sleeps until woken or until `until_ms` of the clock. May return early: look at the state again. */
void sleepers_wait(struct sleepers *sleepers, struct sleeper *self, struct clock *clock,
                   pthread_mutex_t *mutex, int64_t until_ms);

/* Those that sleep now; nobody: nothing happens. */
void sleepers_wake_one(struct sleepers *sleepers);
void sleepers_wake_all(struct sleepers *sleepers);

/* ---------------------------------------------------------------- before another attempt */

/*
 * How long to wait before trying again: doubling from `min_ms` to `max_ms`, with jitter, so that many clients
 * of a service that comes back do not all arrive at once.
 */
struct backoff {
    int64_t min_ms;
    int64_t max_ms;
    unsigned int attempts; /* since the last success */
};

/* The next delay: between half and all of min_ms * 2^attempts, at most max_ms. */
int64_t backoff_next_ms(struct backoff *backoff);

/* After a success. */
void backoff_reset(struct backoff *backoff);

#endif
