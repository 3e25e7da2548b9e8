/* SPDX-License-Identifier: MIT */
/*
 * Reads untrusted JSON text (RFC 8259) with jansson, which refuses half a surrogate pair. Any sender can
 * write one into a subject, so it becomes U+FFFD.
 */
#ifndef INBOXFS_MAIL_JSON_VALUE_H
#define INBOXFS_MAIL_JSON_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

static inline void cleanup_json(json_t **value)
{
    json_decref(*value);
}
#define _cleanup_json_ _cleanup_(cleanup_json)

enum {
    JSON_VALUES_MAX = 200 * 1000, /* number of values that json_value_read() accepts in one text */
};

/* Returns true if the text has more than `max` values, judged by its commas. A value of two bytes costs
 * jansson a hundred bytes of memory and more. */
bool json_has_too_many_values(const char *text, size_t len, size_t max);

/* Reads one value; the caller releases it. `flags` are jansson's; JSON_ALLOW_NUL is added. Return: 0;
 * -EBADMSG if the text is not JSON, has a key with a NUL, or a number that jansson cannot represent; -EILSEQ
 * if it is not UTF-8; -EEXIST if an object has a key twice, with JSON_REJECT_DUPLICATES; -EMSGSIZE if it is
 * nested deeper than JSON_PARSER_MAX_DEPTH, or has more than JSON_VALUES_MAX values. */
int json_value_read(const char *text, size_t len, size_t flags, json_t **ret_value);

/* Returns the text of `value` (may be NULL), borrowed; NULL unless it is a string without NULs. */
const char *json_value_text(const json_t *value);

/* Reads an id, which services write as a string or a number; the caller frees it. Returns NULL for any other
 * type, for "" and for a string with a NUL. `value` may be NULL. */
char *json_value_read_id(const json_t *value);

#endif
