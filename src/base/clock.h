/* SPDX-License-Identifier: MIT */
/*
 * Time, replaceable: code that waits or dates takes a clock, and tests hand in one that they move themselves.
 */
#ifndef INBOXFS_BASE_CLOCK_H
#define INBOXFS_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>

#define CLOCK_FOREVER INT64_MAX

struct clock {
    /* Milliseconds since 1970-01-01T00:00:00Z. */
    int64_t (*realtime_ms)(struct clock *clock);
    /* Milliseconds that only grow. */
    int64_t (*monotonic_ms)(struct clock *clock);
    /* Waits on `condition` (made by clock_condition_init) until it is signalled or monotonic_ms() reaches
     * `until_ms`; CLOCK_FOREVER: without end. May return early: look at the state again. `mutex` is held. */
    void (*wait)(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ms);
};

/* The machine's clock. Never freed. */
struct clock *clock_system(void);

/* Milliseconds of the machine that only grow; the time that it slept (suspended) counts, too. */
int64_t clock_boottime_ms(void);

/* A condition variable that waits on the monotonic clock. */
void clock_condition_init(pthread_cond_t *condition);

static inline int64_t clock_realtime_ms(struct clock *clock)
{
    return clock->realtime_ms(clock);
}

static inline int64_t clock_monotonic_ms(struct clock *clock)
{
    return clock->monotonic_ms(clock);
}

static inline void clock_wait(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex,
                              int64_t until_ms)
{
    clock->wait(clock, condition, mutex, until_ms);
}

#endif
