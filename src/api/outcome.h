/* SPDX-License-Identifier: MIT */
/*
 * What an HTTP answer, or the lack of one, means: the one table from status to outcome and errno (filesystem
 * contract, "what happened | what follows").
 */
#ifndef INBOXFS_API_OUTCOME_H
#define INBOXFS_API_OUTCOME_H

#include "http/http_client.h"
#include "mail/mail_service.h"

/* Fills in outcome, http_status, error and retry_after_ms; detail becomes NULL. `is_safe`: the request
 * changes nothing at the service (GET), so SERVICE_UNKNOWN becomes SERVICE_RETRY. */
void outcome_decide(const struct http_response *response, bool is_safe, struct service_result *ret);

#endif
