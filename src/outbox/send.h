/* SPDX-License-Identifier: MIT */
/*
 * The threads that send messages and upload attachments. Each takes one item at a time whose turn it is.
 */
#ifndef INBOXFS_OUTBOX_SEND_H
#define INBOXFS_OUTBOX_SEND_H

struct outbox;
struct item;
struct send_pool;

/* Starts them. 0 or -errno. */
int send_pool_start(struct outbox *outbox, struct send_pool **ret_pool);
/* outbox->is_stopping is set. Gives requests under way a few seconds, cancels them then, and waits for the
 * threads. Frees the pool. NULL-safe. */
void send_pool_stop(struct send_pool *pool);

/* To failed/, for an attachment that it binds will never be in the pool. The item is claimed. */
void send_fail_lost(struct outbox *outbox, struct item *item);

#endif
