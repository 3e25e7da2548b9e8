/* SPDX-License-Identifier: MIT */
/*
 * Covers the maximal length of a buffer, its sticky error, and the owner of its text.
 */
#include "base/strbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/test.h"

TEST(a_string_grows_with_its_text)
{
    _cleanup_strbuf_ struct strbuf buffer = STRBUF_INIT(10000);
    assert_string_equal(strbuf_str(&buffer), "");
    for (int i = 0; i < 1000; i++)
        assert_int_equal(strbuf_append(&buffer, "0123456789", 10), 0);
    assert_int_equal(buffer.len, 10000);
    assert_int_equal(strlen(strbuf_str(&buffer)), 10000);
    assert_int_equal(strncmp(strbuf_str(&buffer) + 9990, "0123456789", 10), 0);
}

TEST(every_append_terminates_the_text)
{
    _cleanup_strbuf_ struct strbuf buffer = STRBUF_INIT(100);
    strbuf_append_str(&buffer, "a");
    strbuf_append_char(&buffer, 'b');
    strbuf_appendf(&buffer, "%d-%s", 42, "c");
    strbuf_append(&buffer, "", 0);
    assert_string_equal(strbuf_str(&buffer), "ab42-c");
    strbuf_truncate(&buffer, 3);
    assert_string_equal(strbuf_str(&buffer), "ab4");
    strbuf_truncate(&buffer, 50);
    assert_string_equal(strbuf_str(&buffer), "ab4");
    strbuf_append(&buffer, "x\0y", 3);
    assert_int_equal(buffer.len, 6);
    assert_memory_equal(strbuf_str(&buffer), "ab4x\0y", 7);
}

TEST(a_text_of_exactly_the_maximal_length_fits)
{
    _cleanup_strbuf_ struct strbuf buffer = STRBUF_INIT(5);
    assert_int_equal(strbuf_append_str(&buffer, "12345"), 0);
    assert_int_equal(strbuf_append_char(&buffer, '6'), -EMSGSIZE);
    assert_int_equal(buffer.len, 5);
    assert_string_equal(strbuf_str(&buffer), "12345");
}

TEST(an_error_lasts_until_it_is_cleared)
{
    _cleanup_strbuf_ struct strbuf buffer = STRBUF_INIT(5);
    assert_int_equal(strbuf_appendf(&buffer, "%s", "123456"), -EMSGSIZE);
    assert_int_equal(strbuf_append_char(&buffer, '1'), -EMSGSIZE);
    assert_int_equal(strbuf_appendf(&buffer, "x"), -EMSGSIZE);
    assert_int_equal(strbuf_reserve(&buffer, 0), -EMSGSIZE);
    assert_int_equal(buffer.len, 0);
    strbuf_clear(&buffer);
    assert_int_equal(strbuf_append_char(&buffer, '1'), 0);
    assert_string_equal(strbuf_str(&buffer), "1");
}

TEST(a_huge_length_does_not_overflow)
{
    _cleanup_strbuf_ struct strbuf buffer = STRBUF_INIT(100);
    strbuf_append_str(&buffer, "1");
    assert_int_equal(strbuf_reserve(&buffer, SIZE_MAX), -EMSGSIZE);
}

TEST(take_gives_the_text_to_the_caller)
{
    struct strbuf buffer = STRBUF_INIT(5);
    size_t len = 42;
    strbuf_append_str(&buffer, "123");
    _cleanup_free_ char *text = strbuf_take(&buffer, &len);
    assert_string_equal(text, "123");
    assert_int_equal(len, 3);
    assert_int_equal(buffer.len, 0);
    assert_null(buffer.data);

    _cleanup_free_ char *empty = strbuf_take(&buffer, NULL);
    assert_string_equal(empty, "");
}

TEST(take_returns_null_after_an_error)
{
    struct strbuf buffer = STRBUF_INIT(3);
    strbuf_append_str(&buffer, "12");
    strbuf_append_str(&buffer, "34");
    assert_null(strbuf_take(&buffer, NULL));
    assert_null(buffer.data);
    assert_int_equal(buffer.error, 0);
}
