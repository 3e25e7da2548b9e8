/* SPDX-License-Identifier: MIT */
/*
 * Sending. One transaction stores the message of a request, delivers it to the inboxes here, and records it
 * as sent; the request is answered when that is on the disk. The idempotency key is remembered for ever: a
 * request that repeats it is answered with the email that was sent then.
 *
 * The same transaction adds a row for the relay (relay.h) for each recipient elsewhere. It sends one bounce
 * to the sender about all recipients who can be reached in neither way: those of the service's domain without
 * an inbox, and without a relay all others. The email is `failed` then.
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

/* Sends the account's first inbox a welcome from support@domain, inside a write transaction, unless the
 * inbox's rules are against it. Return: 0 or -errno. */
int sending_welcome(sqlite3 *db, const struct service_inbox *inbox, const char *domain);

enum {
    SENDING_REASONS_MAX_BYTES = 1024 * 1024, /* in a bounce */
};

/* Appends the part of a bounce about one recipient, in the form of RFC 3464; `status` is a code of RFC 3463.
 * Return: 0 or the buffer's error. */
int sending_give_reason(struct strbuf *reasons, const char *address, const char *status, const char *why);

/* Puts a bounce from support@domain into the inbox that sent the email `outbound` (its seq), inside a write
 * transaction. `reasons` was made by sending_give_reason(). Return: 0 or -errno. */
int sending_bounce(sqlite3 *db, int64_t outbound, const char *domain, const char *reasons);

/* A request to send (interface, POST /api/v1/email/send). Its inbox, attachments and existing email have not
 * been looked up. */

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

/* Reads a request. `body` is borrowed for as long as the submission lives. Adds mistakes to `validation`; the
 * caller can only release the submission if there are any. Return: 0 or -ENOMEM. */
int submission_read(json_t *body, struct validation *validation, struct submission *ret_submission);
void submission_release(struct submission *submission);

#define _cleanup_submission_ __attribute__((cleanup(submission_release)))

#endif
