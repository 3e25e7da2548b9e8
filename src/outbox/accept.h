/* SPDX-License-Identifier: MIT */
/*
 * Acceptance.
 */
#ifndef INBOXFS_OUTBOX_ACCEPT_H
#define INBOXFS_OUTBOX_ACCEPT_H

#include <stdbool.h>
#include <stddef.h>

#include "outbox/item.h"
#include "outbox/transition.h"

struct outbox;

struct hand_in {
    struct change change; /* as begun by the caller; filled in by hand_in_check() */
    struct item *memory;  /* whose idempotency key it takes over; claimed, or NULL */
};

/* Begins the hand-in of an item (new or not; claimed) under this name. A key that its envelope has is kept if
 * the content is still that of its digest. 0 or -ENOMEM. */
int hand_in_begin(struct outbox *outbox, const struct item *item, enum envelope_kind kind, const char *name,
                  struct hand_in *ret);

/* Checks the content, whatever its length: of what is held by its name or for being empty, nothing is
 * demanded. Sets the state: ITEM_HELD, ITEM_QUEUED or ITEM_UPLOADING. Waits for the disk (for a number). 0,
 * or an errno of the filesystem contract with its words (the caller frees *ret_reason). */
int hand_in_check(struct hand_in *hand_in, const char *bytes, size_t len, char **ret_reason);

/* The change was committed: the key that was taken over is forgotten elsewhere. Waits for the disk. */
void hand_in_done(struct hand_in *hand_in);

/* Of a hand-in that was begun, done or not. */
void hand_in_release(struct hand_in *hand_in);
#define _cleanup_hand_in_ _cleanup_(hand_in_release)

/* Longest content of an item of this kind, in bytes. */
size_t hand_in_max_bytes(enum envelope_kind kind);

/* ================================================================ keys */

struct outbox;

/* Whether an item that is taken out must be remembered. */
bool key_memory_is_needed(const struct item *item);
/* Drops the oldest beyond a bound. Waits for the disk. */
void key_memory_prune(struct outbox *outbox);

#endif
