/* SPDX-License-Identifier: MIT */
/*
 * Waiting with an end. A thread waits on a condition until the condition is signalled, until a point in time,
 * or until somebody cancels: a user pressed Ctrl-C, or the program is ending.
 *
 * A cancel is set once and from any thread, and stays set. It belongs to one thread at a time, which waits on
 * one condition at a time. A thread that waits for something else than a condition, such as the network, asks
 * cancel_is_set() at least once a second.
 */
#ifndef INBOXFS_BASE_CANCEL_H
#define INBOXFS_BASE_CANCEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

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
 * signalled, and sometimes for no reason: look at the state again. -EINTR: cancelled. -ETIMEDOUT: `until_ms`
 * of the clock has come (CLOCK_FOREVER: it never comes). NULL for `cancel`: nobody cancels. So a wait reads:
 *
 *     int error = 0;
 *     while (!is_done_locked(x) && error == 0)
 *         error = wait_until(clock, &x->changed, &x->lock, until_ms, cancel);
 */
int wait_until(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ms,
               struct cancel *cancel);

/* The older way: until cancel_unbind(), setting also broadcasts `condition`, with `mutex` held. Call both
 * with `mutex` NOT held; NULL for `cancel` does nothing. */
void cancel_bind(struct cancel *cancel, pthread_cond_t *condition, pthread_mutex_t *mutex);
void cancel_unbind(struct cancel *cancel);

#endif
