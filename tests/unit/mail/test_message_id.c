/* SPDX-License-Identifier: MIT */
/*
 * Message-IDs in what mail programs write.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/message_id.h"

/* All of a value, with a blank behind each. */
static void assert_ids(const char *value, const char *expected)
{
    char id[MESSAGE_ID_SIZE];
    _cleanup_strbuf_ struct strbuf all = STRBUF_INIT(4096);
    while (message_id_next(&value, id))
        strbuf_appendf(&all, "%s ", id);
    assert_string_equal(strbuf_str(&all), expected);
    assert_string_equal(value, "");
}

static void what_is_in_brackets_counts(void **state)
{
    (void)state;
    assert_ids("<a@b>", "a@b ");
    assert_ids(" <a@b>\r\n\t<c@d> ", "a@b c@d ");
    assert_ids("<a@b>,<c@d><e@f>", "a@b c@d e@f ");
    assert_ids("message of Tue, 1 Jan 2002: <a@b>", "a@b ");
    assert_ids("", "");
    assert_ids("a@b", "");
}

static void comments_and_quoted_strings_are_skipped(void **state)
{
    (void)state;
    assert_ids("(see <no@no>) <a@b> (c (d <no@no>) \\) <no@no>) <e@f>", "a@b e@f ");
    assert_ids("Your message of \"Tue, \\\" 01 Jan <no@no>\" <a@b>", "a@b ");
    assert_ids("<a@b> (open <no@no>", "a@b ");
    assert_ids("<a@b> \"open <no@no>", "a@b ");
    assert_ids("<a@b> (open\\", "a@b ");
    assert_ids("<a@b> \"open\\", "a@b ");
    assert_ids("<a(b)\"c@d> ) <e@f>", "a(b)\"c@d e@f ");
}

static void ids_that_were_folded_are_whole_again(void **state)
{
    (void)state;
    assert_ids("<a\r\n\tb@c>", "ab@c ");
    assert_ids("< a@b >", "a@b ");
}

static void what_is_no_message_id_is_passed_over(void **state)
{
    (void)state;
    assert_ids("<> < > <a@b>", "a@b ");
    assert_ids("<a@b", "");
    assert_ids("<<a@b>>", "a@b ");
    assert_ids("<lost <a@b>", "a@b ");
}

static void the_longest_is_as_long_as_a_line(void **state)
{
    (void)state;
    for (size_t len = MESSAGE_ID_SIZE - 2; len <= MESSAGE_ID_SIZE + 1; len++) {
        char id[MESSAGE_ID_SIZE];
        char value[MESSAGE_ID_SIZE + 8];
        memset(value, 'x', sizeof(value));
        value[0] = '<';
        memcpy(value + 1 + len, ">", 2);
        const char *text = value;
        bool is_right = len < MESSAGE_ID_SIZE;
        assert_int_equal(message_id_next(&text, id), is_right);
        assert_int_equal(strlen(id), is_right ? len : 0);
    }
}

static void assert_message(const char *message, const char *expected)
{
    char id[MESSAGE_ID_SIZE] = "";
    /* A copy of this length, so that nothing behind it is read unseen. */
    size_t len = strlen(message);
    _cleanup_free_ char *bytes = malloc(len + 1);
    memcpy(bytes, message, len);
    bool is_found = message_id_of(bytes, len, id);
    assert_int_equal(is_found, expected != NULL);
    if (expected != NULL)
        assert_string_equal(id, expected);
}

static void a_message_has_that_of_its_header(void **state)
{
    (void)state;
    assert_message("Subject: x\r\nMessage-ID: <a@b>\r\n\r\nbody", "a@b");
    assert_message("message-id:<a@b>\n\nbody", "a@b");
    assert_message("Message-Id:\r\n <a@b>\r\nSubject: x\r\n", "a@b");
    assert_message("Message-ID: <a\r\n\t@b>\r\n", "a@b");
    assert_message("Message-ID: <a@b>", "a@b");
    assert_message("Message-ID: <a@b>\nMessage-ID: <c@d>\n\n", "a@b");
}

static void a_message_without_one_has_none(void **state)
{
    (void)state;
    assert_message("", NULL);
    assert_message("Subject: x\r\n\r\nMessage-ID: <a@b>\r\n", NULL);
    assert_message("X: y\n Message-ID: <a@b>\n\n", NULL);
    assert_message("X-Message-ID: <a@b>\n\n", NULL);
    assert_message("Message-ID: a@b\n\n", NULL);
    assert_message("Message-ID", NULL);
    assert_message("Message-ID: <a@b", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_brackets_counts),
        cmocka_unit_test(comments_and_quoted_strings_are_skipped),
        cmocka_unit_test(ids_that_were_folded_are_whole_again),
        cmocka_unit_test(what_is_no_message_id_is_passed_over),
        cmocka_unit_test(the_longest_is_as_long_as_a_line),
        cmocka_unit_test(a_message_has_that_of_its_header),
        cmocka_unit_test(a_message_without_one_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
