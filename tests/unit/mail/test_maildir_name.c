/* SPDX-License-Identifier: MIT */
/*
 * Names of messages in a Maildir: the program reads every name that it made, and refuses all others.
 */
#include "mail/maildir_name.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/test.h"

#define BASE "1795169676.0123456789abcdef.inboxfs,U=42"

static const struct maildir_name plain = {.epoch = 1795169676, .id = UINT64_C(0x0123456789abcdef), .uid = 42};

static uint64_t flags_of(const char *letters)
{
    uint64_t flags = 0;
    for (; *letters != '\0'; letters++)
        flags |= maildir_flag_bit(*letters);
    return flags;
}

static void assert_formats(const struct maildir_name *name, const char *expected)
{
    char text[MAILDIR_NAME_SIZE];
    struct maildir_name again;
    maildir_name_format(name, text);
    assert_string_equal(text, expected);
    assert_true(maildir_name_parse(text, &again));
    assert_true(maildir_name_is_same_message(name, &again));
    assert_int_equal(again.has_info, name->has_info);
    assert_int_equal(again.flags, name->flags);
}

TEST(a_message_without_marks_has_no_info)
{
    assert_formats(&plain, BASE);
}

TEST(flags_are_written_in_the_order_of_ascii)
{
    struct maildir_name name = plain;
    name.has_info = true;
    assert_formats(&name, BASE ":2,");
    name.flags = flags_of("TSRPFD");
    assert_formats(&name, BASE ":2,DFPRST");
    name.flags = flags_of("zaSXA");
    assert_formats(&name, BASE ":2,ASXaz");
    name.flags = (UINT64_C(1) << MAILDIR_LETTERS) - 1;
    assert_formats(&name, BASE ":2,ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
}

TEST(a_name_can_have_the_smallest_and_largest_numbers)
{
    struct maildir_name name = {.epoch = -1, .uid = 1};
    assert_formats(&name, "0.0000000000000000.inboxfs,U=1");
    name = (struct maildir_name){.epoch = INT64_MAX, .uid = UINT32_MAX, .has_info = true};
    name.flags = (UINT64_C(1) << MAILDIR_LETTERS) - 1;
    name.id = UINT64_MAX;
    assert_formats(&name, "999999999999.ffffffffffffffff.inboxfs,U=4294967295:2,"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
}

TEST(flags_are_read_in_any_order)
{
    struct maildir_name name;
    assert_true(maildir_name_parse(BASE ":2,SFRSS", &name));
    assert_int_equal(name.flags, flags_of("FRS"));
}

TEST(text_that_is_not_a_maildir_name_is_refused)
{
    static const char *const cases[] = {
        "",
        ".",
        "..",
        ".uidvalidity",
        "cur",
        "1795169676",
        "1795169676.",
        "1795169676.0123456789abcdef",
        "1795169676.0123456789abcdef.inboxfs",
        "1795169676.0123456789abcdef.inboxfs,U=",
        "1795169676.0123456789abcdef.inboxfs,U=0",
        "1795169676.0123456789abcdef.inboxfs,U=042",
        "1795169676.0123456789abcdef.inboxfs,U=4294967296",
        "1795169676.0123456789abcdef.inboxfs,U=-1",
        "1795169676.0123456789abcdef.other,U=42",
        "1795169676.0123456789ABCDEF.inboxfs,U=42",
        "1795169676.0123456789abcde.inboxfs,U=42",
        "1795169676.0123456789abcdef0.inboxfs,U=42",
        "01795169676.0123456789abcdef.inboxfs,U=42",
        "-1.0123456789abcdef.inboxfs,U=42",
        "9999999999990.0123456789abcdef.inboxfs,U=42",
        "99999999999999999999999999.0123456789abcdef.inboxfs,U=42",
        BASE "x",
        BASE ",S=100",
        BASE ":",
        BASE ":2",
        BASE ":1,S",
        BASE ":2,S,",
        BASE ":2,S1",
        BASE ":2,S:2,S",
        BASE ":2,\xc3\xa4",
        BASE ":2,S\n",
        BASE "\n",
        (" " BASE),
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct maildir_name name;
        if (maildir_name_parse(cases[i], &name))
            fail_msg("taken for a name: %s", cases[i]);
    }
}

TEST(names_of_one_message_differ_only_in_flags)
{
    struct maildir_name other = plain;
    other.has_info = true;
    other.flags = maildir_flag_bit('S');
    assert_true(maildir_name_is_same_message(&plain, &other));
    other.uid++;
    assert_false(maildir_name_is_same_message(&plain, &other));
    other = plain;
    other.epoch++;
    assert_false(maildir_name_is_same_message(&plain, &other));
    other = plain;
    other.id ^= 1;
    assert_false(maildir_name_is_same_message(&plain, &other));
}

TEST(only_letters_are_flags)
{
    uint64_t all = 0;
    for (int c = 0; c < 256; c++)
        all |= maildir_flag_bit((char)c);
    assert_int_equal(all, (UINT64_C(1) << MAILDIR_LETTERS) - 1);
    assert_int_equal(maildir_flag_bit('\0'), 0);
    assert_int_equal(maildir_flag_bit('1'), 0);
}
