/* SPDX-License-Identifier: MIT */
/*
 * Open files.
 */
#ifndef INBOXFS_OUTBOX_HANDLE_H
#define INBOXFS_OUTBOX_HANDLE_H

#include "base/cancel.h"
#include "mail/envelope.h"
#include "outbox/item.h"

struct outbox;

/* Waits until no handle of this kind that was closed before is on its way to its release: at most
 * RELEASE_WAIT_MS from the close until the release begins. 0, or -EINTR: cancelled. No claim may be held. */
int closing_wait(struct outbox *outbox, enum envelope_kind kind, struct cancel *cancel);
/* The same before the item, or its name, changes: a message binds the attachments that are there when its
 * last writer closes it, so those closes come first. */
int closing_wait_before_change(struct outbox *outbox, const struct item *item, struct cancel *cancel);

#endif
