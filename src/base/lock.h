/* SPDX-License-Identifier: MIT */
/*
 * Guards: a guard takes a lock, and releases it at the end of the block, also on an early return.
 *
 *     LOCK_GUARD(&queue->lock);
 *     while (queue->first == NULL)
 *         pthread_cond_wait(&queue->changed, &queue->lock);
 *     return pop_locked(queue);
 *
 * The value of a `return` is computed with the lock held. Variables with a cleanup attribute are released in
 * reverse order: with the lock held if their declaration follows the guard, else after the lock is released.
 * A function that must release the lock in between, or calls a function that may wait, has no guard.
 */
#ifndef INBOXFS_BASE_LOCK_H
#define INBOXFS_BASE_LOCK_H

#include <pthread.h>

#include "base/cleanup.h"

/* Waits for the mutex (a pthread_mutex_t pointer), and holds it until the end of the block. */
#define LOCK_GUARD(mutex) \
    LOCK_GUARD_VARIABLE(lock_guard_end) pthread_mutex_t *LOCK_GUARD_NAME(__LINE__) = lock_guard_begin(mutex)

/* Wait for a pthread_rwlock_t, shared or exclusive, and hold it until the end of the block. */
#define READ_GUARD(rwlock)                \
    LOCK_GUARD_VARIABLE(rwlock_guard_end) \
    pthread_rwlock_t *LOCK_GUARD_NAME(__LINE__) = read_guard_begin(rwlock)
#define WRITE_GUARD(rwlock)               \
    LOCK_GUARD_VARIABLE(rwlock_guard_end) \
    pthread_rwlock_t *LOCK_GUARD_NAME(__LINE__) = write_guard_begin(rwlock)

/* ---------------------------------------------------------------- used by the macros only */

/* The attribute prevents a warning of Clang, which does not count the cleanup as a use. */
#define LOCK_GUARD_VARIABLE(end) __attribute__((unused)) _cleanup_(end)
#define LOCK_GUARD_NAME(line) LOCK_GUARD_JOIN(lock_guard_, line)
#define LOCK_GUARD_JOIN(start, end) start##end

static inline pthread_mutex_t *lock_guard_begin(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void lock_guard_end(pthread_mutex_t *const *mutex)
{
    pthread_mutex_unlock(*mutex);
}

static inline pthread_rwlock_t *read_guard_begin(pthread_rwlock_t *rwlock)
{
    pthread_rwlock_rdlock(rwlock);
    return rwlock;
}

static inline pthread_rwlock_t *write_guard_begin(pthread_rwlock_t *rwlock)
{
    pthread_rwlock_wrlock(rwlock);
    return rwlock;
}

static inline void rwlock_guard_end(pthread_rwlock_t *const *rwlock)
{
    pthread_rwlock_unlock(*rwlock);
}

#endif
