/* SPDX-License-Identifier: MIT */
/*
 * The relay: a mail server that takes emails for recipients of other domains who have no inbox here, and
 * brings them on. A row of outgoing.h is one email for one recipient, so that the server's answer is about
 * that one alone.
 *
 * If the answer to a message is lost, SMTP has no way to ask whether the server took it. The message is then
 * sent again with the same Message-ID, as RFC 5321 section 4.5.4.1 wants it: a recipient may get the message
 * twice, and no lost answer loses it. A refusal (5xx), or failing attempts for five days, become a bounce: a
 * message to the sender's inbox. A bounce goes through no relay, so no bounce ever causes another one.
 *
 * The email's status is `pending` as long as a recipient waits, `failed` once one was given up, else `sent`.
 */
#ifndef INBOXFS_SERVICE_RELAY_H
#define INBOXFS_SERVICE_RELAY_H

#include <stdbool.h>

#include "service/tables.h"

struct relay_config {
    const char *url;              /* smtp[s]://HOST[:PORT]; NULL: no relay */
    const char *credentials_file; /* USER:PASSWORD; NULL: no login */
    bool is_clear_allowed;        /* smtp:// to another machine may go without TLS */
};

struct relay;

/* Starts the relay's thread; *ret_relay is NULL if none is configured. `domain`, that of the inboxes, and the
 * database are borrowed until relay_stop(). Return: 0, or -errno with a reason (the caller frees it). */
int relay_start(const struct relay_config *config, const char *domain, struct database *database,
                struct relay **ret_relay, char **ret_reason);

/* Waits some seconds for the answer to a message that was sent whole, and breaks off any other attempt.
 * NULL-safe. */
void relay_stop(struct relay *relay);

#endif
