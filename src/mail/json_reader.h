/* SPDX-License-Identifier: MIT */
/*
 * JSON text (RFC 8259) from anybody, checked and written anew in one pass, without a tree of values: lists of
 * mail are long, and nearly all of a record is only passed on. Numbers stay as they are written, strings are
 * written as json_writer.h says. An escaped surrogate without its partner becomes U+FFFD: any sender can put
 * one into a subject.
 */
#ifndef INBOXFS_MAIL_JSON_READER_H
#define INBOXFS_MAIL_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "mail/json_writer.h"

enum {
    JSON_READER_DEPTH_MAX = 200 /* of brackets */
};

struct json_reader {
    const char *at;
    const char *end;
    unsigned int depth;
    struct strbuf unescaped; /* the last string that had to be */
};

/* `text` is borrowed. Nothing needs more memory than its length. */
void json_reader_init(struct json_reader *reader, const char *text, size_t len);
void json_reader_release(struct json_reader *reader);

/* What a value that was copied stood for; the text is valid until the next call. */
struct json_scalar {
    enum {
        JSON_SCALAR_OTHER,
        JSON_SCALAR_STRING,
        JSON_SCALAR_INTEGER
    } kind;
    const char *text; /* UTF-8 but for lone surrogates, may hold NULs; no NUL behind it */
    size_t len;
    bool is_plain; /* a string that stands in the text as it is written, with its quotes around it */
};

/* Writes a string that was taken as a key, what it stood for as the value of one. */
void json_reader_copy_key(struct json_writer *writer, const struct json_scalar *key);

/* Passes over blanks, and over `c` if that follows: whether it did. */
bool json_reader_take(struct json_reader *reader, char c);

/* Whether nothing but blanks is left. */
bool json_reader_is_at_end(struct json_reader *reader);

/* Both: 0, -EBADMSG (not JSON), -EILSEQ (not UTF-8), -EMSGSIZE (nested too deep), -ENOMEM. */
int json_reader_take_string(struct json_reader *reader, struct json_scalar *ret);
/* One value, to `writer`, whose own error is the caller's to look at. `ret` may be NULL. */
int json_reader_copy_value(struct json_reader *reader, struct json_writer *writer, struct json_scalar *ret);

/* Passes over one value of text that was checked before: of others, not every mistake is found. 0, -EBADMSG,
 * -EILSEQ, -ENOMEM. */
int json_reader_skip_value(struct json_reader *reader);

#endif
