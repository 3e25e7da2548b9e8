/* SPDX-License-Identifier: MIT */
/*
 * Unit tests that register themselves, so that each test in a file runs.
 *
 * The tests of a program run in the order of its file. The program has no main() of its own, unless it must
 * do something before its tests; then its main() ends with test_run().
 */
#ifndef INBOXFS_TESTS_TEST_H
#define INBOXFS_TESTS_TEST_H

/* These headers must precede cmocka.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Defines a test; its body follows. */
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Defines a test with a fixture: cmocka calls `set_up` before it and `tear_down` after it, also after a
 * failed assertion. Both return 0. The test finds the fixture that `set_up` stored in *state. */
#define TEST_WITH(name, set_up, tear_down)                         \
    static void name(void **state);                                \
    __attribute__((constructor)) static void register_##name(void) \
    {                                                              \
        test_register(#name, name, set_up, tear_down);             \
    }                                                              \
    static void name(__attribute__((unused)) void **state)

void test_register(const char *name, CMUnitTestFunction function, CMFixtureFunction set_up,
                   CMFixtureFunction tear_down);

/* Runs all tests. Returns how many failed. */
int test_run(void);

#endif
