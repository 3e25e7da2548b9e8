/* SPDX-License-Identifier: MIT */
/*
 * Handles that are closed and not yet released. The kernel releases after the last close(2) has returned, so
 * that what a user does next may overtake it; whoever must not, waits here. A handle that was closed and is
 * not released soon is a duplicate's: a shell's, that goes on writing. The outbox's lock is held (`_locked`),
 * or must not be; items are referenced by the caller.
 */
#ifndef INBOXFS_OUTBOX_CLOSING_H
#define INBOXFS_OUTBOX_CLOSING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"
#include "mail/envelope.h"
#include "outbox/item.h"

struct outbox_handle;

/* All zeros is an empty list. In order of closing. */
struct closing_list {
    struct outbox_handle *first;
    struct outbox_handle *last;
    uint64_t count; /* of closes so far */
};

/* A place in the list; of a handle. */
struct closing {
    struct outbox_handle *next;
    struct outbox_handle *previous;
    uint64_t number; /* of the close; 0: in no list */
    int64_t closed_ms;
    bool is_releasing;
};

/* A close(2); of one that was closed before, once more. */
void closing_add_locked(struct outbox_handle *handle);
/* The release has begun: it is waited for, however long the disk takes. */
void closing_begin_release_locked(struct outbox_handle *handle);
/* Written again, or released. */
void closing_remove_locked(struct outbox_handle *handle);

/* Waits until no handle of this kind that was closed before is on its way to its release: at most
 * RELEASE_WAIT_MS from the close until the release begins. 0, or -EINTR: cancelled. No claim may be held. */
int closing_wait(struct outbox *outbox, enum envelope_kind kind, struct cancel *cancel);
/* The same for the handles of this item alone. */
int closing_wait_item(struct outbox *outbox, const struct item *item, struct cancel *cancel);
/* The same before the item, or its name, changes: a message binds the attachments that are there when its
 * last writer closes it, so those closes come first. */
int closing_wait_before_change(struct outbox *outbox, const struct item *item, struct cancel *cancel);

#endif
