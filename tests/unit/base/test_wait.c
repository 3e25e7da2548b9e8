/* SPDX-License-Identifier: MIT */
/*
 * A wait ends when the test moves the clock to the wait's time, or when it is cancelled. The delays
 * between attempts grow, with jitter.
 */
#include "base/wait.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "support/fake_clock.h"
#include "support/test.h"

struct waiter {
    struct fake_clock fake;
    struct cancel cancel;
    pthread_mutex_t lock;
    pthread_cond_t condition;
    int64_t until_ms;
    int64_t woken_at_ms;
    int error;
};

static int set_up(void **state)
{
    static struct waiter waiter;
    waiter = (struct waiter){.until_ms = CLOCK_FOREVER};
    fake_clock_init(&waiter.fake, 1000000);
    cancel_init(&waiter.cancel);
    pthread_mutex_init(&waiter.lock, NULL);
    clock_condition_init(&waiter.condition);
    *state = &waiter;
    return 0;
}

static int tear_down(void **state)
{
    struct waiter *waiter = *state;
    cancel_release(&waiter->cancel);
    fake_clock_release(&waiter->fake);
    return 0;
}

/* Waits until the waiter is cancelled or `until_ms` is reached. */
static void *wait_for_either(void *argument)
{
    struct waiter *waiter = argument;
    struct clock *clock = &waiter->fake.clock;
    pthread_mutex_lock(&waiter->lock);
    do
        waiter->error =
            wait_until(clock, &waiter->condition, &waiter->lock, waiter->until_ms, &waiter->cancel);
    while (waiter->error == 0);
    waiter->woken_at_ms = clock_monotonic_ms(clock);
    pthread_mutex_unlock(&waiter->lock);
    return NULL;
}

TEST_WITH(cancelling_wakes_a_waiter, set_up, tear_down)
{
    struct waiter *waiter = *state;
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "waiter", wait_for_either, waiter), 0);
    fake_clock_await_waiters(&waiter->fake, 1);
    cancel_set(&waiter->cancel);
    pthread_join(thread, NULL);
    assert_true(cancel_is_set(&waiter->cancel));
    assert_int_equal(waiter->error, -EINTR);
}

/* The condition is destroyed right after its wait, so cancel_set() must not use it any more. */
static void *wait_on_a_condition_of_its_own(void *argument)
{
    struct waiter *waiter = argument;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    int error = 0;
    clock_condition_init(&condition);
    pthread_mutex_lock(&lock);
    while (error == 0)
        error = wait_until(clock_system(), &condition, &lock, CLOCK_FOREVER, &waiter->cancel);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&condition);
    pthread_mutex_destroy(&lock);
    memset(&condition, 0xff, sizeof(condition));
    memset(&lock, 0xff, sizeof(lock));
    waiter->error = error;
    return NULL;
}

TEST_WITH(a_condition_can_be_destroyed_right_after_its_wait, set_up, tear_down)
{
    struct waiter *waiter = *state;
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        cancel_release(&waiter->cancel);
        cancel_init(&waiter->cancel);
        assert_int_equal(thread_start(&thread, "waiter", wait_on_a_condition_of_its_own, waiter), 0);
        cancel_set(&waiter->cancel);
        pthread_join(thread, NULL);
        assert_int_equal(waiter->error, -EINTR);
    }
}

TEST_WITH(a_cancel_set_before_a_wait_ends_the_wait, set_up, tear_down)
{
    struct waiter *waiter = *state;
    cancel_set(&waiter->cancel);
    cancel_set(&waiter->cancel);
    wait_for_either(waiter);
    assert_int_equal(waiter->error, -EINTR);
}

TEST_WITH(a_bounded_cancel_is_set_with_its_parent_and_when_its_time_comes, set_up, tear_down)
{
    struct waiter *waiter = *state;
    struct clock *clock = &waiter->fake.clock;
    const int64_t until_ms = clock_monotonic_ms(clock) + 1000;
    struct cancel bounded = {.clock = clock, .until_ms = until_ms, .parent = &waiter->cancel};
    struct cancel alone = {.clock = clock, .until_ms = until_ms};
    struct cancel inner = {.clock = clock, .until_ms = CLOCK_FOREVER, .parent = &bounded};
    assert_false(cancel_is_set(&bounded));
    assert_false(cancel_is_set(&alone));
    assert_false(cancel_is_set(&inner));
    fake_clock_advance(&waiter->fake, 1000);
    assert_true(cancel_is_set(&bounded));
    assert_true(cancel_is_set(&alone));
    assert_true(cancel_is_set(&inner));
    pthread_mutex_lock(&waiter->lock);
    assert_int_equal(wait_until(clock, &waiter->condition, &waiter->lock, CLOCK_FOREVER, &inner), -ETIMEDOUT);
    bounded.until_ms = CLOCK_FOREVER;
    assert_false(cancel_is_set(&inner));
    pthread_mutex_unlock(&waiter->lock);
    cancel_set(&waiter->cancel);
    assert_true(cancel_is_set(&inner));
    pthread_mutex_lock(&waiter->lock);
    assert_int_equal(wait_until(clock, &waiter->condition, &waiter->lock, CLOCK_FOREVER, &inner), -EINTR);
    pthread_mutex_unlock(&waiter->lock);
}

