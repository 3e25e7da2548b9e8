/* SPDX-License-Identifier: MIT */
/*
 * The threads that send messages and upload attachments. Each takes one item at a time whose turn it is.
 */
#ifndef INBOXFS_OUTBOX_SEND_H
#define INBOXFS_OUTBOX_SEND_H

#include <stdint.h>

struct outbox;
struct item;
struct worker_set;

/* Starts them. 0 or -errno. */
int worker_set_start(struct outbox *outbox, struct worker_set **ret_set);
/* outbox->is_stopping is set. Gives requests under way a few seconds, cancels them then, and waits for the
 * threads. Frees the set. NULL-safe. */
void worker_set_stop(struct worker_set *set);

/* To failed/, for an attachment that it binds will never be in the pool. The item is claimed. */
void send_fail_lost(struct outbox *outbox, struct item *item);

#endif
