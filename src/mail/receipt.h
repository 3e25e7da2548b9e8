/* SPDX-License-Identifier: MIT */
/*
 * NAME.receipt.json: what became of something handed in, for people and scripts (filesystem contract,
 * "Sending"). A receipt is made when it is opened, of what the outbox knows of the item and of what the
 * service reports of the sent mail.
 */
#ifndef INBOXFS_MAIL_RECEIPT_H
#define INBOXFS_MAIL_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define RECEIPT_SUFFIX ".receipt.json"

enum {
    RECEIPT_MAX_BYTES = 64 * 1000 * 1000,
};

/* All texts are borrowed. */
struct receipt {
    const char *state;
    const char *kind;
    const char *id;      /* the sent email's, or the pool's; NULL: none */
    const char *key;     /* idempotency key; "": none */
    int64_t accepted_ms; /* since 1970; 0: not yet, here and below */
    int64_t finished_ms;
    unsigned int attempts;
    int http_status;         /* of the last answer; 0: none */
    const char *error;       /* words; NULL: none */
    const char *not_carried; /* words: what of the message the request does not say, a line each; or NULL */
    const char *request;     /* as sent, JSON text; NULL: none */
};

/* Appends the receipt's text. Returns 0 or the buffer's error. */
int receipt_format(const struct receipt *receipt, struct strbuf *out);

/* Appends `status` and `latest_event` of the service's record of sent mail, as members to go before the end
 * of a receipt (receipt_end()); nothing where the record has neither. Returns 0; -EBADMSG: it is no record;
 * or the buffer's error. */
int receipt_delivery_format(const char *record, size_t len, struct strbuf *out);

/* Returns where, in the text of a receipt, its last members end. */
size_t receipt_end(const char *receipt, size_t len);

#endif
