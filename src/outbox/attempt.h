/* SPDX-License-Identifier: MIT */
/*
 * What an answer of the service means for the whole queue: goes on, waits, stops.
 */
#ifndef INBOXFS_OUTBOX_ATTEMPT_H
#define INBOXFS_OUTBOX_ATTEMPT_H

#include "base/cancel.h"
#include "mail/mail_service.h"
#include "outbox/item.h"

struct outbox;

enum attempt_meaning {
    ATTEMPT_TAKEN,   /* done */
    ATTEMPT_REFUSED, /* for good, and this one alone */
    ATTEMPT_OPEN,    /* to be tried again, or of unknown outcome */
};

/* Tells the gate what the answer says of the service, before the item is settled, so that nobody passes in
 * between. From then on the item is claimed for the disk alone; after a 429 or 503 it is put off. After a 403
 * it asks for one email (waits for the network): whether the key is refused for everything, or only this. No
 * lock may be held. */
enum attempt_meaning attempt_report(struct outbox *outbox, struct item *item,
                                    const struct service_result *result, struct cancel *cancel);

/* After an attempt that failed here, or whose outcome is not known: the item waits by its own backoff, and at
 * least this long. */
void attempt_put_off(struct outbox *outbox, struct item *item, int64_t delay_ms);

#endif
