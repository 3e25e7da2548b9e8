/* SPDX-License-Identifier: MIT */
/*
 * Whether a webhook comes from the service (interface, section 5): it is signed with the secret that only the
 * service and this account know, and was made a moment ago. Nothing of it is read before the signature is
 * found to be right, and nothing of it is believed but which inbox it is about.
 *
 * A body that somebody recorded can be sent again for as long as its timestamp is taken. That has an inbox
 * looked at once more, so no memory of bodies is kept.
 */
#ifndef INBOXFS_MAIL_WEBHOOK_H
#define INBOXFS_MAIL_WEBHOOK_H

#include <stddef.h>
#include <stdint.h>

#define WEBHOOK_SIGNATURE_HEADER "X-BotMailRoom-Signature"

enum {
    WEBHOOK_BODY_MAX_BYTES = 2 * 1000 * 1000,
    WEBHOOK_CLOCK_MAX_MS = 300 * 1000 /* between the timestamp and our clock, either way */
};

/* Checks a body of `len` bytes against the text of its signature header (NULL: there is none) and the time
 * now. 0 and *ret_inbox_id, the inbox it is about (NULL: it does not say; the caller frees); -EACCES: not
 * signed with this secret; -EBADMSG: not what the service sends; -ESTALE: too old, or from the future;
 * -ENOMEM. */
int webhook_check(const char *secret, const char *signature, const void *body, size_t len, int64_t now_ms,
                  char **ret_inbox_id);

#endif
