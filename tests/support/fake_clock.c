/* SPDX-License-Identifier: MIT */
/*
 * The clock that tests move. Lock order: a waiter's mutex before the clock's lock. The thread that moves the
 * clock takes both in reverse, so it only tries the waiters' mutexes.
 */
#include "support/fake_clock.h"

#include <sched.h>
#include <stdbool.h>

enum {
    MONOTONIC_START_MS = 1000
};

/* A waiting thread, on its own stack. */
struct fake_waiter {
    pthread_cond_t *condition;
    pthread_mutex_t *mutex;
    bool is_woken; /* was woken since the clock was last moved */
    struct fake_waiter *next;
};

static struct fake_clock *fake_of(struct clock *clock)
{
    return (struct fake_clock *)clock; /* the first member of fake_clock */
}

static int64_t elapsed_ms(struct fake_clock *fake)
{
    pthread_mutex_lock(&fake->lock);
    int64_t elapsed = fake->elapsed_ms;
    pthread_mutex_unlock(&fake->lock);
    return elapsed;
}

static int64_t fake_realtime_ms(struct clock *clock)
{
    return fake_of(clock)->start_ms + elapsed_ms(fake_of(clock));
}

static int64_t fake_monotonic_ms(struct clock *clock)
{
    return MONOTONIC_START_MS + elapsed_ms(fake_of(clock));
}

static void add_waiter_locked(struct fake_clock *fake, struct fake_waiter *waiter)
{
    waiter->next = fake->waiters;
    fake->waiters = waiter;
    fake->waiters_len++;
    pthread_cond_broadcast(&fake->waiters_changed);
}

static void remove_waiter_locked(struct fake_clock *fake, const struct fake_waiter *waiter)
{
    struct fake_waiter **at = &fake->waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    fake->waiters_len--;
}

static void fake_wait(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex,
                      int64_t until_ms)
{
    struct fake_clock *fake = fake_of(clock);
    struct fake_waiter waiter = {.condition = condition, .mutex = mutex};

    pthread_mutex_lock(&fake->lock);
    bool is_due = until_ms <= MONOTONIC_START_MS + fake->elapsed_ms;
    if (!is_due)
        add_waiter_locked(fake, &waiter);
    pthread_mutex_unlock(&fake->lock);
    if (is_due)
        return;

    pthread_cond_wait(condition, mutex);
    pthread_mutex_lock(&fake->lock);
    remove_waiter_locked(fake, &waiter);
    pthread_mutex_unlock(&fake->lock);
}

void fake_clock_init(struct fake_clock *fake, int64_t start_ms)
{
    *fake = (struct fake_clock){
        .clock = {fake_realtime_ms, fake_monotonic_ms, fake_wait},
        .start_ms = start_ms,
    };
    pthread_mutex_init(&fake->lock, NULL);
    pthread_cond_init(&fake->waiters_changed, NULL);
}

void fake_clock_release(struct fake_clock *fake)
{
    pthread_cond_destroy(&fake->waiters_changed);
    pthread_mutex_destroy(&fake->lock);
}

/* Returns true if all waiters are woken. A waiter whose mutex is free is inside its wait, so that the signal
 * cannot be lost. */
static bool wake_waiters_locked(struct fake_clock *fake)
{
    bool all_woken = true;
    for (struct fake_waiter *waiter = fake->waiters; waiter != NULL; waiter = waiter->next) {
        if (waiter->is_woken)
            continue;
        if (pthread_mutex_trylock(waiter->mutex) == 0) {
            pthread_cond_broadcast(waiter->condition);
            pthread_mutex_unlock(waiter->mutex);
            waiter->is_woken = true;
        } else {
            all_woken = false;
        }
    }
    return all_woken;
}

void fake_clock_advance(struct fake_clock *fake, int64_t ms)
{
    pthread_mutex_lock(&fake->lock);
    fake->elapsed_ms += ms;
    for (struct fake_waiter *waiter = fake->waiters; waiter != NULL; waiter = waiter->next)
        waiter->is_woken = false;
    while (!wake_waiters_locked(fake)) {
        pthread_mutex_unlock(&fake->lock);
        sched_yield();
        pthread_mutex_lock(&fake->lock);
    }
    pthread_mutex_unlock(&fake->lock);
}

void fake_clock_await_waiters(struct fake_clock *fake, unsigned int count)
{
    pthread_mutex_lock(&fake->lock);
    while (fake->waiters_len < count)
        pthread_cond_wait(&fake->waiters_changed, &fake->lock);
    pthread_mutex_unlock(&fake->lock);
}
