/* SPDX-License-Identifier: MIT */
/*
 * Which signals cut a wait short, and which only tell the program something.
 */
#include "fs/pending_signals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"

static void notes_are_told_from_orders(void **state)
{
    static const struct {
        const char *what;
        const char *own;
        const char *shared;
        const char *blocked;
        bool only_tells;
    } cases[] = {
        {"nothing", "0000000000000000", "0000000000000000", "0000000000000000", false},
        {"a child ended", "0000000000000000", "0000000000010000", "0000000000000000", true},
        {"the window changed, for the thread", "0000000008000000", "0000000000000000", "0000000000000000",
         true},
        {"Ctrl-C", "0000000000000000", "0000000000000002", "0000000000000000", false},
        {"a child ended, and Ctrl-C", "0000000000000002", "0000000000010000", "0000000000000000", false},
        {"a child ended, Ctrl-C is blocked", "0000000000000002", "0000000000010000", "0000000000000002",
         true},
        {"killed", "0000000000000100", "0000000000010000", "0000000000000000", false},
        {"an alarm", "0000000000000000", "0000000000002000", "0000000000000000", false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char status[512];
        print_message("# %s\n", cases[i].what);
        snprintf(status, sizeof(status),
                 "Name:\tbash\nSigQ:\t0/62\nSigPnd:\t%s\nShdPnd:\t%s\nSigBlk:\t%s\nSigIgn:\t0\n",
                 cases[i].own, cases[i].shared, cases[i].blocked);
        assert_int_equal(pending_signals_parse(status), cases[i].only_tells);
    }
}

static void what_cannot_be_seen_is_an_order(void **state)
{
    (void)state;
    assert_false(pending_signals_parse(""));
    assert_false(pending_signals_only_tell(0));
    assert_false(pending_signals_only_tell(-1));
    assert_false(pending_signals_only_tell(getpid()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_are_told_from_orders),
        cmocka_unit_test(what_cannot_be_seen_is_an_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
