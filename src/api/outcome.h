/* SPDX-License-Identifier: MIT */
/*
 * The outcome of a request: the one table from HTTP status to outcome and errno (filesystem contract, "what
 * happened | what follows"), the reason that goes with it, and what the body of a refusal says (interface
 * section 1, "Errors").
 *
 * Words come from strangers. They are shown as one line of valid UTF-8 without control characters, of at most
 * OUTCOME_REASON_MAX_BYTES, and without the API key, which servers echo.
 */
#ifndef INBOXFS_API_OUTCOME_H
#define INBOXFS_API_OUTCOME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "http/http_client.h"
#include "mail/mail_service.h"

enum {
    OUTCOME_REASON_MAX_BYTES = 1000
};

/* Fills in all but detail, which becomes NULL. `body`: what came of the body of an answer that is no success.
 * `is_safe`: the request changes nothing at the service (GET), so SERVICE_UNKNOWN becomes SERVICE_RETRY. */
void outcome_decide(const struct http_response *response, const struct strbuf *body, bool is_safe,
                    struct service_result *ret);

/* The reason for an answer that is no success, or for the lack of one. `body`: what came of the answer's
 * body. The caller frees; NULL without memory. */
char *outcome_describe(const struct http_client *client, const struct http_response *response,
                       const struct strbuf *body);

/* Replaces outcome, error and detail; the reason is cleaned and bounded. is_foreign becomes false. */
void outcome_set(struct service_result *result, enum service_outcome outcome, int error, const char *reason);

/* ---------------------------------------------------------------- the body of a refusal */

struct error_body {
    json_t *json; /* owned; NULL when it is not JSON */
    bool is_html;
    const char *text; /* borrowed */
    size_t len;
};

void error_body_init(struct error_body *body, const char *text, size_t len, bool is_html);
void error_body_release(struct error_body *body);

/* Returns true if its words or places (`loc`) name the field, as a whole word. Values that the body echoes
 * (FastAPI's `input` and `ctx`) do not count. */
bool error_body_names(const struct error_body *body, const char *field);

#endif
