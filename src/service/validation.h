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
    json_t *problems; /* owned array; NULL if there is none */
};

/* Accepts a zeroed validation. */
void validation_release(struct validation *validation);

#define _cleanup_validation_ _cleanup_(validation_release)

/* A value in a request, and its position. */
struct input {
    struct validation *validation;
    const struct input *parent; /* object or array around the value; NULL for the whole body or query */
    const char *name;           /* NULL for an item of an array */
    size_t index;               /* index of the item in its array */
    const json_t *value;        /* NULL if it is missing */
};

/* Adds a problem with the value, or with a member of it. */
void input_add_problem(const struct input *in, const char *type, const char *message);
void validate_add_problem(const struct input *in, const char *name, const char *type, const char *message);

/* Returns a member of an object. The object must outlive it. */
struct input input_member(const struct input *in, const char *name);

/* The functions below read a member of an object. If the member is missing or wrong, its value is NULL;
 * validate_boolean() returns `fallback` for a missing member, and false for a wrong one. A wrong value is
 * added as a problem, and so is a missing member that is required. A text is borrowed from the object. */

/* Reads a text of at most VALIDATE_LINE_MAX_BYTES without control characters. */
const char *validate_line(const struct input *in, const char *name, bool is_required);
const char *validate_text(const struct input *in, const char *name, bool is_required);
const char *validate_address(const struct input *in, const char *name);
bool validate_boolean(const struct input *in, const char *name, bool fallback);
struct input validate_array(const struct input *in, const char *name, bool is_required, size_t max_len);
struct input validate_object(const struct input *in, const char *name);

/* Returns an item of an array. The array must outlive it. */
struct input input_item(const struct input *array, size_t index);

/* Returns the text of an item; NULL after a problem. */
const char *input_text(const struct input *item);

/* Returns true if an address can have this domain. */
bool validate_is_domain(const char *text);

/* Reads "true", "False", "1", "off" … in a path or query, as FastAPI does. Returns false for other words. */
bool validate_read_boolean_word(const char *text, bool *ret_value);

#endif
