/* SPDX-License-Identifier: MIT */
/*
 * What renames have in common: claims on the item that moves and on the one in its place, and waiting for
 * closes that are on their way.
 */
#ifndef INBOXFS_OUTBOX_NAMES_H
#define INBOXFS_OUTBOX_NAMES_H

#include "base/cancel.h"
#include "outbox/item.h"
#include "outbox/outbox.h"

/* What stands in the way of a rename onto a name: claims it into *ret_replaced when it may be replaced, NULL
 * when there is nothing. 0, -EEXIST (queued, or `is_exclusive`), -EBUSY (being written). The lock is held; it
 * must not be that a claim is waited for: -EAGAIN when it would be. */
int names_claim_target_locked(struct outbox *outbox, enum outbox_folder folder, const char *name,
                              bool is_exclusive, struct item **ret_replaced);

/* `name`, or with a number where that is taken at this moment (numbered_name.h). The caller frees; NULL
 * without memory. */
char *names_choose_free(struct outbox *outbox, enum outbox_folder folder, const char *name);

/* After a change that replaced an item: gives up the claim; what nobody needs is removed, and what messages
 * need is hidden durably. NULL-safe. Waits for the disk. */
void names_release_target(struct outbox *outbox, struct item *replaced);

/* closing_wait_before_change() for the item of this name, if there is one. */
int names_wait_released(struct outbox *outbox, enum outbox_folder folder, const char *name,
                        struct cancel *cancel);

#endif
