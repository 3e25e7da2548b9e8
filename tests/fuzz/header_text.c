/* SPDX-License-Identifier: MIT */
/*
 * A header's value, read as a text, as a phrase and for a parameter; and the bytes after the first line of
 * the input, in the charset that the first line names. Each result is UTF-8 without a NUL and within its
 * bound. A text that needs no decoding is unchanged.
 */
#include "mail/header_text.h"

#include <errno.h>

#include "base/strbuf.h"
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
    _cleanup_free_ char *again = NULL;
    FUZZ_CHECK(header_text_decode(text, len, &again) == 0);
    for (const char *c = text; *c != '\0'; c++)
        if (*c == '\r' || *c == '\n')
            return;
    FUZZ_CHECK(strcmp(again, text) == 0);
}

static void check_charset(const uint8_t *bytes, size_t len)
{
    _cleanup_free_ char *label = fuzz_take_line(&bytes, &len);
    _cleanup_strbuf_ struct strbuf strict = STRBUF_INIT(1 << 20);
    _cleanup_strbuf_ struct strbuf lax = STRBUF_INIT(1 << 20);
    int strict_error =
        charset_append_utf8(&strict, label, strlen(label), (const char *)bytes, len, CHARSET_REFUSE);
    int error = charset_append_utf8(&lax, label, strlen(label), (const char *)bytes, len, CHARSET_REPLACE);
    FUZZ_CHECK(error == 0);
    FUZZ_CHECK(g_utf8_validate_len(strbuf_str(&lax), lax.len, NULL) ||
               memchr(lax.data, '\0', lax.len) != NULL);
    FUZZ_CHECK(strict_error == 0
                   ? strict.len == lax.len && memcmp(strbuf_str(&strict), strbuf_str(&lax), lax.len) == 0
                   : strict_error == -EILSEQ && strict.len == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const char *value = (const char *)bytes;
    _cleanup_free_ char *text = NULL;
    _cleanup_free_ char *phrase = NULL;
    _cleanup_free_ char *parameter = NULL;
    FUZZ_CHECK(header_text_decode(value, len, &text) == 0);
    check_text(text, len);
    FUZZ_CHECK(header_text_decode_phrase(value, len, &phrase) == 0);
    check_text(phrase, len);
    int error = header_text_decode_parameter(value, len, "filename", &parameter);
    FUZZ_CHECK(error == 0 || error == -ENOENT);
    if (error == 0)
        check_bounds(parameter, len);
    check_charset(bytes, len);
    return 0;
}
