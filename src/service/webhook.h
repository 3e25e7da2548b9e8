/* SPDX-License-Identifier: MIT */
/*
 * Webhooks: each valid email that arrives is reported to a program of the inbox's owner, by a POST to the
 * inbox's `webhook_url` (docs/INTERFACE.md, section 5). A row of outgoing.h is one email. The POST is
 * repeated for a day, until the program answers with 2xx. `latest_webhook_log` of the email's record shows
 * the last attempt.
 *
 * The holder of an API key chooses the URL, but must not reach a place that only the service can reach. So
 * the service connects only to addresses of this machine, unless all are allowed, and follows no redirect. It
 * checks the address to which a name was resolved, not the name.
 */
#ifndef INBOXFS_SERVICE_WEBHOOK_H
#define INBOXFS_SERVICE_WEBHOOK_H

#include <stdbool.h>

#include "service/outgoing.h"

struct webhook_config {
    const char *secret_file;  /* with the signing secret; NULL for no webhooks */
    bool is_anywhere_allowed; /* webhooks may connect to other machines */
};

/* Makes what sends webhooks; *ret_webhook is NULL if none are configured. The caller frees it with
 * outgoing_free(), on failure too. Return: 0, or -errno with a reason (the caller frees it). */
int webhook_new(const struct webhook_config *config, struct outgoing **ret_webhook, char **ret_reason);

#endif
