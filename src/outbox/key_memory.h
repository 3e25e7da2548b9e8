/* SPDX-License-Identifier: MIT */
/*
 * Idempotency keys of content that went from failed/ (or a queue that had tried it) back to drafts/: when the
 * same content is handed in again, it takes its key over, once. A memory is an item without content, in the
 * state ITEM_DRAFTED.
 */
#ifndef INBOXFS_OUTBOX_KEY_MEMORY_H
#define INBOXFS_OUTBOX_KEY_MEMORY_H

#include <stdbool.h>

#include "outbox/item.h"

struct outbox;

/* Whether an item that is taken out must be remembered. */
bool key_memory_is_needed(const struct item *item);
/* The memory of this content, claimed for the disk, or NULL. The lock is held. */
struct item *key_memory_claim_locked(struct outbox *outbox, const char *digest);
/* It was taken over: removes it. Waits for the disk. Consumes the claim. */
void key_memory_forget(struct outbox *outbox, struct item *memory);
/* Drops the oldest beyond a bound. Waits for the disk. */
void key_memory_prune(struct outbox *outbox);

#endif
