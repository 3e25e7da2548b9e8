/* SPDX-License-Identifier: MIT */
/*
 * A record's text becomes compact by leaving out what its layout is made of: each line's break and
 * indentation, and the blank behind its key's colon. Nothing else looks like that, since line breaks in
 * strings are escaped.
 */
#include "mail/index_line.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const char before_name[] = "\"file\":\"";
static const char after_name[] = "\"}\n";

enum {
    BLOCK_BYTES = 64, /* looked through at once */
    PIECE_BYTES = 32, /* copied at once: most of what stands between two places where something is left out */
    BEHIND_BYTES = 40, /* may be read behind a block */
    INDENT_BYTES = 16, /* that much indentation, and more, is not usual */
};

/* Bounded, since what is read may come from a file on the disk. */
struct line {
    char *to;
    const char *limit;
};

size_t index_line_len(size_t compact_len)
{
    size_t comma_len = compact_len > strlen("{}");
    return compact_len - strlen("}") + comma_len + strlen(before_name) + strlen(after_name);
}

static size_t room(const struct line *line)
{
    return (size_t)(line->limit - line->to);
}

static void append(struct line *line, const char *bytes, size_t len)
{
    if (len > room(line))
        len = room(line);
    memcpy(line->to, bytes, len);
    line->to += len;
}

/* ---------------------------------------------------------------- a usual text */

/* find_stops(): a bit for each byte of a block that ends a line or, as a quote with colon and blank behind
 * it, a key. find_text(): how many of INDENT_BYTES are blanks before anything else. */
#ifdef __SSE2__

static inline __m128i find_byte(const char *from, char c)
{
    return _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)from), _mm_set1_epi8(c));
}

static inline uint64_t find_stops(const char *block)
{
    uint64_t stops = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i += sizeof(__m128i)) {
        const char *at = block + i;
        __m128i keys =
            _mm_and_si128(find_byte(at, '"'), _mm_and_si128(find_byte(at + 1, ':'), find_byte(at + 2, ' ')));
        int bits = _mm_movemask_epi8(_mm_or_si128(keys, find_byte(at, '\n')));
        stops |= (uint64_t)(unsigned int)bits << i;
    }
    return stops;
}

static inline size_t find_text(const char *from)
{
    unsigned int blanks = (unsigned int)_mm_movemask_epi8(find_byte(from, ' '));
    return (size_t)__builtin_ctz(~blanks);
}

#else

static inline uint64_t find_stops(const char *block)
{
    uint64_t stops = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        if (block[i] == '\n' || (block[i] == '"' && block[i + 1] == ':' && block[i + 2] == ' '))
            stops |= UINT64_C(1) << i;
    return stops;
}

static inline size_t find_text(const char *from)
{
    size_t i = 0;
    while (i < INDENT_BYTES && from[i] == ' ')
        i++;
    return i;
}

#endif

/* Copies what stands between `piece` and a stop, with the colon of a key. Where the next piece begins; NULL:
 * here a closer look is needed, or there is not enough room for a quick copy. */
static inline const char *append_piece(struct line *line, const char *piece, const char *stop)
{
    bool is_key = *stop == '"';
    /* Within a string, or the quote that begins one: ": so". A key that ends in a blank is not usual, either.
     */
    bool is_string = is_key && (stop[-1] == '\\' || stop[-1] == ' ');
    size_t len = (size_t)(stop - piece) + (is_key ? strlen("\":") : 0);
    size_t left_out = is_key ? strlen("\": ") : 1 + find_text(stop + 1);
    if (is_string || left_out > INDENT_BYTES || room(line) < len + PIECE_BYTES)
        return NULL;
    memcpy(line->to, piece, PIECE_BYTES);
    if (len > PIECE_BYTES)
        memcpy(line->to + PIECE_BYTES, piece + PIECE_BYTES, len - PIECE_BYTES);
    line->to += len;
    return stop + left_out;
}

