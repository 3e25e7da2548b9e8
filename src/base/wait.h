/* SPDX-License-Identifier: MIT */
/*
 * Waits that end: a thread waits on a condition until another thread signals it, until a point in time, or
 * until the wait is cancelled, because a user pressed Ctrl-C or the program ends. Also the backoff before
 * another attempt.
 *
 * Any thread may set a cancel; no thread can unset it. A cancel serves one waiting thread at a time. A thread
 * that waits for another event, such as bytes from the network, calls cancel_is_set() at least once a second.
 *
 * A *bounded* cancel is set when its parent is set, or when its clock has reached a time. It has no
 * cancel_set() and no release.
 */
#ifndef INBOXFS_BASE_WAIT_H
#define INBOXFS_BASE_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* ---------------------------------------------------------------- waits that can be cancelled */

struct cancel {
    pthread_mutex_t lock;          /* a leaf: no lock is taken while it is held */
    pthread_cond_t woken;          /* signals that `waking` became 0 */
    unsigned int waking;           /* cancel_set() calls yet to signal; protected by `lock`, like all below */
    pthread_cond_t *condition;     /* borrowed; NULL when no thread waits */
    pthread_mutex_t *condition_of; /* the mutex of `condition` */
    atomic_bool is_set;            /* readable without any lock */
    struct clock *clock;           /* borrowed; NULL if the cancel is not bounded */
    int64_t until_ms;              /* monotonic */
    struct cancel *parent;         /* borrowed; may be NULL */
};

/* Makes a bounded cancel, which is set after `max_ms` at the latest. `parent` may be NULL. */
static inline struct cancel cancel_bounded(struct clock *clock, int64_t max_ms, struct cancel *parent)
{
    return (struct cancel){.clock = clock, .until_ms = clock_monotonic_ms(clock) + max_ms, .parent = parent};
}

void cancel_init(struct cancel *cancel);
void cancel_release(struct cancel *cancel);

/* Sets the cancel, and wakes the thread that waits with this cancel. The caller must not hold the mutex of
 * that wait. */
void cancel_set(struct cancel *cancel);

/* Returns false if `cancel` is NULL. Takes no lock. */
bool cancel_is_set(struct cancel *cancel);

/* Waits on `condition` (made by clock_condition_init()) with `mutex` held; `cancel` may be NULL. Return: 0
 * when the condition was signalled, and at spurious wake-ups; -EINTR when `cancel` was set; -ETIMEDOUT
 * when the clock had reached `until_ms` (CLOCK_FOREVER: never). Usage:
 *
 *     int error = 0;
 *     while (!is_done_locked(x) && error == 0)
 *         error = wait_until(clock, &x->changed, &x->lock, until_ms, cancel);
 */
int wait_until(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ms,
               struct cancel *cancel);

/* ---------------------------------------------------------------- delays between attempts */

/* A backoff is the delay before the next attempt. It doubles from `min_ms` to `max_ms`, with jitter, so that
 * the clients of a recovered service do not all connect at once. */
struct backoff {
    int64_t min_ms;
    int64_t max_ms;
    unsigned int attempts; /* number of attempts since the last success; its caller sets 0 */
};

/* Returns the next delay, half to all of min_ms * 2^attempts, at most max_ms; counts an attempt. */
int64_t backoff_next_ms(struct backoff *backoff);

#endif
