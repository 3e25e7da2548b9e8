/* SPDX-License-Identifier: MIT */
/*
 * Each message is one line, is logged by its level, and has no character that a terminal obeys.
 */
#include "base/log.h"

#include <string.h>
#include <unistd.h>

#include "support/test.h"

/* Sets ret_text to the output of log_write() on standard error. */
static void capture(char *ret_text, size_t size, enum log_level level, const char *message)
{
    int ends[2];
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    log_write(level, "%s", message);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t len = read(ends[0], ret_text, size - 1);
    ret_text[len > 0 ? len : 0] = '\0';
    close(ends[0]);
}

TEST(control_characters_are_replaced)
{
    static const struct {
        const char *message;
        const char *line;
    } cases[] = {
        {"plain words", "inboxfs: plain words\n"},
        {"two\nlines\r", "inboxfs: two?lines?\n"},
        {"\x1b[31mred\x07\x7f", "inboxfs: ?[31mred??\n"},
        {"h\u00e9llo \u4e16", "inboxfs: h\u00e9llo \u4e16\n"},
        {"\xc2\xa0 stays", "inboxfs: \xc2\xa0 stays\n"},
        {"c1 \xc2\x9b.", "inboxfs: c1 ??.\n"},
        {"\u202atxt.\u202eexe", "inboxfs: ???txt.???exe\n"},
        {"\u2066a\u2069 \u2065 \u206a \u2029 \u202f", "inboxfs: ???a??? \u2065 \u206a ??? \u202f\n"},
        {"\u200e\u200f\u061c\u2028.", "inboxfs: ???????????.\n"},
        {"\xe2\x80 \x9b[2J", "inboxfs: ?? ?[2J\n"},
        {"100%s", "inboxfs: 100%s\n"},
    };
    char text[200];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        capture(text, sizeof(text), LOG_LEVEL_ERROR, cases[i].message);
        assert_string_equal(text, cases[i].line);
    }
}

TEST(messages_less_important_than_the_level_are_dropped)
{
    char text[200];
    capture(text, sizeof(text), LOG_LEVEL_DEBUG, "hidden");
    assert_string_equal(text, "");
    log_set_level(LOG_LEVEL_DEBUG);
    capture(text, sizeof(text), LOG_LEVEL_DEBUG, "shown");
    assert_string_equal(text, "inboxfs: shown\n");
    log_set_level(LOG_LEVEL_ERROR);
    capture(text, sizeof(text), LOG_LEVEL_WARNING, "hidden");
    assert_string_equal(text, "");
    log_set_level(LOG_LEVEL_INFO);
}

TEST(a_long_line_is_cut)
{
    static char message[10000];
    static char text[10000];
    memset(message, 'x', sizeof(message) - 1);
    capture(text, sizeof(text), LOG_LEVEL_ERROR, message);
    size_t len = strlen(text);
    assert_true(len > 1000 && len < 3000);
    assert_int_equal(text[len - 1], '\n');
}
