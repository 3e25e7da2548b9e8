/* SPDX-License-Identifier: MIT */
/*
 * The outcome of a request: a table maps the HTTP status to an outcome and an errno (filesystem contract,
 * "what happened | what follows"). The reason comes from the body of the refusal (interface section 1,
 * "Errors").
 *
 * A reason is one line of valid UTF-8 without control characters, of at most OUTCOME_REASON_MAX_BYTES, and
 * without the API key, whatever the server wrote.
 */
#ifndef INBOXFS_API_OUTCOME_H
#define INBOXFS_API_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "http/http_client.h"
#include "mail/mail_service.h"

enum {
    OUTCOME_REASON_MAX_BYTES = 1000
};

/* Sets `ret`, with the reason for an unsuccessful or missing answer. `body` is the body of an unsuccessful
 * answer, as far as it arrived. If `is_safe`, the request changes nothing at the service (GET), so
 * SERVICE_UNKNOWN becomes SERVICE_RETRY. */
void outcome_decide(const struct http_client *client, const struct http_response *response,
                    const struct strbuf *body, bool is_safe, struct service_result *ret);

/* Sets outcome and error; the detail is the reason, cleaned and cut, or NULL without an error. Clears
 * is_foreign. */
void outcome_set(struct service_result *result, enum service_outcome outcome, int error, const char *reason);

/* Returns true if the field's name is a key in the body of a refusal, or a whole word of a text or location
 * (`loc`) in it. Echoed values and links (FastAPI's `input`, `ctx` and `url`) do not count. */
bool outcome_mentions(const struct strbuf *body, const char *field);

#endif
