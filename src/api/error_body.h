/* SPDX-License-Identifier: MIT */
/*
 * The body of an answer that is no success (interface section 1, "Errors"): what it says, and which fields of
 * the request it names.
 */
#ifndef INBOXFS_API_ERROR_BODY_H
#define INBOXFS_API_ERROR_BODY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

struct error_body {
    json_t *json; /* owned; NULL when it is not JSON */
    bool is_html;
    const char *text; /* borrowed */
    size_t len;
};

void error_body_init(struct error_body *body, const char *text, size_t len, bool is_html);
void error_body_release(struct error_body *body);

/* Appends `detail` (a string, or FastAPI's list), `error` or `message`, else the text; an HTML page is called
 * one. Not cleaned. Nothing for an empty body. */
void error_body_append_words(const struct error_body *body, struct strbuf *out);

/* Whether its words or places (`loc`) name the field, as a word of its own. Values that it echoes (FastAPI's
 * `input` and `ctx`) do not count. */
bool error_body_names(const struct error_body *body, const char *field);

/* Whether it names any field: one of the request's, or any place within the body. */
bool error_body_names_any(const struct error_body *body, const json_t *request);

#endif
