/* SPDX-License-Identifier: MIT */
/*
 * Unit tests that register themselves: a test is written once, and a test that is written runs.
 *
 * The tests of a program run in the order in which they stand in its file. The program has no main() of its
 * own, unless something is to be done before its tests; then its main() ends with test_run().
 */
#ifndef INBOXFS_TESTS_TEST_H
#define INBOXFS_TESTS_TEST_H

/* cmocka.h needs them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Defines a test; its body follows. */
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* The same with a fixture: `set_up` and `tear_down` are run before and after it, and return 0. The test finds
 * what `set_up` has stored in *state. `tear_down` runs after a failed assertion, too. */
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
