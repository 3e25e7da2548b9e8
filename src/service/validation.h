/* SPDX-License-Identifier: MIT */
/*
 * Reads the fields of a JSON request and collects what is wrong with them, in the shape that FastAPI gives
 * its 422 answers: a list of {loc, msg, type}. A null counts as left out, for published clients send nulls.
 */
#ifndef INBOXFS_SERVICE_VALIDATION_H
#define INBOXFS_SERVICE_VALIDATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

enum {
    VALIDATE_LINE_MAX_BYTES = 8192, /* names, subjects, keys, ids */
};

struct validation {
    json_t *problems; /* array, NULL before the first; owned */
    bool has_failed;
};

/* The position of a value, from the request's body inwards; lives on the stack. */
struct location {
    const struct location *parent; /* NULL: the outermost */
    const char *name;              /* a member's name; NULL: an item of an array */
    size_t index;
};

/* Accepts a validation of zeros, as it begins. */
void validation_release(struct validation *validation);

#define _cleanup_validation_ _cleanup_(validation_release)

/* Adds a problem at `location`. */
void validation_fail(struct validation *validation, const struct location *location, const char *type,
                     const char *message);

/* The members of `object`, which stands at `location`. The validate_ functions return NULL (or the fallback)
 * for a member that is missing or wrong. A wrong member, and a missing one that is required, become a
 * problem. Values are borrowed from `object`. */
struct json_input {
    struct validation *validation;
    const struct location *location;
    const json_t *object;
};

/* Adds a problem of a member. */
void validate_fail(const struct json_input *in, const char *name, const char *type, const char *message);

/* Returns a text of one line: at most VALIDATE_LINE_MAX_BYTES, without control characters. */
const char *validate_line(const struct json_input *in, const char *name, bool is_required);
/* Returns a text of any kind. */
const char *validate_text(const struct json_input *in, const char *name, bool is_required);
bool validate_boolean(const struct json_input *in, const char *name, bool fallback);
json_t *validate_array(const struct json_input *in, const char *name, bool is_required, size_t max_len);
json_t *validate_object(const struct json_input *in, const char *name, bool is_required);

/* Returns true if the text can stand behind the "@" of an address. */
bool validate_is_domain(const char *text);

/* Reads "true", "False", "1", "off" … in a path or query, as FastAPI does. Returns false for other words. */
bool validate_read_boolean_word(const char *text, bool *ret_value);

#endif
