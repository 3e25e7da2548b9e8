/* SPDX-License-Identifier: MIT */
/*
 * A clock that stands still until a test moves it. Every move wakes all threads that wait on it.
 */
#ifndef INBOXFS_TESTS_FAKE_CLOCK_H
#define INBOXFS_TESTS_FAKE_CLOCK_H

#include <pthread.h>
#include <stdint.h>

#include "base/clock.h"

struct fake_waiter;

struct fake_clock {
    struct clock clock; /* the clock for the code under test */
    pthread_mutex_t lock;
    pthread_cond_t waiters_changed;
    int64_t start_ms;
    int64_t elapsed_ms;          /* time since the start; protected by `lock`, like all members below */
    struct fake_waiter *waiters; /* threads in clock_wait() */
    unsigned int waiters_len;
};

/* `start_ms` is the first real time. The monotonic time starts at another number, so that tests notice if
 * code confuses the two. */
void fake_clock_init(struct fake_clock *fake, int64_t start_ms);

/* No thread may still wait on the clock. */
void fake_clock_release(struct fake_clock *fake);

/* Moves the time and wakes all waiting threads. The caller must not hold the mutex of a waiting thread. */
void fake_clock_advance(struct fake_clock *fake, int64_t ms);

/* Blocks until at least `count` threads wait on the clock. */
void fake_clock_await_waiters(struct fake_clock *fake, unsigned int count);

#endif
