/* SPDX-License-Identifier: MIT */
/*
 * A request to stop waiting, set once and from any thread: a user pressed Ctrl-C, or the program is ending.
 * Whoever waits on a condition binds it meanwhile, so that setting wakes the wait; whoever waits otherwise
 * looks at it from time to time (at least once a second).
 */
#ifndef INBOXFS_BASE_CANCEL_H
#define INBOXFS_BASE_CANCEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cancel {
    pthread_mutex_t lock;
    atomic_bool is_set;            /* readable without any lock */
    pthread_cond_t *condition;     /* protected by lock; borrowed, NULL when nobody waits */
    pthread_mutex_t *condition_of; /* protected by lock; the mutex that goes with it */
};

void cancel_init(struct cancel *cancel);
void cancel_release(struct cancel *cancel);

/* Must not be called with a bound mutex held. */
void cancel_set(struct cancel *cancel);

/* Takes no lock. NULL is never set. */
bool cancel_is_set(struct cancel *cancel);

/* Until cancel_unbind(), setting also broadcasts `condition`, with `mutex` held. Call both with `mutex` NOT
 * held; NULL for `cancel` does nothing. */
void cancel_bind(struct cancel *cancel, pthread_cond_t *condition, pthread_mutex_t *mutex);
void cancel_unbind(struct cancel *cancel);

#endif
