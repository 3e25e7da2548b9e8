/* SPDX-License-Identifier: MIT */
/*
 * Writes JSON text (RFC 8259) straight into a strbuf: records, events, status, receipts. It is the one place
 * that decides how JSON looks in the mount: its layout, and which characters are escaped.
 *
 * Strings may hold anything: what is not valid UTF-8 becomes U+FFFD; every character that a terminal or an
 * editor obeys (base/character.h) is escaped. The caller keeps to
 * the grammar (a key before each value of an object, an end for each beginning); nothing checks that.
 * Values of jansson's are written by it too: in the order they have, and with its escapes, which jansson's
 * own dump lacks.
 */
#ifndef INBOXFS_MAIL_JSON_WRITER_H
#define INBOXFS_MAIL_JSON_WRITER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

struct json_writer {
    struct strbuf *out;  /* borrowed; its sticky error is the writer's */
    unsigned int indent; /* spaces a level; 0: all on one line */
    unsigned int depth;
    bool is_empty; /* nothing in the current object or array yet */
    bool after_key;
    size_t layout_bytes; /* line breaks, indentation and the blanks behind colons, so far */
};

void json_writer_init(struct json_writer *writer, struct strbuf *out, unsigned int indent);

void json_begin_object(struct json_writer *writer);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer);
void json_end_array(struct json_writer *writer);
void json_key(struct json_writer *writer, const char *key);
/* Makes the string that was just written a key. */
void json_end_key(struct json_writer *writer);

/* The names are not json_string() and so on, for these are jansson's. */
void json_write_string(struct json_writer *writer, const char *text); /* NULL writes null */
void json_write_string_n(struct json_writer *writer, const char *text, size_t len);
void json_write_integer(struct json_writer *writer, int64_t number);
void json_write_boolean(struct json_writer *writer, bool value);
void json_write_null(struct json_writer *writer);
/* Text that is already a JSON value, taken over as it is; NULL writes null. */
void json_write_verbatim(struct json_writer *writer, const char *json);
void json_write_verbatim_n(struct json_writer *writer, const char *json, size_t len);

/* How many of the first bytes stand for themselves in a string: printable ASCII other than `"` and `\`. */
size_t json_plain_len(const char *text, size_t len);

/* key and value in one. */
void json_member_string(struct json_writer *writer, const char *key, const char *text);
void json_member_integer(struct json_writer *writer, const char *key, int64_t number);
void json_member_boolean(struct json_writer *writer, const char *key, bool value);
/* An ISO date in UTC (date_format()); 0 writes null. */
void json_member_date(struct json_writer *writer, const char *key, int64_t realtime_ms);

/* ---------------------------------------------------------------- values of jansson's */

static inline void cleanup_json(json_t **value)
{
    json_decref(*value);
}
#define _cleanup_json_ _cleanup_(cleanup_json)

/* Recurses as deep as the value goes, which jansson's parser bounds (JSON_PARSER_MAX_DEPTH). */
void json_value_write(const json_t *value, struct json_writer *writer);

/* Returns the text of a string without NULs, borrowed from `value`, which may be NULL; NULL for anything
 * else. */
const char *json_value_text(const json_t *value);

/* An id as text: services give strings, or numbers. *ret_id (the caller frees) is NULL for anything else, for
 * "" and for a string that holds a NUL. 0 or -ENOMEM. `value` may be NULL. */
int json_value_read_id(const json_t *value, char **ret_id);

#endif
