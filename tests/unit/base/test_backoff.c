/* SPDX-License-Identifier: MIT */
/*
 * Backoff: how long, and not all at once.
 */
#include "base/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static void delays_double_up_to_the_bound(void **state)
{
    static const int64_t full_ms[] = {1000, 2000, 4000, 8000, 16000, 20000, 20000, 20000};
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct backoff backoff = {.min_ms = 1000, .max_ms = 20000};
        for (size_t i = 0; i < sizeof(full_ms) / sizeof(full_ms[0]); i++) {
            int64_t delay = backoff_next_ms(&backoff);
            assert_true(delay >= full_ms[i] / 2 && delay <= full_ms[i]);
        }
        backoff_reset(&backoff);
        assert_true(backoff_next_ms(&backoff) <= 1000);
    }
}

static void delays_differ(void **state)
{
    bool differs = false;
    struct backoff backoff = {.min_ms = 1000000, .max_ms = 1000000};
    (void)state;
    int64_t first = backoff_next_ms(&backoff);
    for (int i = 0; i < 100; i++)
        differs = differs || backoff_next_ms(&backoff) != first;
    assert_true(differs);
}

static void a_million_attempts_do_not_overflow(void **state)
{
    struct backoff backoff = {.min_ms = 1000, .max_ms = 900000, .attempts = 4294967290U};
    (void)state;
    for (int i = 0; i < 20; i++) {
        int64_t delay = backoff_next_ms(&backoff);
        assert_true(delay > 0 && delay <= 900000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_double_up_to_the_bound),
        cmocka_unit_test(delays_differ),
        cmocka_unit_test(a_million_attempts_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
