/* SPDX-License-Identifier: MIT */
/*
 * JSON text (RFC 8259) from anybody, checked and written anew in one pass, without a tree of values: lists of
 * mail are long, and nearly all of a record is only passed on. Numbers stay as they are written, strings are
 * written as json_writer.h says.
 */
#ifndef INBOXFS_MAIL_JSON_COPY_H
#define INBOXFS_MAIL_JSON_COPY_H

#include <stdint.h>

#include "base/strbuf.h"
#include "mail/json_reader.h"

enum {
    JSON_COPY_DEPTH_MAX = 200, /* of brackets */
    JSON_COPY_MARGIN_BYTES = 32,
    JSON_KNOWN_KEY_BYTES = JSON_COPY_MARGIN_BYTES,
};

/* In `out` there is always room for all that is left to be read, as it is, and for JSON_COPY_MARGIN_BYTES:
 * only what makes the text longer has to ask for more. So `out` needs a ceiling that much higher. */
struct json_copy {
    struct json_reader reader; /* of what is left */
    struct strbuf *out;        /* borrowed; knows its length after json_copy_end() */
    char *to;                  /* where the next byte goes */
    const char *room_end;
    unsigned int indent; /* spaces a level; 0: all on one line */
    unsigned int depth;  /* open brackets */
    size_t layout_bytes; /* line breaks, indentation and the blanks behind colons, so far */
};

void json_copy_init(struct json_copy *copy, struct strbuf *out, unsigned int indent);
void json_copy_release(struct json_copy *copy);

/* From here on `text`, which is borrowed, goes to `out`, which is emptied. 0, -EMSGSIZE, -ENOMEM. */
int json_copy_begin(struct json_copy *copy, const char *text, size_t len);
void json_copy_end(struct json_copy *copy);

/* The length of what was written. */
static inline size_t json_copy_len(const struct json_copy *copy)
{
    return (size_t)(copy->to - copy->out->data);
}

/* All: 0, -EBADMSG (not JSON), -EILSEQ (not UTF-8), -EMSGSIZE (nested too deep, or longer than `out` may
 * become), -ENOMEM. */

/* What `ret` points to is valid until the next call. */
int json_copy_value(struct json_copy *copy, struct json_scalar *ret);
/* What was read, blanks and colon and all, and written for a key; all zeros: none. Objects of a list mostly
 * have the same keys, which need not be looked at again. */
struct json_known_key {
    uint8_t read_len;
    uint8_t written_len;
    uint8_t layout_len; /* of what was written */
    char read[JSON_KNOWN_KEY_BYTES];
    char written[JSON_KNOWN_KEY_BYTES];
};

/* Writes `before`, a bracket or a comma, begins a line, and copies a key with its colon. *ret_key: what it is
 * known by from now on, if it is short enough for that. */
int json_copy_new_key(struct json_copy *copy, char before, struct json_known_key *ret_key);
/* Copies the key if it comes next, at the depth at which it became known. False: it does not. */
bool json_copy_known_key(struct json_copy *copy, const struct json_known_key *key);

/* A text that is one value, from beginning to end. */
int json_copy_all(struct json_copy *copy, const char *text, size_t len);

#endif
