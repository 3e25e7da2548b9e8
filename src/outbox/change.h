/* SPDX-License-Identifier: MIT */
/*
 * The only way in which an item changes: reserve what the new state needs, make the new envelope durable,
 * then let memory follow. What the disk did not take has not happened, unless the change is forced.
 */
#ifndef INBOXFS_OUTBOX_CHANGE_H
#define INBOXFS_OUTBOX_CHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "outbox/binding.h"
#include "outbox/item.h"

struct outbox;

struct change {
    struct outbox *outbox;  /* borrowed */
    enum item_state state;  /* to be */
    struct envelope next;   /* to be; `state` in it is filled in */
    struct binding binding; /* of a message that is queued: moves into the item */
    struct item *replaced;  /* shown under the new name until now, claimed by the caller: becomes hidden; or
                               NULL */
    bool is_forced;         /* it has happened already (the service answered): memory follows even where the
                               disk fails; the envelope is written again later */
    bool is_own_doing;      /* nobody asked for it in a system call: names that leave can still be found for
                               a while, and the listener is told */

    /* of the change itself */
    int reserved_folder; /* -1: none */
    struct lane *lane;
    size_t receipt_bytes;
    bool is_unsaved;
};

/* The item's envelope as it is now, to be edited. The item is claimed. 0 or -ENOMEM. */
int change_begin(struct outbox *outbox, const struct item *item, enum item_state state,
                 struct change *ret_change);
/* The same of a settled item, in the state that it has; with what only the disk still has of it. Waits for
 * the disk. */
int change_begin_settled(struct outbox *outbox, const struct item *item, struct change *ret_change);
/* Writes the name of the state to be into the envelope, for who saves it otherwise than by change_save(). */
void change_stamp(struct change *change);
/* Of a change that was begun, done or not. */
void change_release(struct change *change);
#define _cleanup_change_ _cleanup_(change_release)

/* All of it. The item is claimed, the lock not held. Waits for the disk. In sent/ and failed/ a name that is
 * taken gets a number. 0, -EEXIST, -ENOMEM, or of the disk. */
int change_commit(struct change *change, struct item *item);

/* The same in steps, for changes whose content must move in between: reserve, save, (move,) apply. */
int change_reserve_locked(struct change *change, const struct item *item);
int change_save(struct change *change, struct item *item);
void change_apply_locked(struct change *change, struct item *item);

/* Removes the item from the spool and from memory. It is claimed, the lock not held. Waits for the disk. */
int change_remove(struct outbox *outbox, struct item *item);
/* The same from memory alone: its files are gone. */
void change_forget_locked(struct outbox *outbox, struct item *item);

/* Writes one of the envelopes that the disk did not take before. Waits for the disk. */
void change_save_again(struct outbox *outbox);

#endif
