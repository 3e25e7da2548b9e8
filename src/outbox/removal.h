/* SPDX-License-Identifier: MIT */
/*
 * Removing items from the spool, and the idempotency keys that are remembered beyond that. All functions wait
 * for the disk but key_memory_is_needed().
 */
#ifndef INBOXFS_OUTBOX_REMOVAL_H
#define INBOXFS_OUTBOX_REMOVAL_H

#include <stdbool.h>

struct envelope;
struct item;
struct outbox;

/* ---------------------------------------------------------------- keys */

/* Whether the key of an item whose content goes must be remembered: it was tried, failed, or is on hold. */
bool key_memory_is_needed(const struct item *item);
/* Gives the envelope the remembered key of its digest, the email that what goes out under it replies to, and
 * the pool ids of its MIME parts.
 * *ret_memory: the item that remembers it, claimed, or NULL (nothing has changed): once the envelope is
 * durable it is handed to key_memory_forget(), else its claim is released. 0 or -ENOMEM. No lock may be held.
 * While another thread has claimed that item, there is none; `may_wait`: that is waited for. Only a caller
 * for whose own claim nobody waits may do that. */
int key_memory_take(struct outbox *outbox, struct envelope *next, bool may_wait, struct item **ret_memory);
/* The key was taken over. Consumes the claim. */
void key_memory_forget(struct outbox *outbox, struct item *memory);

/* ---------------------------------------------------------------- removing */

/* The content has left the spool: the envelope is removed, or kept to remember the key. Recovery does the
 * same to an envelope without content. The item is claimed. */
void removal_content_is_gone(struct outbox *outbox, struct item *item);
/* Removes the content, and keeps the envelope if that remembers a key. Where the disk fails once the content
 * is gone, nothing has failed. The item is claimed. 0 or of the disk. */
int removal_drop_content(struct outbox *outbox, struct item *item);

/* Removes what is unneeded (transition.h); of a backup the key is remembered. No lock, no claim may be held;
 * where the disk fails, it is tried again later. */
void removal_collect(struct outbox *outbox);

#endif
