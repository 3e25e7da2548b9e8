/* SPDX-License-Identifier: MIT */
/*
 * Sending, by endpoint_send() (endpoints.h). One transaction stores the message of a request, delivers it to
 * the inboxes of this service, and records it as sent. The request is answered when the transaction is on the
 * disk. Idempotency keys are never forgotten: a request that repeats a key is answered with the id of the
 * email that the first request sent.
 *
 * The same transaction adds a row for the relay (relay.h) for each recipient of another domain. If there is
 * no relay, such recipients cannot be reached, nor can recipients of the service's domain without an inbox:
 * then the email's status is `failed`, and one bounce names all of them to the sender.
 */
#ifndef INBOXFS_SERVICE_SENDING_H
#define INBOXFS_SERVICE_SENDING_H

#include <glib.h>
#include <jansson.h>
#include <stdint.h>

#include "service/inbox.h"
#include "service/message.h"
#include "service/validation.h"

/* Sends an inbox a welcome from support@domain, unless the inbox's rules are against it. The caller has the
 * turn to write. Return: 0 or -errno. */
int sending_welcome(struct connection *turn, const struct service_inbox *inbox, const char *domain);

/* Appends the part of a bounce about one recipient, in the form of RFC 3464; `status` is a code of RFC 3463.
 */
void sending_append_reason(GString *reasons, const char *address, const char *status, const char *why);

/* Puts a bounce from support@domain into the inbox that sent an email. `outbound` is the email's seq, and
 * `reasons` the text of sending_append_reason(). The caller has the turn to write. Return: 0 or -errno. */
int sending_bounce(struct connection *turn, int64_t outbound, const char *domain, const char *reasons);

enum message_type {
    MESSAGE_NEW,
    MESSAGE_REPLY,
    MESSAGE_FORWARD,
};

/* A request to send (interface, POST /api/v1/email/send). Pointers to const are borrowed from its body. */
struct submission {
    const char *existing_email_id; /* or NULL */
    const char *idempotency_key;   /* or NULL */
    const json_t *attachment_ids;  /* array of strings, or NULL */
    enum message_type type;
    struct message message; /* addresses, texts, and a subject, which may be NULL for a reply or forward */
    char digest[65];        /* hash of the request without its idempotency key and nulls */
    struct service_inbox sender; /* filled later, as is the rest of the message */
};

/* Reads a request, without the database. `body` is borrowed until submission_release(). Adds mistakes to
 * `validation`; if there are any, the submission can only be released. */
void submission_read(json_t *body, struct validation *validation, struct submission *ret_submission);
void submission_release(struct submission *submission);

#define _cleanup_submission_ __attribute__((cleanup(submission_release)))

#endif
