/* SPDX-License-Identifier: MIT */
/*
 * jansson's values, written by the JSON writer: in the order they have, and with its escapes, which jansson's
 * own dump lacks.
 */
#ifndef INBOXFS_MAIL_JSON_VALUE_H
#define INBOXFS_MAIL_JSON_VALUE_H

#include <jansson.h>

#include "base/cleanup.h"
#include "mail/json_writer.h"

static inline void cleanup_json(json_t **value)
{
    json_decref(*value);
}
#define _cleanup_json_ _cleanup_(cleanup_json)

/* Recurses as deep as the value goes, which jansson's parser bounds (JSON_PARSER_MAX_DEPTH). */
void json_value_write(const json_t *value, struct json_writer *writer);

/* An id as text: services give strings, or numbers. *ret_id (the caller frees) is NULL for anything else, for
 * "" and for a string that holds a NUL. 0 or -ENOMEM. `value` may be NULL. */
int json_value_read_id(const json_t *value, char **ret_id);

#endif
