/* SPDX-License-Identifier: MIT */
/*
 * One attempt to send a message or upload an attachment. The caller, a worker, has claimed the item for the
 * service and keeps the claim. Afterwards the item is settled or waits in the queue. Both functions wait for
 * the network and the disk.
 */
#ifndef INBOXFS_OUTBOX_SEND_H
#define INBOXFS_OUTBOX_SEND_H

struct cancel;
struct item;
struct outbox;

void send_message(struct outbox *outbox, struct item *item, struct cancel *cancel);
void send_attachment(struct outbox *outbox, struct item *item, struct cancel *cancel);

#endif
