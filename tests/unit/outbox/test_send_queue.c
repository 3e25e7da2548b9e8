/* SPDX-License-Identifier: MIT */
/*
 * The suspension of the queue: who may ask the service when, and who tries.
 */
#include "outbox/send_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"

static bool may_enter(struct suspension *suspension, int64_t now_ms)
{
    uint64_t probe;
    bool may = suspension_try(suspension, now_ms, &probe);
    suspension_leave(suspension, probe);
    return may;
}

/* Requests that were under way together fail one after the other. */
static void the_longest_wait_that_was_asked_for_counts(void **state)
{
    struct suspension suspension;
    (void)state;
    suspension_init(&suspension);
    assert_true(may_enter(&suspension, 0));
    suspension_begin(&suspension, SUSPENSION_BUSY, 1000, 60 * 1000, "busy");
    suspension_begin(&suspension, SUSPENSION_UNREACHABLE, 1500, -1, "gone");
    assert_string_equal(suspension.error, "gone");
    assert_int_equal(suspension_until_ms(&suspension), 61 * 1000);
    assert_false(may_enter(&suspension, 61 * 1000 - 1));
    assert_true(may_enter(&suspension, 61 * 1000));
    suspension_begin(&suspension, SUSPENSION_BUSY, 61 * 1000, 90 * 1000, "busy");
    suspension_begin(&suspension, SUSPENSION_BUSY, 61 * 1000, 120 * 1000, "busy");
    assert_int_equal(suspension_until_ms(&suspension), 181 * 1000);
}

static void failures_together_lengthen_the_wait_once(void **state)
{
    struct suspension one;
    struct suspension many;
    (void)state;
    suspension_init(&one);
    suspension_init(&many);
    int64_t now_ms = 0;
    for (int round = 0; round < 5; round++) {
        suspension_begin(&one, SUSPENSION_UNREACHABLE, now_ms, -1, "");
        for (int i = 0; i < 20; i++)
            suspension_begin(&many, SUSPENSION_UNREACHABLE, now_ms, -1, "");
        /* Waits differ by chance, but not by a factor of 2^20. */
        assert_in_range(suspension_until_ms(&one) - now_ms, 500, 60 * 1000);
        assert_in_range(suspension_until_ms(&many) - now_ms, 500, 60 * 1000);
        now_ms += 3600 * 1000;
    }
}

static void one_tries_and_the_others_wait_for_it(void **state)
{
    struct suspension suspension;
    uint64_t first;
    uint64_t second;
    (void)state;
    suspension_init(&suspension);
    suspension_begin(&suspension, SUSPENSION_BUSY, 0, 10 * 1000, "busy");
    assert_true(suspension_try(&suspension, 10 * 1000, &first));
    assert_true(first != 0);
    assert_false(suspension_try(&suspension, 20 * 1000, &second));
    assert_true(suspension_until_ms(&suspension) == CLOCK_FOREVER);
    /* It came to no answer: the next one tries. */
    suspension_leave(&suspension, first);
    assert_true(suspension_try(&suspension, 20 * 1000, &second));
    assert_true(second != first);
    suspension_leave(&suspension, first); /* late: it is not its try any more */
    assert_false(suspension_try(&suspension, 20 * 1000, &first));
    suspension_end(&suspension);
    assert_true(suspension_try(&suspension, 20 * 1000, &first));
    assert_int_equal(first, 0);
    assert_string_equal(suspension.error, "");
}

static void waking_lets_one_try_at_once(void **state)
{
    struct suspension suspension;
    (void)state;
    suspension_init(&suspension);
    suspension_begin(&suspension, SUSPENSION_UNAUTHORIZED, 1000, -1, "key");
    assert_false(may_enter(&suspension, 60 * 1000));
    suspension_wake(&suspension);
    assert_true(may_enter(&suspension, 1001));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_wait_that_was_asked_for_counts),
        cmocka_unit_test(failures_together_lengthen_the_wait_once),
        cmocka_unit_test(one_tries_and_the_others_wait_for_it),
        cmocka_unit_test(waking_lets_one_try_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
