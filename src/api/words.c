/* SPDX-License-Identifier: MIT */
/*
 * Cleaning words.
 */
#include "api/words.h"

#include <stdbool.h>
#include <stdint.h>

/* The length of the character at the start of the text and its code point, or 0 when it is not valid UTF-8
 * (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). */
static size_t decode(const unsigned char *text, size_t len, uint32_t *ret_code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (text[0] < 0x80) {
        *ret_code = text[0];
        return 1;
    }
    size_t size = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4 || size > len)
        return 0;
    uint32_t code = text[0] & (0xffU >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3fU);
    }
    if (code < smallest[size] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *ret_code = code;
    return size;
}

static bool is_blank(uint32_t code)
{
    return code <= ' ' || (code >= 0x7f && code <= 0xa0) || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

void words_append(struct strbuf *words, const char *text, size_t len)
{
    bool is_pending = false; /* a space, if more follows */
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t size = decode((const unsigned char *)text + i, len - i, &code);
        const char *character = size > 0 ? text + i : "?";
        i += size > 0 ? size : 1;
        if (size > 0 && is_blank(code)) {
            is_pending = words->len > 0;
            continue;
        }
        size_t width = size > 0 ? size : 1;
        if (words->len + width + (is_pending ? 1 : 0) >= WORDS_MAX_BYTES)
            return;
        if (is_pending && strbuf_str(words)[words->len - 1] != ' ')
            strbuf_append_char(words, ' ');
        is_pending = false;
        strbuf_append(words, character, width);
    }
}
