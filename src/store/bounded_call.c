/* SPDX-License-Identifier: MIT */
/*
 * The caller waits while a thread of its own runs the function.
 */
#include "store/bounded_call.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/lock.h"
#include "base/thread.h"

struct call {
    void (*function)(void *context, struct cancel *cancel);
    void *context;
    struct cancel cancel;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended; /* protected by lock */
};

static void *run(void *argument)
{
    struct call *call = argument;
    call->function(call->context, &call->cancel);
    LOCK_GUARD(&call->lock);
    call->has_ended = true;
    pthread_cond_broadcast(&call->ended);
    return NULL;
}

int bounded_call(struct clock *clock, int64_t timeout_ms, struct cancel *cancel,
                 void (*function)(void *context, struct cancel *cancel), void *context)
{
    struct call call = {.function = function, .context = context};
    pthread_t thread;
    int64_t until_ms = clock_monotonic_ms(clock) + timeout_ms;
    cancel_init(&call.cancel);
    pthread_mutex_init(&call.lock, NULL);
    clock_condition_init(&call.ended);
    int error = thread_start(&thread, "call", run, &call);
    if (error == 0) {
        int waited = 0;
        pthread_mutex_lock(&call.lock);
        while (!call.has_ended && waited == 0)
            waited = wait_until(clock, &call.ended, &call.lock, until_ms, cancel);
        pthread_mutex_unlock(&call.lock);
        cancel_set(&call.cancel);
        pthread_join(thread, NULL);
    }
    pthread_cond_destroy(&call.ended);
    pthread_mutex_destroy(&call.lock);
    cancel_release(&call.cancel);
    return error;
}