TEST_WITH(a_null_cancel_is_never_set, set_up, tear_down)
{
    struct waiter *waiter = *state;
    assert_false(cancel_is_set(NULL));
    assert_false(cancel_is_set(&waiter->cancel));
    pthread_mutex_lock(&waiter->lock);
    assert_int_equal(wait_until(clock_system(), &waiter->condition, &waiter->lock, 1, NULL), -ETIMEDOUT);
    pthread_mutex_unlock(&waiter->lock);
}

TEST_WITH(a_waiter_wakes_when_the_clock_reaches_its_time, set_up, tear_down)
{
    struct waiter *waiter = *state;
    pthread_t thread;
    int64_t start_ms = clock_monotonic_ms(&waiter->fake.clock);
    waiter->until_ms = start_ms + 5000;
    assert_int_equal(thread_start(&thread, "waiter", wait_for_either, waiter), 0);
    for (int second = 1; second <= 5; second++) {
        fake_clock_await_waiters(&waiter->fake, 1);
        fake_clock_advance(&waiter->fake, 1000);
    }
    pthread_join(thread, NULL);
    assert_int_equal(waiter->error, -ETIMEDOUT);
    assert_int_equal(waiter->woken_at_ms, start_ms + 5000);
    assert_int_equal(clock_realtime_ms(&waiter->fake.clock), 1005000);
}

TEST_WITH(a_wait_until_the_past_returns_at_once, set_up, tear_down)
{
    struct waiter *waiter = *state;
    waiter->until_ms = clock_monotonic_ms(&waiter->fake.clock);
    pthread_mutex_lock(&waiter->lock);
    clock_wait(&waiter->fake.clock, &waiter->condition, &waiter->lock, waiter->until_ms);
    clock_wait(clock_system(), &waiter->condition, &waiter->lock, 1);
    pthread_mutex_unlock(&waiter->lock);
}

TEST_WITH(a_wait_on_the_system_clock_sleeps_until_its_time, set_up, tear_down)
{
    struct clock *clock = clock_system();
    struct waiter *waiter = *state;
    int64_t until_ms = clock_monotonic_ms(clock) + 20;
    assert_true(clock_realtime_ms(clock) > INT64_C(1500000000000));
    pthread_mutex_lock(&waiter->lock);
    int waits = 0;
    for (; clock_monotonic_ms(clock) < until_ms; waits++)
        clock_wait(clock, &waiter->condition, &waiter->lock, until_ms);
    pthread_mutex_unlock(&waiter->lock);
    assert_true(waits < 100); /* the thread slept, and did not poll */
    assert_true(clock_monotonic_ms(clock) < until_ms + 10000);
}

/* ---------------------------------------------------------------- delays before another attempt */

TEST(delays_double_up_to_the_bound)
{
    static const int64_t full_ms[] = {1000, 2000, 4000, 8000, 16000, 20000, 20000, 20000};
    for (int round = 0; round < 100; round++) {
        struct backoff backoff = {.min_ms = 1000, .max_ms = 20000};
        for (size_t i = 0; i < sizeof(full_ms) / sizeof(full_ms[0]); i++) {
            int64_t delay = backoff_next_ms(&backoff);
            assert_true(delay >= full_ms[i] / 2 && delay <= full_ms[i]);
        }
        backoff.attempts = 0;
        assert_true(backoff_next_ms(&backoff) <= 1000);
    }
}

TEST(delays_have_jitter)
{
    bool differs = false;
    struct backoff backoff = {.min_ms = 1000000, .max_ms = 1000000};
    int64_t first = backoff_next_ms(&backoff);
    for (int i = 0; i < 100; i++)
        differs = differs || backoff_next_ms(&backoff) != first;
    assert_true(differs);
}

TEST(the_count_of_attempts_does_not_overflow)
{
    struct backoff backoff = {.min_ms = 1000, .max_ms = 900000, .attempts = 4294967290U};
    for (int i = 0; i < 20; i++) {
        int64_t delay = backoff_next_ms(&backoff);
        assert_true(delay > 0 && delay <= 900000);
    }
}
