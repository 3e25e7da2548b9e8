/* SPDX-License-Identifier: MIT */
/*
 * Sends a message: its parts first, then the request, durable before it leaves and after it was answered.
 */
#ifndef INBOXFS_OUTBOX_SENDER_H
#define INBOXFS_OUTBOX_SENDER_H

#include "base/cancel.h"
#include "outbox/item.h"

struct outbox;

/* One attempt, in a place of the day's quota (which it leaves). The item is claimed for the service and in
 * ITEM_QUEUED; afterwards it is settled, or waits. Waits for the network. */
void sender_run(struct outbox *outbox, struct item *item, struct cancel *cancel);

/* To failed/, for an attachment that it binds will never be in the pool. The item is claimed. */
void sender_fail_lost(struct outbox *outbox, struct item *item);

#endif
