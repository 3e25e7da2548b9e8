/* SPDX-License-Identifier: MIT */
/*
 * Waits that can be cancelled, and exponential backoff with equal jitter.
 *
 * cancel_set() signals the condition of a waiting thread, and locks the mutex of this condition. The waiter
 * holds the mutex while it locks cancel->lock to register the condition, so cancel_set() must not hold
 * cancel->lock while it locks the mutex. The waiter does not return before cancel_set() has signalled the
 * condition, since the waiter's caller may destroy the condition at once.
 */
#include "base/wait.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/lock.h"

/* ---------------------------------------------------------------- waits that can be cancelled */

void cancel_init(struct cancel *cancel)
{
    *cancel = (struct cancel){.is_set = false};
    pthread_mutex_init(&cancel->lock, NULL);
    pthread_cond_init(&cancel->woken, NULL);
}

void cancel_release(struct cancel *cancel)
{
    pthread_cond_destroy(&cancel->woken);
    pthread_mutex_destroy(&cancel->lock);
}

void cancel_set(struct cancel *cancel)
{
    pthread_mutex_lock(&cancel->lock);
    cancel->is_set = true;
    pthread_cond_t *condition = cancel->condition;
    pthread_mutex_t *mutex = cancel->condition_of;
    if (condition != NULL)
        cancel->waking++;
    pthread_mutex_unlock(&cancel->lock);
    if (condition == NULL)
        return;

    pthread_mutex_lock(mutex);
    pthread_cond_broadcast(condition);
    pthread_mutex_unlock(mutex);

    LOCK_GUARD(&cancel->lock);
    if (--cancel->waking == 0)
        pthread_cond_broadcast(&cancel->woken);
}

bool cancel_is_set(struct cancel *cancel)
{
    for (; cancel != NULL; cancel = cancel->parent)
        if (cancel->is_set ||
            (cancel->clock != NULL && clock_monotonic_ms(cancel->clock) >= cancel->until_ms))
            return true;
    return false;
}

int wait_until(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ms,
               struct cancel *cancel)
{
    int error = 0;
    for (; cancel != NULL && cancel->clock != NULL; cancel = cancel->parent)
        if (cancel->clock == clock && cancel->until_ms < until_ms)
            until_ms = cancel->until_ms;
    if (cancel != NULL) {
        LOCK_GUARD(&cancel->lock);
        cancel->condition = condition;
        cancel->condition_of = mutex;
    }
    if (cancel_is_set(cancel))
        error = -EINTR;
    else if (until_ms != CLOCK_FOREVER && clock_monotonic_ms(clock) >= until_ms)
        error = -ETIMEDOUT;
    else
        clock_wait(clock, condition, mutex, until_ms);
    if (cancel == NULL)
        return error;
    pthread_mutex_lock(&cancel->lock);
    cancel->condition = NULL;
    bool is_being_woken = cancel->waking > 0;
    if (is_being_woken)
        pthread_mutex_unlock(mutex); /* cancel_set() takes it */
    while (cancel->waking > 0)
        pthread_cond_wait(&cancel->woken, &cancel->lock);
    pthread_mutex_unlock(&cancel->lock);
    if (is_being_woken)
        pthread_mutex_lock(mutex);
    return error;
}

/* ---------------------------------------------------------------- delays between attempts */

int64_t backoff_next_ms(struct backoff *backoff)
{
    int64_t delay = backoff->min_ms;
    for (unsigned int i = 0; i < backoff->attempts && delay < backoff->max_ms; i++)
        delay *= 2;
    if (delay > backoff->max_ms)
        delay = backoff->max_ms;
    backoff->attempts++;
    return delay - arc4random_uniform((uint32_t)(delay / 2 + 1));
}
