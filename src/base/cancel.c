/* SPDX-License-Identifier: MIT */
/*
 * Cancellation of a wait. Lock order: cancel->lock before the bound mutex; looking takes no lock, since
 * waiters look with the bound mutex held.
 */
#include "base/cancel.h"

void cancel_init(struct cancel *cancel)
{
    *cancel = (struct cancel){.is_set = false};
    pthread_mutex_init(&cancel->lock, NULL);
}

void cancel_release(struct cancel *cancel)
{
    pthread_mutex_destroy(&cancel->lock);
}

void cancel_set(struct cancel *cancel)
{
    pthread_mutex_lock(&cancel->lock);
    cancel->is_set = true;
    if (cancel->condition != NULL) {
        pthread_mutex_lock(cancel->condition_of);
        pthread_cond_broadcast(cancel->condition);
        pthread_mutex_unlock(cancel->condition_of);
    }
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
    cancel_bind(cancel, NULL, NULL);
}
