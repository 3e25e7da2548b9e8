/* SPDX-License-Identifier: MIT */
/*
 * Carrying out a request to send, once: the message is composed, stored, delivered and its idempotency key
 * remembered, all in one transaction.
 */
#ifndef INBOXFS_SERVICE_SENDING_H
#define INBOXFS_SERVICE_SENDING_H

#include "service/account.h"
#include "service/sending_result.h"
#include "service/submission.h"

/* 0: *ret_result says what happened. -errno: nothing was sent, but for -EIO, when it is not known. */
int sending_run(const struct account *account, const struct submission *submission,
                struct sending_result *ret_result);

#endif
