/* SPDX-License-Identifier: MIT */
/*
 * NAME.receipt.json: the result of an item that was handed in, for people and scripts (filesystem contract,
 * "Sending"). A receipt is made when it is opened, from the row of the outbox and the service's record of the
 * sent mail.
 */
#ifndef INBOXFS_MAIL_RECEIPT_H
#define INBOXFS_MAIL_RECEIPT_H

#include <stddef.h>

#include "base/strbuf.h"

#define RECEIPT_SUFFIX ".receipt.json"
#define RECEIPT_END "\n}\n" /* follows the last member of each receipt */

enum {
    RECEIPT_MAX_BYTES = 64 * 1000 * 1000,
};

/* Appends `status` and `latest_event` of the service's record of sent mail, if the record has them, as
 * members that can be inserted before the RECEIPT_END of a receipt. Return: 0; -EBADMSG if `record` is not a
 * record; the buffer's error. */
int receipt_delivery_format(const char *record, size_t len, struct strbuf *out);

#endif
