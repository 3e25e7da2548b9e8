/* SPDX-License-Identifier: MIT */
/*
 * Open files of outbox/, sent/, failed/ and attachments/.
 *
 * Model. A handle is one open(2), of a content with a descriptor of its own, or of a receipt, which is a text
 * made at open. The functions to use handles are in outbox.h. Here is what other units need: to wait for
 * *pending releases*. The kernel releases a file after its last close(2) has returned, and the hand-in
 * happens at the release; so what a user does next may overtake it. A handle that was flushed and is not yet
 * released stands in a list, and who must come after it waits for it here. A release that has not begun
 * RELEASE_WAIT_MS after the close does not come soon: a shell closed a duplicate and goes on.
 */
#ifndef INBOXFS_OUTBOX_HANDLE_H
#define INBOXFS_OUTBOX_HANDLE_H

#include "base/wait.h"
#include "mail/envelope.h"
#include "outbox/item.h"

struct outbox;

/* Waits until no handle of this kind that was closed before is on its way to its release: at most
 * RELEASE_WAIT_MS from the close until the release begins. 0, or -EINTR: cancelled. No claim may be held. */
int release_wait(struct outbox *outbox, enum envelope_kind kind, struct cancel *cancel);
/* The same before the item, or its name, changes: a message binds the attachments that are there when its
 * last writer closes it, so those closes come first. */
int release_wait_before_change(struct outbox *outbox, const struct item *item, struct cancel *cancel);

#endif
