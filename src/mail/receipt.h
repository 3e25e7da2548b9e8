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

#endif
