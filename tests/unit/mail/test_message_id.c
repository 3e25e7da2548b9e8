/* SPDX-License-Identifier: MIT */
/*
 * Covers Message-IDs in headers as mail programs write them.
 */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/message_id.h"

/* Checks the ids in a header's value. `expected` has each id with a blank after it. */
static void assert_ids(const char *value, const char *expected)
{
    /* A copy of exact length, so that a sanitizer sees reads beyond the end. */
    size_t len = strlen(value);
    _cleanup_free_ char *bytes = malloc(len + 1);
    memcpy(bytes, value, len);
    g_auto(GStrv) ids = message_id_list(bytes, len);
    _cleanup_strbuf_ struct strbuf all = STRBUF_INIT(4096);
    for (size_t i = 0; ids[i] != NULL; i++)
        strbuf_appendf(&all, "%s ", ids[i]);
    assert_string_equal(strbuf_str(&all), expected);
    g_autofree char *first = message_id_first(bytes, len);
    assert_int_equal(first != NULL, ids[0] != NULL);
    if (first != NULL)
        assert_string_equal(first, ids[0]);
}

TEST(ids_in_brackets_are_read)
{
    assert_ids("<a@b>", "a@b ");
    assert_ids(" <a@b>\r\n\t<c@d> ", "a@b c@d ");
    assert_ids("<a@b>,<c@d><e@f>", "a@b c@d e@f ");
    assert_ids("message of Tue, 1 Jan 2002: <a@b>", "a@b ");
    assert_ids("a@b <c@d>", "c@d ");
    assert_ids("", "");
}

TEST(ids_without_brackets_are_read_if_there_are_no_other_words)
{
    assert_ids("a@b", "a@b ");
    assert_ids(" a@b\r\n\tc@d, e@f;g@h\r\n", "a@b c@d e@f g@h ");
    assert_ids("a@b (of Monday)", "a@b ");
    assert_ids("Your message of Monday from ann@x", "");
    assert_ids("nothing", "");
    assert_ids("@b", "");
    assert_ids("a@", "");
    assert_ids("@", "");
}

TEST(ids_in_encoded_words_are_decoded)
{
    assert_ids("=?utf-8?Q?=3Ca=40b=3E?=", "a@b ");
    assert_ids("=?us-ascii?B?PGFAYj4gPGNAZD4=?=", "a@b c@d ");
    assert_ids("<1@x> =?utf-8?Q?=3Clong?=\r\n =?utf-8?Q?er=40b=3E?=", "1@x longer@b ");
    assert_ids("=?utf-8?Q?a=40b?=", "a@b ");
}

TEST(comments_and_quoted_strings_are_skipped)
{
    assert_ids("(see <no@no>) <a@b> (c (d <no@no>) \\) <no@no>) <e@f>", "a@b e@f ");
    assert_ids("Your message of \"Tue, \\\" 01 Jan <no@no>\" <a@b>", "a@b ");
    assert_ids("<a@b> (open <no@no>", "a@b ");
    assert_ids("<a@b> \"open <no@no>", "a@b ");
    assert_ids("<a@b> (open\\", "a@b ");
    assert_ids("<a@b> \"open\\", "a@b ");
    assert_ids("<a(b)\"c@d> ) <e@f>", "a(b)\"c@d e@f ");
}

TEST(folded_ids_are_joined)
{
    assert_ids("<a\r\n\tb@c>", "ab@c ");
    assert_ids("< a@b >", "a@b ");
}

TEST(text_that_is_not_a_message_id_is_ignored)
{
    assert_ids("<> < > <a@b>", "a@b ");
    assert_ids("<a@\x01>", "");
    assert_ids("<<a@b>>", "a@b ");
    assert_ids("<lost <a@b>", "a@b ");
}

TEST(an_id_may_be_as_long_as_a_line)
{
    for (size_t len = MESSAGE_ID_MAX_BYTES - 1; len <= MESSAGE_ID_MAX_BYTES + 1; len++) {
        char value[MESSAGE_ID_MAX_BYTES + 8];
        memset(value, 'x', sizeof(value));
        value[0] = '<';
        value[len + 1] = '>';
        _cleanup_free_ char *id = message_id_first(value, len + 2);
        assert_int_equal(id != NULL, len <= MESSAGE_ID_MAX_BYTES);
        if (id != NULL)
            assert_int_equal(strlen(id), len);
    }
}

TEST(the_newest_ids_of_very_long_values_are_read)
{
    _cleanup_strbuf_ struct strbuf value = STRBUF_INIT(1 << 20);
    for (int i = 0; i < 20000; i++)
        strbuf_appendf(&value, "<%d@x>\r\n ", i);
    g_auto(GStrv) ids = message_id_list(value.data, value.len);
    size_t len = g_strv_length(ids);
    assert_true(len > 1000);
    assert_string_equal(ids[len - 1], "19999@x");
}

static void assert_message(const char *message, const char *expected)
{
    /* A copy of exact length, so that a sanitizer sees reads beyond the end. */
    size_t len = strlen(message);
    _cleanup_free_ char *bytes = malloc(len + 1);
    memcpy(bytes, message, len);
    _cleanup_free_ char *id = message_id_of(bytes, len);
    assert_int_equal(id != NULL, expected != NULL);
    if (expected != NULL)
        assert_string_equal(id, expected);
}

TEST(the_id_of_a_message_is_read_from_its_header)
{
    assert_message("Subject: x\r\nMessage-ID: <a@b>\r\n\r\nbody", "a@b");
    assert_message("message-id:<a@b>\n\nbody", "a@b");
    assert_message("Message-Id:\r\n <a@b>\r\nSubject: x\r\n", "a@b");
    assert_message("Message-ID: <a\r\n\t@b>\r\n", "a@b");
    assert_message("Message-ID: <a@b>", "a@b");
    assert_message("Message-ID: a@b\n\n", "a@b");
    assert_message("Message-ID: =?utf-8?Q?=3Ca=40b=3E?=\n\n", "a@b");
    assert_message("Message-ID: <a@b>\nMessage-ID: <c@d>\n\n", "a@b");
}

TEST(a_message_without_the_header_has_no_id)
{
    assert_message("", NULL);
    assert_message("Subject: x\r\n\r\nMessage-ID: <a@b>\r\n", NULL);
    assert_message("X: y\n Message-ID: <a@b>\n\n", NULL);
    assert_message("X-Message-ID: <a@b>\n\n", NULL);
    assert_message("Message-ID: none\n\n", NULL);
    assert_message("Message-ID", NULL);
    assert_message("Message-ID: <a@b", NULL);
}
