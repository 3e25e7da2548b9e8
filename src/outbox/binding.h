/* SPDX-License-Identifier: MIT */
/*
 * Which messages need which attachments. A message binds, when it is handed in, the content that each name
 * has then; that content is kept until no unsettled message needs it, even when its file is removed or
 * replaced.
 */
#ifndef INBOXFS_OUTBOX_BINDING_H
#define INBOXFS_OUTBOX_BINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outbox/item.h"

struct change;
struct outbox;

enum binding_state {
    BINDING_READY,     /* all are in the pool */
    BINDING_LOST,      /* one will never get there: the message fails */
    BINDING_UPLOADING, /* one is on its way */
    BINDING_WRITING,   /* one is still being written */
};

/* Of a message; the outbox's lock is held. */
enum binding_state binding_state(const struct item *message);
/* The name of an attachment that is lost, or NULL. */
const char *binding_find_lost(const struct item *message);

/* The pins of a message that is just being handed in. */
struct binding {
    struct item **items;
    size_t len;
};

/* Pins the attachments of these names, writes them into the envelope, and adds up their sizes. Waits for
 * those whose files are changing. 0, -ENODATA (*ret_missing: which), -ENOMEM. */
int binding_pin_locked(struct outbox *outbox, char *const *names, size_t len, struct envelope *envelope,
                       struct binding *ret, int64_t *ret_bytes, const char **ret_missing);
/* The message is queued: the pins are its own now. */
void binding_move_locked(struct binding *binding, struct item *message);
/* Finds what the envelope of a recovered message bound, and pins it: directly into the item. 0 or -ENOMEM. */
int binding_recover_locked(struct outbox *outbox, struct item *message);
/* Lets go. */
void binding_unpin_locked(struct outbox *outbox, struct binding *binding);
/* The same for what an item holds. */
void binding_unpin_item_locked(struct outbox *outbox, struct item *message);

/* Before the content of an attachment that messages bind is changed: gives them an item of their own with the
 * old content, hidden. The item is claimed, the lock is not held. Waits for the disk. `keep_bytes`: how much
 * of the content stays. `next`: a change of the item that is committed with it, or NULL. When either fails,
 * nothing has changed. */
int binding_split(struct outbox *outbox, struct item *item, off_t keep_bytes, struct change *next);

/* ---- loose ends: items about which something has to be done. They are
 * - unneeded: hidden, and no message and no writer needs it: it is removed;
 * - lost: a message needs it, and it will never be in the pool: the message fails.
 * Both follow from state, is_hidden, users and writers. State and is_hidden change under a claim alone. So
 * the item is looked at whenever a claim, a pin or a writer leaves it, and nothing else has to be remembered.
 * The workers tie up loose ends by themselves. */

/* Puts the item into the list or takes it out, and wakes a worker if there is something to do. */
void binding_look_locked(struct outbox *outbox, struct item *item);
/* Whether it is hidden and nobody needs it. The lock is held. */
bool binding_is_unneeded(const struct item *item);
/* Whether a message needs it. The lock is not held; with the item claimed, yes may become no, not no yes. */
bool binding_is_needed(struct outbox *outbox, const struct item *item);
/* Whether binding_collect() has something to do now; else *ret_until_ms is brought forward to when it may. */
bool binding_must_collect_locked(const struct outbox *outbox, int64_t now_ms, int64_t *ret_until_ms);
/* A message that has to fail for what it binds, and that nobody has claimed; or NULL. */
struct item *binding_find_failing_locked(const struct outbox *outbox);

/* At the end of the outbox: they are for the next start. */
void binding_forget_loose_ends(struct outbox *outbox);

/* Removes what is unneeded. No lock, no claim may be held. Waits for the disk; where that fails, it is tried
 * again later. */
void binding_collect(struct outbox *outbox);

#endif
