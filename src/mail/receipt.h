/* SPDX-License-Identifier: MIT */
/*
 * NAME.receipt.json: the result of an item that was handed in, for people and scripts (filesystem contract,
 * "Sending"). A receipt is made when it is opened, from the row of the outbox and the service's record of the
 * sent mail.
 */
#ifndef INBOXFS_MAIL_RECEIPT_H
#define INBOXFS_MAIL_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define RECEIPT_SUFFIX ".receipt.json"
#define RECEIPT_END "\n}\n" /* follows the last member of each receipt */

enum {
    RECEIPT_MAX_BYTES = 64 * 1000 * 1000,
};

/* All texts are borrowed. */
struct receipt {
    const char *state;
    const char *kind;
    const char *id;      /* the service's id of the sent email or uploaded file; NULL if there is none */
    const char *key;     /* idempotency key; "" if there is none */
    int64_t accepted_ms; /* since 1970 UTC; 0 if not accepted yet; likewise finished_ms */
    int64_t finished_ms;
    unsigned int attempts;
    int http_status;         /* status of the service's last answer; 0 if there was none */
    const char *error;       /* a message for the user, or NULL */
    const char *not_carried; /* a line for each part of the message that the request lacks; or NULL */
    const char *request;     /* JSON text as sent, on one line; or NULL */
};

/* Appends the receipt's text. Returns 0 or the buffer's error. */
int receipt_format(const struct receipt *receipt, struct strbuf *out);

/* Appends `status` and `latest_event` of the service's record of sent mail, if the record has them, as
 * members that can be inserted before the RECEIPT_END of a receipt. Return: 0; -EBADMSG if `record` is not a
 * record; the buffer's error. */
int receipt_delivery_format(const char *record, size_t len, struct strbuf *out);

#endif
