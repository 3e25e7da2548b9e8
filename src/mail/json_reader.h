/* SPDX-License-Identifier: MIT */
/*
 * Reads JSON text (RFC 8259) that anybody may have written, value by value and without a tree of values: the
 * caller takes what it expects next, and `at` moves on. Nearly all of a record of mail is only passed on, so
 * a value can be written anew on its way (json_writer.h): numbers as they stand, strings with the writer's
 * escapes.
 *
 * Text that jansson refuses is read here: numbers that no machine holds, a key twice in an object, an escaped
 * NUL in a key. An escaped surrogate without its partner becomes U+FFFD: any sender can put one into a
 * subject. Memory is bounded by the length of the text, the stack by JSON_DEPTH_MAX.
 */
#ifndef INBOXFS_MAIL_JSON_READER_H
#define INBOXFS_MAIL_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "mail/json_writer.h"

enum {
    JSON_DEPTH_MAX = 200 /* of brackets */
};

struct json_reader {
    const char *at; /* what comes next */
    const char *end;
    unsigned int depth;      /* brackets that are open; a caller that takes one itself may count it here */
    struct strbuf unescaped; /* the last string, where it is not in the text as it is */
};

/* What a value stands for. */
struct json_scalar {
    enum {
        JSON_SCALAR_OTHER, /* an object, an array, a number that is no integer */
        JSON_SCALAR_STRING,
        JSON_SCALAR_INTEGER,
        JSON_SCALAR_WORD, /* true, false, null */
    } kind;
    const char *text; /* valid until the next call; UTF-8, may hold NULs, no NUL behind it. Not of OTHER */
    size_t len;
};

/* `text` is borrowed. */
void json_reader_init(struct json_reader *reader, const char *text, size_t len);
void json_reader_release(struct json_reader *reader);

/* Both pass over blanks first. Whether `c` comes next, and was passed over; whether nothing is left. */
bool json_reader_take(struct json_reader *reader, char c);
bool json_reader_is_at_end(struct json_reader *reader);

/* A string; a key and its colon; any value. With a writer, it is written to that, too. 0, -EBADMSG (not
 * JSON), -EILSEQ (not UTF-8), -EMSGSIZE (nested too deep), -ENOMEM, or the sticky error of the writer's
 * buffer. */
int json_reader_take_string(struct json_reader *reader, struct json_scalar *ret);
int json_reader_take_key(struct json_reader *reader, struct json_writer *writer, struct json_scalar *ret);
int json_reader_take_value(struct json_reader *reader, struct json_writer *writer, struct json_scalar *ret);

/* Writes a text that is one value from beginning to end. Errors as above. */
int json_rewrite(const char *text, size_t len, struct json_writer *writer);

#endif
