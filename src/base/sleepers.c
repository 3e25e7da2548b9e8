/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for work.
 */
#include "base/sleepers.h"

#include <stddef.h>

void sleeper_init(struct sleeper *sleeper)
{
    *sleeper = (struct sleeper){.is_asleep = false};
    clock_condition_init(&sleeper->wake);
}

void sleeper_release(struct sleeper *sleeper)
{
    pthread_cond_destroy(&sleeper->wake);
}

static void leave(struct sleepers *sleepers, struct sleeper *self)
{
    struct sleeper **at = &sleepers->first;
    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
    self->is_asleep = false;
}

void sleepers_wait(struct sleepers *sleepers, struct sleeper *self, struct clock *clock,
                   pthread_mutex_t *mutex, int64_t until_ms)
{
    self->next = sleepers->first;
    sleepers->first = self;
    self->is_asleep = true;
    clock_wait(clock, &self->wake, mutex, until_ms);
    if (self->is_asleep)
        leave(sleepers, self);
}

void sleepers_wake_one(struct sleepers *sleepers)
{
    struct sleeper *sleeper = sleepers->first;
    if (sleeper == NULL)
        return;
    leave(sleepers, sleeper);
    pthread_cond_signal(&sleeper->wake);
}

void sleepers_wake_all(struct sleepers *sleepers)
{
    while (sleepers->first != NULL)
        sleepers_wake_one(sleepers);
}
