/* SPDX-License-Identifier: MIT */
/*
 * Reads the members of a JSON request, and collects the problems with them in the form of FastAPI's answers
 * with 422: a list of {loc, msg, type}. A null counts as a missing member, because published clients send
 * nulls.
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
    json_t *problems; /* owned array; NULL before the first problem */
    bool has_failed;
};

/* The position of a value in a request. */
struct location {
    const struct location *parent; /* object or array around the value; NULL for the whole body */
    const char *name;              /* name of a member; NULL for an item of an array */
    size_t index;                  /* index of the item in its array */
};

/* Accepts a zeroed validation. */
void validation_release(struct validation *validation);

#define _cleanup_validation_ _cleanup_(validation_release)

/* Adds a problem at `location`. */
void validation_add_problem(struct validation *validation, const struct location *location, const char *type,
                            const char *message);

/* An object at `location`. The validate_ functions read one of its members, and return a value that is
 * borrowed from `object`. If the member is missing or wrong, they return NULL; validate_boolean() returns
 * `fallback` for a missing member, and false for a wrong one. A wrong value is added as a problem, and so is
 * a missing member that is required. */
struct json_input {
    struct validation *validation;
    const struct location *location;
    const json_t *object;
};

/* Adds a problem at a member of the object. */
void validate_add_problem(const struct json_input *in, const char *name, const char *type,
                          const char *message);

/* Reads a text of at most VALIDATE_LINE_MAX_BYTES without control characters. */
const char *validate_line(const struct json_input *in, const char *name, bool is_required);
const char *validate_text(const struct json_input *in, const char *name, bool is_required);
bool validate_boolean(const struct json_input *in, const char *name, bool fallback);
json_t *validate_array(const struct json_input *in, const char *name, bool is_required, size_t max_len);
json_t *validate_object(const struct json_input *in, const char *name);

/* Returns true if an address can have this domain. */
bool validate_is_domain(const char *text);

/* Reads "true", "False", "1", "off" … in a path or query, as FastAPI does. Returns false for other words. */
bool validate_read_boolean_word(const char *text, bool *ret_value);

#endif
