/* SPDX-License-Identifier: MIT */
/*
 * Webhooks: each valid email that arrives is reported to a program of the inbox's owner, by a POST to the
 * inbox's `webhook_url` (docs/INTERFACE.md, section 5). A row of outgoing.h is one email. The POST is
 * repeated until the program answers with 2xx, for a day; the newest attempt shows in the email's
 * `latest_webhook_log`.
 *
 * The holder of an API key chooses the URL, so it must not lead where the service can reach and the holder
 * cannot: only addresses of this machine are connected to, unless all are allowed, and no redirect is
 * followed. The address is checked that is really connected to, whatever a name resolves to.
 */
#ifndef INBOXFS_SERVICE_WEBHOOK_H
#define INBOXFS_SERVICE_WEBHOOK_H

#include <stdbool.h>

#include "service/tables.h"

struct webhook_config {
    const char *secret_file; /* signs what is sent; NULL: nothing is sent */
    bool is_anywhere_allowed;
};

struct webhook;

/* Starts its thread; *ret_webhook is NULL where nothing is sent. The database is borrowed until
 * webhook_stop(). 0, or -errno with the words in *ret_reason (the caller frees). */
int webhook_start(const struct webhook_config *config, struct database *database,
                  struct webhook **ret_webhook, char **ret_reason);

/* Breaks off what is under way. NULL-safe. */
void webhook_stop(struct webhook *webhook);

#endif
