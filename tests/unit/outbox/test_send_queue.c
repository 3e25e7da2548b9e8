/* SPDX-License-Identifier: MIT */
/*
 * The gate before the service: who may ask when, and who tries.
 */
#include "outbox/send_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"

static bool may_enter(struct gate *gate, int64_t now_ms)
{
    uint64_t probe;
    bool may = gate_enter(gate, now_ms, &probe);
    gate_leave(gate, probe);
    return may;
}

/* Requests that were under way together fail one after the other. */
static void the_longest_wait_that_was_asked_for_counts(void **state)
{
    struct gate gate;
    (void)state;
    gate_init(&gate);
    assert_true(may_enter(&gate, 0));
    gate_close(&gate, GATE_BUSY, 1000, 60 * 1000, "busy");
    gate_close(&gate, GATE_UNREACHABLE, 1500, -1, "gone");
    assert_string_equal(gate.error, "gone");
    assert_int_equal(gate_until_ms(&gate), 61 * 1000);
    assert_false(may_enter(&gate, 61 * 1000 - 1));
    assert_true(may_enter(&gate, 61 * 1000));
    gate_close(&gate, GATE_BUSY, 61 * 1000, 90 * 1000, "busy");
    gate_close(&gate, GATE_BUSY, 61 * 1000, 120 * 1000, "busy");
    assert_int_equal(gate_until_ms(&gate), 181 * 1000);
}

static void failures_together_lengthen_the_wait_once(void **state)
{
    struct gate one;
    struct gate many;
    (void)state;
    gate_init(&one);
    gate_init(&many);
    int64_t now_ms = 0;
    for (int round = 0; round < 5; round++) {
        gate_close(&one, GATE_UNREACHABLE, now_ms, -1, "");
        for (int i = 0; i < 20; i++)
            gate_close(&many, GATE_UNREACHABLE, now_ms, -1, "");
        /* Waits differ by chance, but not by a factor of 2^20. */
        assert_in_range(gate_until_ms(&one) - now_ms, 500, 60 * 1000);
        assert_in_range(gate_until_ms(&many) - now_ms, 500, 60 * 1000);
        now_ms += 3600 * 1000;
    }
}

static void one_tries_and_the_others_wait_for_it(void **state)
{
    struct gate gate;
    uint64_t first;
    uint64_t second;
    (void)state;
    gate_init(&gate);
    gate_close(&gate, GATE_BUSY, 0, 10 * 1000, "busy");
    assert_true(gate_enter(&gate, 10 * 1000, &first));
    assert_true(first != 0);
    assert_false(gate_enter(&gate, 20 * 1000, &second));
    assert_true(gate_until_ms(&gate) == CLOCK_FOREVER);
    /* It came to no answer: the next one tries. */
    gate_leave(&gate, first);
    assert_true(gate_enter(&gate, 20 * 1000, &second));
    assert_true(second != first);
    gate_leave(&gate, first); /* late: it is not its try any more */
    assert_false(gate_enter(&gate, 20 * 1000, &first));
    gate_open(&gate);
    assert_true(gate_enter(&gate, 20 * 1000, &first));
    assert_int_equal(first, 0);
    assert_string_equal(gate.error, "");
}

static void waking_lets_one_try_at_once(void **state)
{
    struct gate gate;
    (void)state;
    gate_init(&gate);
    gate_close(&gate, GATE_UNAUTHORIZED, 1000, -1, "key");
    assert_false(may_enter(&gate, 60 * 1000));
    gate_wake(&gate);
    assert_true(may_enter(&gate, 1001));
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
