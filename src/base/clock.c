/* SPDX-License-Identifier: MIT */
/*
 * The machine's clock: CLOCK_REALTIME for dates; for waits CLOCK_MONOTONIC, which no user can set.
 */
#include "base/clock.h"

#include <time.h>

static int64_t read_clock_ms(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t system_realtime_ms(struct clock *clock)
{
    return read_clock_ms(CLOCK_REALTIME);
}

static int64_t system_monotonic_ms(struct clock *clock)
{
    return read_clock_ms(CLOCK_MONOTONIC);
}

int64_t clock_boottime_ms(void)
{
    return read_clock_ms(CLOCK_BOOTTIME);
}

static void system_wait(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex,
                        int64_t until_ms)
{
    if (until_ms == CLOCK_FOREVER) {
        pthread_cond_wait(condition, mutex);
        return;
    }
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = (until_ms % 1000) * 1000000};
    pthread_cond_timedwait(condition, mutex, &until);
}

struct clock *clock_system(void)
{
    static struct clock clock = {system_realtime_ms, system_monotonic_ms, system_wait};
    return &clock;
}

void clock_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}
