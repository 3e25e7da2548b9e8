/* SPDX-License-Identifier: MIT */
/*
 * The check of an item at its hand-in: the content is a message, the sender is known, the attachments exist,
 * the sizes are allowed, and the idempotency key belongs to the content. Content and name decide the new
 * state.
 *
 * Use: the caller calls accept_prepare() or accept_check(). On success the caller commits the change. In any
 * case the caller calls change_release().
 */
#ifndef INBOXFS_OUTBOX_ACCEPT_H
#define INBOXFS_OUTBOX_ACCEPT_H

#include <stddef.h>

#include "outbox/change.h"

/* Begins the hand-in of a new or claimed item as `name`, checks the content, and sets the new state:
 * ITEM_QUEUED or ITEM_UPLOADING. An empty file and a never-sent name are not checked and stay ITEM_WAITING. A
 * message also stays ITEM_WAITING if an attachment that it names is still being written (sets
 * change->awaits). Waits for the disk, and some seconds for the service if the sender is no known inbox.
 * Returns 0; the disk's error; or an errno of the filesystem contract with its text (the caller frees
 * *ret_reason). */
int accept_check(struct outbox *outbox, struct item *item, const char *name, const char *bytes, size_t len,
                 struct change *ret, char **ret_reason);

/* Reads the content of a claimed item, and calls accept_check(). Returns 0; -EMSGSIZE: the content is too
 * long; an error of accept_check(); or the disk's error. */
int accept_prepare(struct outbox *outbox, struct item *item, const char *name, struct change *ret,
                   char **ret_reason);

/* Writes the digest of the content and of row->reply_template, because one text in answer to two emails is
 * two messages. */
void accept_digest(const struct row *row, const char *bytes, size_t len, char ret_digest[ITEM_DIGEST_SIZE]);

/* Returns the length of the longest content of an item of this kind, in bytes. */
size_t accept_max_bytes(enum item_kind kind);

#endif
