/* SPDX-License-Identifier: MIT */
/*
 * Cancellation and clocks: whoever waits is woken, and time is what the test says.
 */
#include "base/cancel.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/thread.h"
#include "support/fake_clock.h"

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

/* Waits until it is cancelled or the time has come. */
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

static void cancelling_wakes_a_waiter(void **state)
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

/* The condition lives no longer than its wait: a call that is still about to wake it would find nothing. */
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

static void a_condition_may_go_as_soon_as_its_wait_is_over(void **state)
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

static void cancelling_before_the_wait_is_seen(void **state)
{
    struct waiter *waiter = *state;
    cancel_set(&waiter->cancel);
    cancel_set(&waiter->cancel);
    wait_for_either(waiter);
    assert_int_equal(waiter->error, -EINTR);
}

static void no_cancel_is_never_set(void **state)
{
    struct waiter *waiter = *state;
    assert_false(cancel_is_set(NULL));
    assert_false(cancel_is_set(&waiter->cancel));
    pthread_mutex_lock(&waiter->lock);
    assert_int_equal(wait_until(clock_system(), &waiter->condition, &waiter->lock, 1, NULL), -ETIMEDOUT);
    pthread_mutex_unlock(&waiter->lock);
}

static void moving_the_time_wakes_a_waiter_when_it_has_come(void **state)
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

static void a_wait_for_the_past_returns(void **state)
{
    struct waiter *waiter = *state;
    waiter->until_ms = clock_monotonic_ms(&waiter->fake.clock);
    pthread_mutex_lock(&waiter->lock);
    clock_wait(&waiter->fake.clock, &waiter->condition, &waiter->lock, waiter->until_ms);
    clock_wait(clock_system(), &waiter->condition, &waiter->lock, 1);
    pthread_mutex_unlock(&waiter->lock);
}

static void the_machines_clock_goes_on(void **state)
{
    struct clock *clock = clock_system();
    struct waiter *waiter = *state;
    int64_t until_ms = clock_monotonic_ms(clock) + 20;
    assert_true(clock_realtime_ms(clock) > INT64_C(1500000000000));
    pthread_mutex_lock(&waiter->lock);
    while (clock_monotonic_ms(clock) < until_ms)
        clock_wait(clock, &waiter->condition, &waiter->lock, until_ms);
    pthread_mutex_unlock(&waiter->lock);
    assert_true(clock_monotonic_ms(clock) < until_ms + 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cancelling_wakes_a_waiter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancelling_before_the_wait_is_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_condition_may_go_as_soon_as_its_wait_is_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_cancel_is_never_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(moving_the_time_wakes_a_waiter_when_it_has_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wait_for_the_past_returns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_machines_clock_goes_on, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
