/* SPDX-License-Identifier: MIT */
/*
 * Characters of text from strangers: senders, servers and whoever writes into the mount. This is the one
 * place that decides which characters a terminal or an editor obeys instead of showing them. Each user
 * decides which of these kinds it replaces, escapes or refuses, and says so.
 */
#ifndef INBOXFS_BASE_CHARACTER_H
#define INBOXFS_BASE_CHARACTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits, so that several can be named at once. */
enum character_kind {
    CHARACTER_PLAIN = 0,
    CHARACTER_CONTROL = 1 << 0,   /* U+0000 to U+001F, U+007F to U+009F: C0 (line feed too), DEL, C1 */
    CHARACTER_LINE_END = 1 << 1,  /* U+2028, U+2029: some programs end a line there */
    CHARACTER_DIRECTION = 1 << 2, /* U+202A to U+202E, U+2066 to U+2069: turn the direction of what follows */
    CHARACTER_MARK = 1 << 3,      /* U+061C, U+200E, U+200F: have a direction themselves. Hebrew and Arabic
                                     texts need them, but names and words of one line can hide behind them */
    CHARACTER_INVALID = 1 << 4,   /* not UTF-8 */
};

struct character {
    uint32_t code; /* 0 when invalid */
    uint32_t len;  /* bytes; 1 when invalid */
    enum character_kind kind;
};

/* The character of more than one byte, or the invalid byte, that the text begins with. `len` is not 0. */
struct character character_decode(const char *text, size_t len);

/* The character that the text begins with. `len`, the bytes of the text, is not 0. */
static inline struct character character_at(const char *text, size_t len)
{
    unsigned char byte = (unsigned char)text[0];
    if (byte >= 0x80)
        return character_decode(text, len);
    return (struct character){byte, 1, byte < 0x20 || byte == 0x7f ? CHARACTER_CONTROL : CHARACTER_PLAIN};
}

/* Whether the text holds a character of one of these kinds. */
bool character_has(const char *text, unsigned int kinds);

/* Puts `with` in the place of each byte of all characters of these kinds. (Of each byte, since the last byte
 * of a C1 control is a control itself to a terminal that is not in UTF-8.) */
void character_replace(char *text, unsigned int kinds, char with);

/* For words on one line, such as a line of the log. */
#define CHARACTER_NOT_PLAIN \
    (CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION | CHARACTER_MARK | CHARACTER_INVALID)

#endif
