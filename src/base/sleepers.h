/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for work, each on a condition of its own, so that waking one wakes exactly that one, and
 * the one that slept last, which is still warm. Several waiters on one condition would do, but for glibc
 * before 2.41: there a pthread_cond_signal() can wake nobody (glibc bug 25847), and the work lies until
 * something else comes.
 */
#ifndef INBOXFS_BASE_SLEEPERS_H
#define INBOXFS_BASE_SLEEPERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

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

#endif
