/* SPDX-License-Identifier: MIT */
/*
 * A replaceable clock: functions that wait or need the time have a clock as an argument, and tests pass a
 * clock that they move themselves.
 */
#ifndef INBOXFS_BASE_CLOCK_H
#define INBOXFS_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>

#define CLOCK_FOREVER INT64_MAX

struct clock {
    /* Returns milliseconds since 1970-01-01T00:00:00Z. */
    int64_t (*realtime_ms)(struct clock *clock);
    /* Returns milliseconds since an arbitrary start; never decreases. */
    int64_t (*monotonic_ms)(struct clock *clock);
    /* Waits with `mutex` held until `condition` (made by clock_condition_init()) is signalled, or until
     * monotonic_ms() reaches `until_ms` (CLOCK_FOREVER: never). May return early, so callers check again. */
    void (*wait)(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ms);
};

/* Returns the machine's clock, which is static. */
struct clock *clock_system(void);

/* Returns the milliseconds since the machine booted, including the time in which it was suspended. */
int64_t clock_boottime_ms(void);

/* Initialises a condition variable whose waits are timed by the monotonic clock. */
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
