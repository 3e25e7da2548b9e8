/* SPDX-License-Identifier: MIT */
/*
 * Writes JSON text (RFC 8259) into a strbuf: records, events, status, receipts. The writer alone decides the
 * layout of JSON in the mount, and which characters are escaped.
 *
 * Strings may hold any bytes: invalid UTF-8 becomes U+FFFD, and every character that a terminal or an editor
 * obeys (base/character.h) is escaped. The writer does not check the grammar: the caller writes a key before
 * each value of an object, and ends what it begins. Values of jansson are also written here, since jansson's
 * own dump lacks these escapes.
 */
#ifndef INBOXFS_MAIL_JSON_WRITER_H
#define INBOXFS_MAIL_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "mail/json_value.h"

struct json_writer {
    struct strbuf *out;  /* borrowed; its sticky error is the writer's */
    unsigned int indent; /* spaces per level; 0 for all on one line */
    unsigned int depth;
    bool is_empty;       /* the current object or array has no member yet */
    bool after_key;      /* a key was written last */
    size_t layout_bytes; /* number of bytes written as line breaks, indentation and blanks after colons */
};

void json_writer_init(struct json_writer *writer, struct strbuf *out, unsigned int indent);

void json_begin_object(struct json_writer *writer);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer);
void json_end_array(struct json_writer *writer);
void json_key(struct json_writer *writer, const char *key);
/* Turns the string that was written last into a key. */
void json_end_key(struct json_writer *writer);

/* The names have "write", since jansson has a json_string() and so on. */
void json_write_string(struct json_writer *writer, const char *text); /* NULL writes null */
void json_write_string_n(struct json_writer *writer, const char *text, size_t len);
void json_write_integer(struct json_writer *writer, int64_t number);
void json_write_boolean(struct json_writer *writer, bool value);
void json_write_null(struct json_writer *writer);
/* Writes a text that is already a JSON value, unchanged. */
void json_write_verbatim(struct json_writer *writer, const char *json, size_t len);

/* Returns the number of leading bytes that need no escape in a string: printable ASCII but `"` and `\`. */
size_t json_plain_len(const char *text, size_t len);

/* Write a key and its value. */
void json_member_string(struct json_writer *writer, const char *key, const char *text);
void json_member_integer(struct json_writer *writer, const char *key, int64_t number);
void json_member_boolean(struct json_writer *writer, const char *key, bool value);
/* Writes an ISO date in UTC (date_format()); 0 writes null. */
void json_member_date(struct json_writer *writer, const char *key, int64_t realtime_ms);

/* Writes the value, with its keys in their order. Recurses once per level; jansson's parser bounds the levels
 * (JSON_PARSER_MAX_DEPTH). */
void json_write_value(struct json_writer *writer, const json_t *value);

#endif
