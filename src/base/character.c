/* SPDX-License-Identifier: MIT */
/*
 * Reads UTF-8 strictly (RFC 3629: no surrogates, no longer forms than needed, nothing above U+10FFFF), and
 * tells the characters that act from those that are shown.
 */
#include "base/character.h"

#include <string.h>

static enum character_kind kind_of(uint32_t code)
{
    if (code < 0xa0)
        return CHARACTER_CONTROL;
    if (code == 0x061c || code == 0x200e || code == 0x200f)
        return CHARACTER_MARK;
    if (code == 0x2028 || code == 0x2029)
        return CHARACTER_LINE_END;
    if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069))
        return CHARACTER_DIRECTION;
    return CHARACTER_PLAIN;
}

struct character character_decode(const char *text, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: less has a shorter form */
    static const struct character invalid = {0, 1, CHARACTER_INVALID};
    unsigned char first = (unsigned char)text[0];
    if (first < 0xc2 || first > 0xf4)
        return invalid;
    uint32_t need = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (len < need)
        return invalid;
    uint32_t code = first & (0x7fU >> need);
    for (uint32_t i = 1; i < need; i++) {
        unsigned char next = (unsigned char)text[i];
        if ((next & 0xc0) != 0x80)
            return invalid;
        code = code << 6 | (next & 0x3f);
    }
    if (code < least[need] || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff)
        return invalid;
    return (struct character){code, need, kind_of(code)};
}

bool character_has(const char *text, unsigned int kinds)
{
    const char *end = text + strlen(text);
    while (text < end) {
        const struct character character = character_at(text, (size_t)(end - text));
        if ((character.kind & kinds) != 0)
            return true;
        text += character.len;
    }
    return false;
}

void character_replace(char *text, unsigned int kinds, char with)
{
    const char *end = text + strlen(text);
    while (text < end) {
        const struct character character = character_at(text, (size_t)(end - text));
        if ((character.kind & kinds) != 0)
            memset(text, with, character.len);
        text += character.len;
    }
}
