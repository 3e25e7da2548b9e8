/* SPDX-License-Identifier: MIT */
/*
 * Cancelling wakes a thread that waits on a condition of somebody else's. The one that cancels must take the
 * mutex of that condition, and the waiter holds this mutex when it says which condition it is. So neither
 * holds cancel->lock while it takes the mutex. The waiter does not return before whoever wakes it is done:
 * the condition may be gone a moment later.
 */
#include "base/cancel.h"

#include <errno.h>

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

    pthread_mutex_lock(&cancel->lock);
    if (--cancel->waking == 0)
        pthread_cond_broadcast(&cancel->woken);
    pthread_mutex_unlock(&cancel->lock);
}

bool cancel_is_set(struct cancel *cancel)
{
    return cancel != NULL && cancel->is_set;
}

void cancel_bind(struct cancel *cancel, pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    if (cancel == NULL)
        return;
    pthread_mutex_lock(&cancel->lock);
    cancel->condition = condition;
    cancel->condition_of = mutex;
    pthread_mutex_unlock(&cancel->lock);
}

void cancel_unbind(struct cancel *cancel)
{
    if (cancel == NULL)
        return;
    pthread_mutex_lock(&cancel->lock);
    cancel->condition = NULL;
    while (cancel->waking > 0)
        pthread_cond_wait(&cancel->woken, &cancel->lock);
    pthread_mutex_unlock(&cancel->lock);
}

/* Returns whether somebody wakes the condition just now, and so needs its mutex. */
static bool leave_condition(struct cancel *cancel)
{
    pthread_mutex_lock(&cancel->lock);
    cancel->condition = NULL;
    bool is_being_woken = cancel->waking > 0;
    pthread_mutex_unlock(&cancel->lock);
    return is_being_woken;
}

int wait_until(struct clock *clock, pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ms,
               struct cancel *cancel)
{
    int error = 0;
    cancel_bind(cancel, condition, mutex);
    if (cancel_is_set(cancel))
        error = -EINTR;
    else if (until_ms != CLOCK_FOREVER && clock_monotonic_ms(clock) >= until_ms)
        error = -ETIMEDOUT;
    else
        clock_wait(clock, condition, mutex, until_ms);
    if (cancel != NULL && leave_condition(cancel)) {
        pthread_mutex_unlock(mutex);
        cancel_unbind(cancel);
        pthread_mutex_lock(mutex);
    }
    return error;
}
