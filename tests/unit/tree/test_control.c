/* SPDX-License-Identifier: MIT */
/*
 * The commands of `ctl`.
 */
#include "tree/control.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

static const struct {
    const char *line;
    int error;
    enum control_verb verb;
    const char *argument;
} cases[] = {
    {"sync", 0, CONTROL_SYNC_ALL, ""},
    {"  sync\t", 0, CONTROL_SYNC_ALL, ""},
    {"sync\r", 0, CONTROL_SYNC_ALL, ""},
    {"sync alice@inbox.example", 0, CONTROL_SYNC, "alice@inbox.example"},
    {"sync   alice@inbox.example  ", 0, CONTROL_SYNC, "alice@inbox.example"},
    {"retry all", 0, CONTROL_RETRY_ALL, "all"},
    {"retry hello", 0, CONTROL_RETRY, "hello"},
    {"retry two words.txt", 0, CONTROL_RETRY, "two words.txt"},
    {"retry alles", 0, CONTROL_RETRY, "alles"},
    {"", 0, CONTROL_NOTHING, ""},
    {"   ", 0, CONTROL_NOTHING, ""},
    {"retry", -EINVAL, CONTROL_NOTHING, NULL},
    {"retry  ", -EINVAL, CONTROL_NOTHING, NULL},
    {"Sync", -EINVAL, CONTROL_NOTHING, NULL},
    {"syncx", -EINVAL, CONTROL_NOTHING, NULL},
    {"delete everything", -EINVAL, CONTROL_NOTHING, NULL},
};

static void each_line_is_understood_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct control_command command = {.verb = CONTROL_NOTHING};
        print_message("# %s\n", cases[i].line);
        assert_int_equal(control_parse(cases[i].line, strlen(cases[i].line), &command), cases[i].error);
        if (cases[i].error == 0) {
            assert_int_equal(command.verb, cases[i].verb);
            assert_string_equal(command.argument, cases[i].argument);
        }
    }
}

static void an_argument_can_be_as_long_as_a_name_and_no_longer(void **state)
{
    char line[400] = "retry ";
    struct control_command command;
    (void)state;
    memset(line + 6, 'x', 300);
    assert_int_equal(control_parse(line, 6 + CONTROL_ARGUMENT_MAX_BYTES, &command), 0);
    assert_int_equal(strlen(command.argument), CONTROL_ARGUMENT_MAX_BYTES);
    assert_int_equal(control_parse(line, 6 + CONTROL_ARGUMENT_MAX_BYTES + 1, &command), -EINVAL);
}

static void a_nul_is_no_part_of_a_command(void **state)
{
    struct control_command command;
    (void)state;
    assert_int_equal(control_parse("sync\0x", 6, &command), -EINVAL);
    assert_int_equal(control_parse("retry a\0b", 9, &command), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_is_understood_or_refused),
        cmocka_unit_test(an_argument_can_be_as_long_as_a_name_and_no_longer),
        cmocka_unit_test(a_nul_is_no_part_of_a_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
