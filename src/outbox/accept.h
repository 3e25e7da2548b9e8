/* SPDX-License-Identifier: MIT */
/*
 * What must hold before something is accepted: content that is a message, a sender, attachments that exist,
 * sizes, and an idempotency key that belongs to the content. From the content and the name follows the state
 * it will have.
 *
 * Use: accept_prepare(), or accept_begin() and accept_check(); commit of the transition, accept_done(); and
 * accept_release() in any case.
 */
#ifndef INBOXFS_OUTBOX_ACCEPT_H
#define INBOXFS_OUTBOX_ACCEPT_H

#include <stddef.h>

#include "outbox/item.h"
#include "outbox/transition.h"

struct draft;

struct outbox;

struct acceptance {
    struct transition transition; /* as begun by the caller; filled in by accept_check() */
    struct item *memory;          /* whose idempotency key it takes over; claimed, or NULL */
};

/* Begins the hand-in of an item under this name. The item is new or claimed. 0 or -ENOMEM. */
int accept_begin(struct outbox *outbox, const struct item *item, enum envelope_kind kind, const char *name,
                 struct acceptance *ret);

/* Checks the content, whatever its length: nothing is demanded of what is never sent,
 * by its name or for being empty. Sets the state: ITEM_ON_HOLD, ITEM_QUEUED or ITEM_UPLOADING. Waits for the
 * disk (for a number). 0, or an errno of the filesystem contract with its words (the caller frees
 * *ret_reason). */
int accept_check(struct acceptance *acceptance, const char *bytes, size_t len, char **ret_reason);

/* Both, of an item that is claimed, whose content is read here. Waits for the disk. Errors as of both, or of
 * the disk. */
int accept_prepare(struct outbox *outbox, const struct item *item, enum envelope_kind kind, const char *name,
                   struct acceptance *ret, char **ret_reason);

/* What tells the content of a message from all others. The same words in answer to two emails are two
 * messages. */
void accept_digest(const struct envelope *envelope, const char *bytes, size_t len,
                   char ret_digest[ENVELOPE_DIGEST_SIZE]);

/* The transition was committed: a remembered key that was taken over is removed where it was. Waits for
 * the disk. */
void accept_done(struct acceptance *acceptance);

/* Releases an acceptance that was begun, whether it was committed or not. */
void accept_release(struct acceptance *acceptance);
#define _cleanup_acceptance_ _cleanup_(accept_release)

/* Longest content of an item of this kind, in bytes. */
size_t accept_max_bytes(enum envelope_kind kind);

/* What the envelope replies to comes with its key, and is not looked up: the receipt says so where the
 * message names an email all the same. 0 or -ENOMEM. */
int accept_keep_thread(struct envelope *next, const struct draft *draft);

#endif
