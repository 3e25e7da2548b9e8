/* SPDX-License-Identifier: MIT */
/*
 * The relay: a mail server that takes emails for recipients of other domains who have no inbox here, and
 * brings them on. A row of outgoing.h is one email for one recipient, so that the server's answer is about
 * that one alone.
 *
 * SMTP has no way to ask what became of a message whose last answer was lost. It is sent again then, as RFC
 * 5321 section 4.5.4.1 wants it, with the Message-ID that it had: a recipient may get it twice, never not at
 * all. A refusal (5xx), or as many attempts in vain as take five days, becomes a bounce: a message to the
 * sender's inbox. It goes through no relay, so nothing ever bounces because of a bounce.
 *
 * The email's status is `pending` as long as a recipient waits, `failed` once one was given up, else `sent`.
 */
#ifndef INBOXFS_SERVICE_RELAY_H
#define INBOXFS_SERVICE_RELAY_H

#include <stdbool.h>

#include "service/tables.h"

struct relay_config {
    const char *url;              /* smtp[s]://HOST[:PORT]; NULL: there is no relay */
    const char *credentials_file; /* USER:PASSWORD; NULL: none are asked for */
    bool is_clear_allowed;        /* smtp:// to another machine may go without TLS */
};

struct relay;

/* Starts its thread; *ret_relay is NULL where there is no relay. `domain`, the inboxes', and the database are
 * borrowed until relay_stop(). 0, or -errno with the words in *ret_reason (the caller frees). */
int relay_start(const struct relay_config *config, const char *domain, struct database *database,
                struct relay **ret_relay, char **ret_reason);

/* Waits some seconds for the answer to a message that was sent whole; breaks off whatever else is under way.
 * NULL-safe. */
void relay_stop(struct relay *relay);

#endif
