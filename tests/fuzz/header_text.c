/* SPDX-License-Identifier: MIT */
/*
 * A header's value, read as a text, as a phrase and for a parameter; and the bytes after the first line of
 * the input, in the charset that the first line names. Each result is UTF-8 without a NUL and within its
 * bound. A text that needs no decoding is unchanged.
 */
#include "mail/header_text.h"

#include "fuzz/fuzz.h"
#include "mail/charset.h"

static void check_bounds(const char *text, size_t value_len)
{
    FUZZ_CHECK(g_utf8_validate(text, -1, NULL));
    FUZZ_CHECK(strlen(text) <= 16 * (value_len + 1));
}

static void check_text(const char *text, size_t value_len)
{
    size_t len = strlen(text);
    check_bounds(text, value_len);
    FUZZ_CHECK(len == 0 || (text[0] != ' ' && text[len - 1] != ' '));
    if (strstr(text, "=?") != NULL)
        return;
    _cleanup_free_ char *again = header_text_decode(text, len);
    for (const char *c = text; *c != '\0'; c++)
        if (*c == '\r' || *c == '\n')
            return;
    FUZZ_CHECK(strcmp(again, text) == 0);
}

static void check_charset(const uint8_t *bytes, size_t len)
{
    _cleanup_free_ char *label = fuzz_take_line(&bytes, &len);
    g_autoptr(GString) strict = g_string_new(NULL);
    g_autoptr(GString) lax = g_string_new(NULL);
    bool is_valid =
        charset_append_utf8(strict, label, strlen(label), (const char *)bytes, len, CHARSET_REFUSE);
    FUZZ_CHECK(charset_append_utf8(lax, label, strlen(label), (const char *)bytes, len, CHARSET_REPLACE));
    FUZZ_CHECK(g_utf8_validate_len(lax->str, lax->len, NULL) || memchr(lax->str, '\0', lax->len) != NULL);
    FUZZ_CHECK(is_valid ? g_string_equal(strict, lax) : strict->len == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const char *value = (const char *)bytes;
    _cleanup_free_ char *text = header_text_decode(value, len);
    _cleanup_free_ char *phrase = header_text_decode_phrase(value, len);
    _cleanup_free_ char *parameter = header_text_decode_parameter(value, len, "filename");
    check_text(text, len);
    check_text(phrase, len);
    if (parameter != NULL)
        check_bounds(parameter, len);
    check_charset(bytes, len);
    return 0;
}
