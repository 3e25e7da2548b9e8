/* SPDX-License-Identifier: MIT */
#include "service/reply_budget.h"

#include <errno.h>

#include "base/wait.h"

void reply_budget_init(struct reply_budget *budget, unsigned int max_makers, size_t max_bytes,
                       int64_t wait_ms)
{
    *budget = (struct reply_budget){.max_makers = max_makers, .max_bytes = max_bytes, .wait_ms = wait_ms};
    pthread_mutex_init(&budget->lock, NULL);
    clock_condition_init(&budget->changed);
}

void reply_budget_release(struct reply_budget *budget)
{
    pthread_cond_destroy(&budget->changed);
    pthread_mutex_destroy(&budget->lock);
}

static bool has_room_locked(const struct reply_budget *budget)
{
    return budget->makers < budget->max_makers && budget->bytes < budget->max_bytes;
}

int reply_budget_begin(struct reply_budget *budget)
{
    int64_t until_ms = clock_monotonic_ms(clock_system()) + budget->wait_ms;
    int error = 0;
    pthread_mutex_lock(&budget->lock);
    while (!has_room_locked(budget) && !budget->is_closed && error == 0)
        error = wait_until(clock_system(), &budget->changed, &budget->lock, until_ms, NULL);
    if (error != 0 || budget->is_closed)
        error = -EBUSY;
    else
        budget->makers++;
    pthread_mutex_unlock(&budget->lock);
    return error;
}

void reply_budget_close(struct reply_budget *budget)
{
    pthread_mutex_lock(&budget->lock);
    budget->is_closed = true;
    pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->lock);
}

void reply_budget_end(struct reply_budget *budget, size_t bytes)
{
    pthread_mutex_lock(&budget->lock);
    budget->makers--;
    budget->bytes += bytes;
    pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->lock);
}

void reply_budget_return(struct reply_budget *budget, size_t bytes)
{
    pthread_mutex_lock(&budget->lock);
    budget->bytes -= bytes;
    pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->lock);
}
