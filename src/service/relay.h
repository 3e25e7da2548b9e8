/* SPDX-License-Identifier: MIT */
/*
 * The relay is a mail server that takes emails for recipients of other domains who have no inbox of the
 * service. A row of outgoing.h is one email for one recipient, so that the server's answer is about this
 * recipient alone.
 *
 * If the answer to a message is lost, SMTP has no way to ask whether the server took the message. The message
 * is then sent again with the same Message-ID (RFC 5321 section 4.5.4.1): a recipient may get it twice, but a
 * lost answer never loses it. After a refusal (5xx), or attempts that fail for five days, the inbox of the
 * sender gets a bounce. A bounce is never sent to a relay, so no bounce causes another bounce.
 */
#ifndef INBOXFS_SERVICE_RELAY_H
#define INBOXFS_SERVICE_RELAY_H

#include <stdbool.h>

#include "service/outgoing.h"

struct relay_config {
    const char *url;              /* smtp[s]://HOST[:PORT]; NULL for no relay */
    const char *credentials_file; /* USER:PASSWORD; NULL for no login */
    bool is_clear_allowed;        /* with smtp://, no TLS is needed, even to another machine */
};

/* Makes the relay; *ret_relay is NULL if none is configured. The caller frees it with outgoing_free(), on
 * failure too, which waits up to 5 seconds for the answer to a message that was sent whole. `domain` (of the
 * inboxes) is borrowed until then. Return: 0, or -errno with a reason (the caller frees it). */
int relay_new(const struct relay_config *config, const char *domain, struct outgoing **ret_relay,
              char **ret_reason);

#endif
