/* SPDX-License-Identifier: MIT */
/*
 * Changes to the emails of the mirror. Every call tells the listeners what it changed.
 */
#ifndef INBOXFS_STORE_MIRROR_EMAILS_H
#define INBOXFS_STORE_MIRROR_EMAILS_H

#include "mail/email_record.h"
#include "store/email_batch.h"
#include "store/mirror.h"

/* Takes over what changed of an email, or adds one: that is in `batch` from then on, which is flushed first
 * when there is no room in it, or what it holds has to be known before. A `mail` event tells of a new one,
 * unless its inbox is quiet. 0, -ENOENT (no such inbox), -EMSGSIZE, -EOVERFLOW, -ENOMEM. */
int mirror_put_email(struct mirror *mirror, struct email_batch *batch, uint32_t inbox,
                     const struct email_record *record, enum mirror_put *ret_put);

/* Removes what the inbox holds and `look`, which met all there is (what is held back, too, where
 * `with_held`), did not meet. */
void mirror_remove_unseen(struct mirror *mirror, uint32_t inbox, uint32_t look, bool with_held);

/* Whether an inbox other than the one that collects mail without an inbox has an email of this key. */
bool mirror_has_home(struct mirror *mirror, const char *key);

#endif
