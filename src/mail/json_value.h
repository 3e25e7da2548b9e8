/* SPDX-License-Identifier: MIT */
/*
 * Reads JSON text (RFC 8259) that anybody may have written, with jansson. A text that jansson refuses, though
 * it is JSON, is read all the same, for any sender can write half a surrogate pair into a subject: such an
 * escape becomes U+FFFD, as all NULs do where a key has one, and a number that no machine holds becomes a
 * string.
 */
#ifndef INBOXFS_MAIL_JSON_VALUE_H
#define INBOXFS_MAIL_JSON_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    JSON_VALUES_MAX = 200 * 1000, /* of a text that is read here */
};

/* Returns true if there are more values than that. Jansson takes a hundred bytes and more for each, which can
 * be two bytes long. */
bool json_has_too_many_values(const char *text, size_t len, size_t max);

/* `flags` are jansson's; JSON_ALLOW_NUL is always among them. 0 and the value (the caller releases); -EBADMSG
 * (not JSON), -EILSEQ (not UTF-8), -EEXIST (a key twice in an object, with JSON_REJECT_DUPLICATES), -EMSGSIZE
 * (nested deeper than JSON_PARSER_MAX_DEPTH, or too many values), -ENOMEM. */
int json_value_read(const char *text, size_t len, size_t flags, json_t **ret_value);

#endif
