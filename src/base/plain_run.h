/* SPDX-License-Identifier: MIT */
/*
 * How far text goes that needs no attention in JSON, 8 or 16 bytes at a time: most of a mail's record is
 * that.
 */
#ifndef INBOXFS_BASE_PLAIN_RUN_H
#define INBOXFS_BASE_PLAIN_RUN_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Printable ASCII other than `"` and `\`: stands for itself in a JSON string. */
static inline bool is_plain_char(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

/* plain_step() looks at PLAIN_STEP_BYTES bytes, copies them to `to`, and tells how many of the first are
 * plain. */
#ifdef __SSE2__

enum {
    PLAIN_STEP_BYTES = 16
};

static inline size_t plain_step(char *to, const char *from)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)from);
    _mm_storeu_si128((__m128i *)to, bytes);
    /* As signed numbers, the bytes beyond ASCII are less than a blank. */
    __m128i others =
        _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f)));
    __m128i marks =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    unsigned int stops = (unsigned int)_mm_movemask_epi8(_mm_or_si128(others, marks));
    return (size_t)__builtin_ctz(stops | 1U << PLAIN_STEP_BYTES);
}

#else

enum {
    PLAIN_STEP_BYTES = 8
};

/* Above the lowest byte found there may be others that are not what they seem (the borrow of a subtraction),
 * below it there are none. */
static inline uint64_t plain_step_stops(uint64_t word)
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

static inline size_t plain_step(char *to, const char *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof(word));
    memcpy(to, &word, sizeof(word));
    uint64_t stops = plain_step_stops(le64toh(word));
    return stops == 0 ? PLAIN_STEP_BYTES : (size_t)__builtin_ctzll(stops) / 8;
}

#endif

/* How many of the first bytes are plain; these are copied to `to`, and nothing is written beyond `len` bytes
 * of it. */
static inline size_t plain_run_copy(char *to, const char *from, size_t len)
{
    size_t i = 0;
    while (len - i >= PLAIN_STEP_BYTES) {
        size_t step = plain_step(to + i, from + i);
        i += step;
        if (step < PLAIN_STEP_BYTES)
            return i;
    }
    for (; i < len && is_plain_char(from[i]); i++)
        to[i] = from[i];
    return i;
}

/* How many of the first bytes are plain. */
static inline size_t plain_run(const char *bytes, size_t len)
{
    char unused[PLAIN_STEP_BYTES];
    size_t i = 0;
    while (len - i >= PLAIN_STEP_BYTES) {
        size_t step = plain_step(unused, bytes + i);
        i += step;
        if (step < PLAIN_STEP_BYTES)
            return i;
    }
    while (i < len && is_plain_char(bytes[i]))
        i++;
    return i;
}

#endif
