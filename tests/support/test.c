/* SPDX-License-Identifier: MIT */
/*
 * Constructors fill the table of tests before main(). Its fixed size needs no allocation, which could fail.
 */
#include "support/test.h"

#include <stdlib.h>

enum {
    TESTS_MAX = 200, /* maximum number of tests in a program */
};

static struct CMUnitTest tests[TESTS_MAX];
static size_t tests_len;

void test_register(const char *name, CMUnitTestFunction function, CMFixtureFunction set_up,
                   CMFixtureFunction tear_down)
{
    if (tests_len == TESTS_MAX)
        abort();
    tests[tests_len++] = (struct CMUnitTest){
        .name = name, .test_func = function, .setup_func = set_up, .teardown_func = tear_down};
}

int test_run(void)
{
    return _cmocka_run_group_tests("tests", tests, tests_len, NULL, NULL);
}
