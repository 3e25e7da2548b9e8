/* SPDX-License-Identifier: MIT */
/*
 * The check before something is accepted: content that is a message, a sender, attachments that exist,
 * sizes, and an idempotency key that belongs to the content. From the content and the name follows the state
 * that the item will have.
 *
 * Use: accept_prepare(), or accept_begin() and accept_check(); then the change is committed; and
 * change_release() in any case.
 */
#ifndef INBOXFS_OUTBOX_ACCEPT_H
#define INBOXFS_OUTBOX_ACCEPT_H

#include <stddef.h>

#include "outbox/change.h"

/* Begins the hand-in of an item under this name. The item is new or claimed. Returns 0 or -ENOMEM. */
int accept_begin(struct item *item, const char *name, struct change *ret);

/* Checks the content. Nothing is demanded of what is never sent, by its name or for being empty: it will wait
 * (ITEM_WAITING), and so will a message that names an attachment which is still being written (then
 * change->awaits is set). All others will be ITEM_QUEUED or ITEM_UPLOADING. Waits for the disk, and for some
 * seconds for the service where the sender is no inbox that is known. Returns 0, or an errno of the
 * filesystem contract with its words (the caller frees *ret_reason). */
int accept_check(struct outbox *outbox, struct change *change, const char *bytes, size_t len,
                 char **ret_reason);

/* Both, of an item that is claimed, whose content is read here. Errors as of both, or of the disk. */
int accept_prepare(struct outbox *outbox, struct item *item, const char *name, struct change *ret,
                   char **ret_reason);

/* Writes what tells the content of an item from all others. The same words in answer to two emails are two
 * messages. */
void accept_digest(const struct row *row, const char *bytes, size_t len, char ret_digest[ITEM_DIGEST_SIZE]);

/* Returns the length of the longest content of an item of this kind, in bytes. */
size_t accept_max_bytes(enum item_kind kind);

#endif
