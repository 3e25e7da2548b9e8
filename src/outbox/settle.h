/* SPDX-License-Identifier: MIT */
/*
 * How an item's way ends, or begins again: what is recorded, who is told. The item is claimed by the caller
 * and stays so; the lock is not held. All wait for the disk.
 */
#ifndef INBOXFS_OUTBOX_SETTLE_H
#define INBOXFS_OUTBOX_SETTLE_H

#include "outbox/item.h"

struct outbox;

/* To failed/, in one of the states of failure, for this reason. `http_status`: 0: no answer. */
void settle_failed(struct outbox *outbox, struct item *item, enum item_state state, int http_status,
                   const char *words);
/* What was being written did not come to a good end: `interrupted`; or `held`, of a name that is never sent.
 */
void settle_interrupted(struct outbox *outbox, struct item *item, const char *words);
/* The service took the message. `id` may be NULL. */
void settle_sent(struct outbox *outbox, struct item *item, int http_status, const char *id);
/* The file is in the pool. */
void settle_uploaded(struct outbox *outbox, struct item *item, int http_status, const char *id);
/* Back to where it waits; until when is not said here. */
void settle_later(struct outbox *outbox, struct item *item, int http_status, const char *words);

#endif
