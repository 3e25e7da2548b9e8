/* SPDX-License-Identifier: MIT */
/*
 * Kinds of characters in text from strangers: senders, servers and programs that write into the mount. This
 * file alone decides which characters a terminal or an editor obeys instead of showing. Each caller decides
 * which kinds it replaces, escapes or refuses.
 */
#ifndef INBOXFS_BASE_CHARACTER_H
#define INBOXFS_BASE_CHARACTER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds are bits: an argument `kinds` is several kinds, joined by `|`. */
enum character_kind {
    CHARACTER_PLAIN = 0,
    CHARACTER_CONTROL = 1 << 0,   /* U+0000 to U+001F, U+007F to U+009F: C0 (line feed too), DEL, C1 */
    CHARACTER_LINE_END = 1 << 1,  /* U+2028, U+2029: some programs end a line after them */
    CHARACTER_DIRECTION = 1 << 2, /* U+202A to U+202E, U+2066 to U+2069: change the text's direction */
    CHARACTER_MARK = 1 << 3,      /* U+061C, U+200E, U+200F: invisible characters with a direction. Hebrew and
                                     Arabic texts need them, but they can disguise a name */
    CHARACTER_INVALID = 1 << 4,   /* not UTF-8 */
};

struct character {
    uint32_t code; /* 0 when invalid */
    uint32_t len;  /* length in bytes; 1 when invalid */
    enum character_kind kind;
};

/* Returns the kind of a character above U+007F. */
static inline enum character_kind character_kind_of(uint32_t code)
{
    if (code < 0xa0)
        return CHARACTER_CONTROL;
    if (code > 0x2069 || (code < 0x200e && code != 0x061c))
        return CHARACTER_PLAIN;
    if (code <= 0x200f)
        return CHARACTER_MARK;
    if (code == 0x2028 || code == 0x2029)
        return CHARACTER_LINE_END;
    return (code >= 0x202a && code <= 0x202e) || code >= 0x2066 ? CHARACTER_DIRECTION : CHARACTER_PLAIN;
}

/* Returns true for the second and later bytes of a character. */
static inline bool character_is_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Returns true for the blanks between the words of JSON, headers and lists of addresses. */
static inline bool character_is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* Returns the length of the longest prefix of whole characters in at most `max_bytes` of valid UTF-8. */
static inline size_t character_cut(const char *text, size_t len, size_t max_bytes)
{
    if (len <= max_bytes)
        return len;
    while (max_bytes > 0 && character_is_continuation(text[max_bytes]))
        max_bytes--;
    return max_bytes;
}

static inline uint32_t character_bits(char byte)
{
    return (unsigned char)byte & 0x3f;
}

/* Returns the first character of the text, or the first byte as an invalid one. `len` must not be 0.
 * UTF-8 is read strictly (RFC 3629): surrogates, overlong forms and codes above U+10FFFF are invalid.
 * The function is inline because bodies of megabytes go through it: inlining makes it four times as fast. */
static inline struct character character_at(const char *text, size_t len)
{
    const struct character invalid = {0, 1, CHARACTER_INVALID};
    uint32_t first = (unsigned char)text[0];
    uint32_t code;
    if (first < 0x80)
        return (struct character){first, 1,
                                  first < 0x20 || first == 0x7f ? CHARACTER_CONTROL : CHARACTER_PLAIN};
    if (first < 0xc2 || first > 0xf4 || len < 2 || !character_is_continuation(text[1]))
        return invalid;
    if (first < 0xe0) {
        code = (first & 0x1f) << 6 | character_bits(text[1]);
        return (struct character){code, 2, character_kind_of(code)};
    }
    if (len < 3 || !character_is_continuation(text[2]))
        return invalid;
    if (first < 0xf0) {
        code = (first & 0x0f) << 12 | character_bits(text[1]) << 6 | character_bits(text[2]);
        bool is_valid = code >= 0x800 && (code < 0xd800 || code > 0xdfff);
        return is_valid ? (struct character){code, 3, character_kind_of(code)} : invalid;
    }
    if (len < 4 || !character_is_continuation(text[3]))
        return invalid;
    code = (first & 0x07) << 18 | character_bits(text[1]) << 12 | character_bits(text[2]) << 6 |
           character_bits(text[3]);
    bool is_valid = code >= 0x10000 && code <= 0x10ffff;
    return is_valid ? (struct character){code, 4, CHARACTER_PLAIN} : invalid;
}

/* Returns true if the text has a character of one of `kinds`. */
bool character_has(const char *text, unsigned int kinds);

/* Replaces each byte of the characters of `kinds` by `with`: on a terminal that does not use UTF-8, the last
 * byte of a C1 control is itself a control. */
void character_replace(char *text, unsigned int kinds, char with);

/* The kinds to replace in text that is shown on one line, such as a line of the log. */
#define CHARACTER_NOT_PLAIN \
    (CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION | CHARACTER_MARK | CHARACTER_INVALID)

/* Formats a line like vsnprintf(), but with '?' for each byte of the kinds of CHARACTER_NOT_PLAIN, so that
 * the line is safe on a terminal. */
__attribute__((format(printf, 3, 0))) void character_format_plain(char *line, size_t size, const char *format,
                                                                  va_list arguments);

#endif
