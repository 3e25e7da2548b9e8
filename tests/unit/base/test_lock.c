/* SPDX-License-Identifier: MIT */
/*
 * Guards hold their locks up to the end of their block.
 */
#include "base/lock.h"

#include <errno.h>
#include <stdbool.h>

#include "support/test.h"

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;

static bool is_locked(pthread_mutex_t *mutex)
{
    if (pthread_mutex_trylock(mutex) != 0)
        return true;
    pthread_mutex_unlock(mutex);
    return false;
}

static bool is_locked_in_a_return(bool is_early)
{
    LOCK_GUARD(&first);
    if (is_early)
        return is_locked(&first);
    return is_locked(&first);
}

TEST(a_guard_holds_the_lock_until_the_result_is_computed)
{
    for (int i = 0; i < 2; i++) {
        assert_true(is_locked_in_a_return(i == 0));
        assert_false(is_locked(&first));
    }
}

TEST(a_guard_releases_its_lock_at_the_end_of_its_block)
{
    {
        LOCK_GUARD(&first);
        assert_true(is_locked(&first));
    }
    assert_false(is_locked(&first));
}

TEST(two_guards_hold_two_locks)
{
    {
        LOCK_GUARD(&first);
        {
            LOCK_GUARD(&second);
            assert_true(is_locked(&first) && is_locked(&second));
        }
        assert_true(is_locked(&first) && !is_locked(&second));
    }
    assert_false(is_locked(&first));
}

TEST(readers_share_a_lock_that_excludes_writers)
{
    {
        READ_GUARD(&shared);
        assert_int_equal(pthread_rwlock_tryrdlock(&shared), 0);
        pthread_rwlock_unlock(&shared);
        assert_int_equal(pthread_rwlock_trywrlock(&shared), EBUSY);
    }
    {
        WRITE_GUARD(&shared);
        assert_int_equal(pthread_rwlock_tryrdlock(&shared), EBUSY);
    }
    assert_int_equal(pthread_rwlock_trywrlock(&shared), 0);
    pthread_rwlock_unlock(&shared);
}
