/* SPDX-License-Identifier: MIT */
/*
 * Each paragraph of flowed text becomes one line.
 */
#include "mail/mime_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/test.h"

static void assert_text(const char *flowed, bool is_delsp, const char *expected)
{
    /* A copy of exact length, so that a sanitizer sees reads beyond the end. */
    size_t len = strlen(flowed);
    _cleanup_free_ char *bytes = malloc(len > 0 ? len : 1);
    memcpy(bytes, flowed, len);
    g_autoptr(GString) out = g_string_new(NULL);
    flowed_append(out, bytes, len, is_delsp);
    assert_string_equal(out->str, expected);
}

static void assert_joined(const char *flowed, const char *expected)
{
    assert_text(flowed, false, expected);
}

TEST(wrapped_paragraphs_become_one_line)
{
    assert_joined("", "");
    assert_joined("Hello\n", "Hello\n");
    assert_joined("one \ntwo \nthree\nfour\n", "one two three\nfour\n");
    assert_joined("one \r\ntwo\r\n\r\nthree \r\nfour\r\n", "one two\r\n\r\nthree four\r\n");
    assert_joined("one \ntwo", "one two");
    assert_joined("one ", "one ");
    assert_joined("one \n", "one \n");
    assert_joined("one \r", "one \r");
}

TEST(delsp_removes_the_blank_at_the_end_of_a_line)
{
    assert_text("https://x.example/one \r\ntwo \r\nthree\r\n", true, "https://x.example/onetwothree\r\n");
    assert_text("one  \ntwo\n", true, "one two\n");
    assert_text("東京 \n都\n", true, "東京都\n");
    assert_text("> one \n> two\n", true, "> onetwo\n");
    assert_text("one \n", true, "one\n");
    assert_text("one\n-- \nAnn\n", true, "one\n-- \nAnn\n");
}

TEST(the_blank_before_from_or_a_quote_mark_is_removed)
{
    assert_joined(" From here\n", "From here\n");
    assert_joined(" > no quote\n", "> no quote\n");
    assert_joined("a \n > b\n", "a > b\n");
    assert_joined("diff --git a/x b/x\n  context\n+new\n", "diff --git a/x b/x\n context\n+new\n");
}

TEST(quotes_of_different_depth_are_kept_apart)
{
    assert_joined("> one \n> two\n", "> one two\n");
    assert_joined(">one \n>two\n", ">one two\n");
    assert_joined("> one \ntwo\n", "> one \ntwo\n");
    assert_joined("one \n> two\n", "one \n> two\n");
    assert_joined(">> one \n>> two \n> three \n> four\n", ">> one two \n> three four\n");
    assert_joined("> > one \n> > two\n", "> > one two\n");
    assert_joined("> > one \n>> two\n", "> > one two\n");
    assert_joined("> one \n>\n> two\n", "> one \n>\n> two\n");
}

TEST(separators_of_signatures_are_lines_of_their_own)
{
    assert_joined("one \n-- \nAnn\n", "one \n-- \nAnn\n");
    assert_joined("-- \r\nAnn \r\nLee\r\n", "-- \r\nAnn Lee\r\n");
    assert_joined("> one \n> -- \n> Ann\n", "> one \n> -- \n> Ann\n");
    assert_joined("> -- \none\n", "> -- \none\n");
}

TEST(a_blank_line_ends_a_flowed_paragraph)
{
    assert_joined("Hello, \n\nnext\n", "Hello, \n\nnext\n");
    assert_joined("Hello, \n  \nnext\n", "Hello, \n \nnext\n");
    assert_joined("  \n  \n", " \n \n");
}