/* Goes through blocks with BEHIND_BYTES readable bytes behind the last. As append_piece(). */
static const char *append_blocks(struct line *line, const char *piece, const char *block, const char *end)
{
    for (; block < end; block += BLOCK_BYTES)
        for (uint64_t stops = find_stops(block); stops != 0; stops &= stops - 1) {
            piece = append_piece(line, piece, block + __builtin_ctzll(stops));
            if (piece == NULL)
                return NULL;
        }
    return piece;
}

/* The same for the end of the text, behind which nothing can be read: in a copy, which begins with what
 * stands before it. */
static bool append_last_blocks(struct line *line, const char *piece, const char *block, const char *end)
{
    char copy[1 + 3 * BLOCK_BYTES] = {0};
    size_t len = (size_t)(end - block);
    if (piece < block) {
        append(line, piece, (size_t)(block - piece));
        piece = block;
    }
    memcpy(copy, block - 1, 1 + len);
    const char *begin = copy + 1;
    const char *rest = append_blocks(line, begin + (piece - block), begin, begin + len);
    if (rest == NULL)
        return false;
    if (rest < begin + len)
        append(line, rest, (size_t)(begin + len - rest));
    return true;
}

/* False: this is not a usual text; then something was written all the same. */
static bool append_usual(struct line *line, const char *json, size_t len)
{
    size_t whole = len > BEHIND_BYTES ? (len - BEHIND_BYTES) / BLOCK_BYTES * BLOCK_BYTES : 0;
    if (whole == 0 || *json != '{')
        return false;
    const char *piece = append_blocks(line, json, json, json + whole);
    return piece != NULL && append_last_blocks(line, piece, json + whole, json + len);
}

/* ---------------------------------------------------------------- any text */

/* Where the quote is that ends the string that the text begins with; `len` or beyond: nowhere. */
static size_t find_quote(const char *text, size_t len)
{
    const char *quote = memchr(text + 1, '"', len - 1);
    size_t i = quote != NULL ? (size_t)(quote - text) : len;
    if (quote == NULL || quote[-1] != '\\')
        return i;
    for (i = 1; i < len && text[i] != '"';)
        i += text[i] == '\\' ? 2 : 1;
    return i;
}

/* The length of the key that a line of a record begins with, quotes and all; 0: it begins with none. */
static size_t key_len(const char *text, size_t len)
{
    if (len == 0 || text[0] != '"')
        return 0;
    size_t i = find_quote(text, len);
    return i + 2 < len && text[i + 1] == ':' && text[i + 2] == ' ' ? i + 1 : 0;
}

static void append_compact(struct line *line, const char *text, size_t len)
{
    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    size_t key = key_len(text, len);
    if (key > 0) {
        append(line, text, key + 1);
        text += key + 2;
        len -= key + 2;
    }
    append(line, text, len);
}

static void append_any(struct line *line, const char *json, size_t len)
{
    const char *end = json + len;
    while (json < end) {
        const char *line_break = memchr(json, '\n', (size_t)(end - json));
        const char *line_end = line_break != NULL ? line_break : end;
        append_compact(line, json, (size_t)(line_end - json));
        json = line_end + (line_break != NULL);
    }
}

void index_line_write(const char *json, size_t json_len, const char *name, size_t name_len, size_t line_len,
                      char *ret_line)
{
    struct line line = {.to = ret_line, .limit = ret_line + line_len + name_len};
    if (!append_usual(&line, json, json_len)) {
        line.to = ret_line;
        append_any(&line, json, json_len);
    }
    if (line.to > ret_line)
        line.to--; /* the closing bracket */
    if (line.to > ret_line + 1)
        append(&line, ",", 1);
    append(&line, before_name, strlen(before_name));
    append(&line, name, name_len);
    append(&line, after_name, strlen(after_name));
    memset(line.to, ' ', room(&line));
}
