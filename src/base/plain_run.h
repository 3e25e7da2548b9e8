/* SPDX-License-Identifier: MIT */
/*
 * How far text goes that needs no attention in JSON, eight bytes at a time: most of a mail's record is that.
 */
#ifndef INBOXFS_BASE_PLAIN_RUN_H
#define INBOXFS_BASE_PLAIN_RUN_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Printable ASCII other than `"` and `\`: stands for itself in a JSON string. */
static inline bool is_plain_char(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

/* Above the lowest byte found there may be others that are not what they seem (the borrow of a subtraction),
 * below it there are none. */
static inline uint64_t plain_run_stops(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = ones << 7;
    uint64_t quotes = word ^ ones * '"';
    uint64_t backslashes = word ^ ones * '\\';
    uint64_t deletes = word ^ ones * 0x7f;
    uint64_t controls = (word - ones * 0x20) & ~word;
    return (word | controls | ((quotes - ones) & ~quotes) | ((backslashes - ones) & ~backslashes) |
            ((deletes - ones) & ~deletes)) &
           tops;
}

/* How many of the first bytes are plain. */
static inline size_t plain_run(const char *bytes, size_t len)
{
    size_t i = 0;
    uint64_t word;
    for (; len - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        uint64_t stops = plain_run_stops(le64toh(word));
        if (stops != 0)
            return i + (size_t)__builtin_ctzll(stops) / 8;
    }
    while (i < len && is_plain_char(bytes[i]))
        i++;
    return i;
}

#endif
