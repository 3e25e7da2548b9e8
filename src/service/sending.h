/* SPDX-License-Identifier: MIT */
/*
 * Sending. A request to send is read and checked, its message is composed, stored, delivered into the inboxes
 * here that it is addressed to, and recorded as sent, all of it in one transaction: it is answered once that
 * is on the disk. Its idempotency key is remembered for ever; a request that repeats one is answered with the
 * email that was sent then. A recipient of the service's domain who has no inbox, and without a relay any
 * other one who has none, comes back to the sender in the same transaction, in one bounce for all of them;
 * the email is `failed` then. For each other recipient elsewhere there is a row for the relay (relay.h), in
 * the same transaction too.
 *
 * The endpoint itself is endpoint_send() (endpoints.h).
 */
#ifndef INBOXFS_SERVICE_SENDING_H
#define INBOXFS_SERVICE_SENDING_H

#include <jansson.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "service/inbox.h"
#include "service/validation.h"

/* Greets the account's first inbox from support@domain, inside a write transaction; nothing happens where the
 * inbox's rules are against it. 0 or -errno. */
int sending_welcome(sqlite3 *db, const struct service_inbox *inbox, const char *domain);

enum {
    SENDING_REASONS_MAX_BYTES = 1024 * 1024, /* in a bounce */
};

/* Appends the words of a bounce about one recipient, as RFC 3464 has it; `status`: a code of RFC 3463. 0 or
 * the buffer's error. */
int sending_give_reason(struct strbuf *reasons, const char *address, const char *status, const char *why);

/* Puts a bounce into the inbox that sent this email (`outbound`: its seq), from support@domain, inside a
 * write transaction. `reasons`: by sending_give_reason(). 0 or -errno. */
int sending_bounce(sqlite3 *db, int64_t outbound, const char *domain, const char *reasons);

/* A request to send (interface, POST /api/v1/email/send). The inbox, the attachments and the email
 * replied to are in the database and are not checked here. */

enum message_type {
    MESSAGE_NEW,
    MESSAGE_REPLY,
    MESSAGE_FORWARD,
};

struct submission {
    /* Texts are borrowed from the request's body. */
    const char *from_address;
    const char *from_name; /* NULL: the inbox's */
    const char *subject;   /* NULL: the existing email's */
    const char *plain_text;
    const char *html; /* at least one of the two is there */
    const char *existing_email_id;
    const char *idempotency_key;  /* or NULL */
    const json_t *attachment_ids; /* array of strings; NULL: none */
    bool alternative_content;
    enum message_type type;
    json_t *to, *cc, *bcc, *reply_to; /* owned arrays of {"address", "name"} */
    char digest[65];                  /* of the request without its key and its nulls */
};

/* `body` is borrowed, for as long as the submission lives. What is wrong is added to `validation`, and then
 * the submission is not to be used but for its release. 0 or -ENOMEM. */
int submission_read(json_t *body, struct validation *validation, struct submission *ret_submission);
void submission_release(struct submission *submission);

#define _cleanup_submission_ __attribute__((cleanup(submission_release)))

#endif
