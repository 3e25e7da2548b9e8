/* SPDX-License-Identifier: MIT */
/*
 * Which messages need which attachments. A message binds, when it is handed in, the content that each name
 * has then; that content is kept until no unsettled message needs it, even when its file is removed or
 * replaced.
 */
#ifndef INBOXFS_OUTBOX_BINDING_H
#define INBOXFS_OUTBOX_BINDING_H

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
/* Lets go; what nobody needs any more is for binding_collect(). */
void binding_unpin_locked(struct outbox *outbox, struct binding *binding);
/* The same for what an item holds. */
void binding_unpin_item_locked(struct outbox *outbox, struct item *message);

/* Before the content of an attachment that messages bind is changed: gives them an item of their own with the
 * old content, hidden. The item is claimed, the lock is not held. Waits for the disk. `keep_bytes`: how much
 * of the content stays. `next`: a change of the item that is committed with it, or NULL. When either fails,
 * nothing has changed. */
int binding_split(struct outbox *outbox, struct item *item, off_t keep_bytes, struct change *next);

/* Removes hidden attachments that nobody needs. No lock, no claim may be held. Waits for the disk. */
void binding_collect(struct outbox *outbox);

#endif
