/* SPDX-License-Identifier: MIT */
/*
 * Webhooks: each valid email that arrives is reported to a program of the inbox's owner, by a POST to the
 * inbox's `webhook_url` (docs/INTERFACE.md, section 5). A row of outgoing.h is one email. The POST is
 * repeated until the program answers with 2xx, for a day; the newest attempt shows in the email's
 * `latest_webhook_log`.
 *
 * The holder of an API key chooses the URL, which must not lead where the service can connect and the holder
 * cannot. So the service connects only to addresses of this machine, unless all are allowed, and follows no
 * redirect. It checks the address that a name was resolved to, not the name.
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

/* Starts the thread; *ret_webhook is NULL if nothing is sent. The database is borrowed until webhook_stop().
 * Return: 0, or -errno with a reason (the caller frees it). */
int webhook_start(const struct webhook_config *config, struct database *database,
                  struct webhook **ret_webhook, char **ret_reason);

/* Breaks off the attempt under way. NULL-safe. */
void webhook_stop(struct webhook *webhook);

#endif
