/* SPDX-License-Identifier: MIT */
/*
 * NAME.receipt.json: what became of something handed in, for people and scripts (filesystem contract,
 * "Sending").
 */
#ifndef INBOXFS_MAIL_RECEIPT_H
#define INBOXFS_MAIL_RECEIPT_H

#include "base/strbuf.h"
#include "mail/envelope.h"

#define RECEIPT_SUFFIX ".receipt.json"

/* The receipt of an item with this envelope; its request must be loaded. 0 or the buffer's error. */
int receipt_format(const struct envelope *envelope, struct strbuf *out);

/* What the service tells of sent mail, from its record there: `status` and `latest_event`, as members to go
 * before the end of a receipt (receipt_end()). "" where the record has neither. 0 or -ENOMEM; -EBADMSG: no
 * record. */
int receipt_delivery_format(const char *record, size_t len, struct strbuf *out);

/* Where, in the text of a receipt, its last members end. */
size_t receipt_end(const char *receipt, size_t len);

#endif
