/* SPDX-License-Identifier: MIT */
/*
 * What an answer of the service means for the whole queue: goes on, waits, stops.
 */
#ifndef INBOXFS_OUTBOX_ATTEMPT_H
#define INBOXFS_OUTBOX_ATTEMPT_H

#include <stdbool.h>

#include "base/cancel.h"
#include "mail/mail_service.h"

struct outbox;

/* Tells the gate. No lock may be held. */
void attempt_report(struct outbox *outbox, const struct service_result *result);

/* After a 403: whether the service refuses the key for everything, not only for this. Asks for one email
 * (waits for the network). True also when that cannot be found out: better to wait than to give up. */
bool attempt_is_key_refused(struct outbox *outbox, struct cancel *cancel);

/* How long the item itself should wait after this outcome (settle_later()): by its own backoff where the
 * service answered, else until the gate opens. */
int64_t attempt_delay_ms(const struct service_result *result);

#endif
