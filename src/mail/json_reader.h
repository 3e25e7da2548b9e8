/* SPDX-License-Identifier: MIT */
/*
 * The smallest parts of a JSON text (RFC 8259) from anybody, one after the other. An escaped surrogate
 * without its partner becomes U+FFFD: any sender can put one into a subject.
 */
#ifndef INBOXFS_MAIL_JSON_READER_H
#define INBOXFS_MAIL_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

struct json_reader {
    const char *at; /* what comes next */
    const char *end;
    struct strbuf unescaped; /* the last string that had to be */
};

/* `text` is borrowed. Nothing needs more memory than its length. */
void json_reader_init(struct json_reader *reader, const char *text, size_t len);
void json_reader_release(struct json_reader *reader);

/* Another text, with the memory that the last one took. */
void json_reader_restart(struct json_reader *reader, const char *text, size_t len);

/* What a value stands for; the text is valid until the next call. */
struct json_scalar {
    enum {
        JSON_SCALAR_OTHER,
        JSON_SCALAR_STRING,
        JSON_SCALAR_INTEGER,
        JSON_SCALAR_WORD, /* true, false, null */
    } kind;
    const char *text; /* UTF-8, may hold NULs; no NUL behind it */
    size_t len;
};

static inline size_t json_reader_left(const struct json_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

void json_reader_pass_blanks(struct json_reader *reader);

static inline void json_reader_skip_blanks(struct json_reader *reader)
{
    if (reader->at < reader->end && *reader->at <= ' ')
        json_reader_pass_blanks(reader);
}

/* Passes over blanks, and over `c` if that follows: whether it did. */
static inline bool json_reader_take(struct json_reader *reader, char c)
{
    if (reader->at == reader->end || *reader->at != c) {
        json_reader_skip_blanks(reader);
        if (reader->at == reader->end || *reader->at != c)
            return false;
    }
    reader->at++;
    return true;
}

/* Whether nothing but blanks is left. */
bool json_reader_is_at_end(struct json_reader *reader);

/* All: 0, -EBADMSG (not JSON), -EILSEQ (not UTF-8), -ENOMEM. No blanks go before a number. */
int json_reader_take_string(struct json_reader *reader, struct json_scalar *ret);
int json_reader_take_number(struct json_reader *reader, struct json_scalar *ret);

/* Passes over one value of text that was checked before: of others, not every mistake is found. 0, -EBADMSG,
 * -EILSEQ, -ENOMEM. */
int json_reader_skip_value(struct json_reader *reader);

#endif
