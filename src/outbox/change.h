/* SPDX-License-Identifier: MIT */
/*
 * How items change: claims, and changes.
 *
 * Model. A thread that wants to change an item *claims* the item first; one thread at a time has the claim.
 * The thread then makes a *change*: it copies the row, edits the copy, and commits it, alone or with changes
 * of other items that it has claimed. A commit reserves the new names in memory, saves the rows in one turn,
 * updates the items in memory, and removes contents that no row has any more. If the disk fails, nothing has
 * changed. A *forced* change records an event that cannot be undone (the service answered): if the disk
 * fails, the items in memory are updated all the same, and the row is saved again later.
 *
 * A function waits for the disk if its comment says so.
 */
#ifndef INBOXFS_OUTBOX_CHANGE_H
#define INBOXFS_OUTBOX_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outbox/outbox_private.h"

/* ================================================================ claims */

/* Claims the item: no other thread changes it until claim_release_locked(), which drops the claim's
 * reference. CLAIM_DISK waits while another thread has claimed the item for the disk or binds its content,
 * and for an upload, which it cancels (an upload can be repeated). CLAIM_SERVICE does not wait; the item must
 * be unclaimed. Returns 0; -EBUSY: the message is at the service; -ENOENT: the item was removed. */
int claim_take_locked(struct outbox *outbox, struct item *item, enum item_claim claim);
void claim_release_locked(struct outbox *outbox, struct item *item);
void claim_release(struct outbox *outbox, struct item *item); /* NULL-safe */
/* Returns true if claim_take_locked() would wait now. Cancels an upload of the item. A caller that has
 * another claim releases it, waits for outbox->changed, and calls again. */
bool claim_would_wait_locked(struct item *item);

/* ================================================================ changes */

struct change {
    struct item *item; /* claimed, or new (ITEM_GONE); NULL if nothing changes */
    struct row next;   /* the new row, owned; ITEM_GONE if the item is removed; after a commit the old row */
    const char *request; /* in ITEM_SENDING, the request to record, borrowed; NULL if it is too long */
    bool is_forced;      /* the service answered already: the item in memory is updated even if the disk
                            fails. Only of a change that is committed alone */
    const struct piece *pooled; /* a file that the pool now has, borrowed; or NULL */
    uint64_t awaits; /* in ITEM_WAITING, the number of the unfinished attachment (schedule.awaits); else 0 */

    /* Makes, or moves in, a new item's content after its row is saved and before it is shown; or NULL. */
    int (*place)(void *context);
    void *context;

    /* set by the steps of a commit */
    enum outbox_folder reserved; /* the folder in which next.name is reserved, or OUTBOX_FOLDER_NONE */
    bool is_unsaved;
};

/* Begins a change of a claimed item to `state`, with a copy of its row. The caller calls change_release(). */
void change_begin(struct change *change, struct item *item, enum item_state state);
/* Releases a change, committed or not, or all zeros. Removes the contents that were made for the pieces of an
 * uncommitted change. Waits for the disk. */
void change_release(struct outbox *outbox, struct change *change);

/* Commits all changes in one turn, or none. If the first change has `place`, a second turn saves the others,
 * after the content is placed: if only that turn fails, the next start repeats it (row.replaces). The caller
 * holds no lock. Waits for the disk. In sent/ and failed/, and for a new reply, a taken name gets a number.
 * Returns 0; -EEXIST: another item, which no change removes, has the name; -EPERM: item.c forbids the new
 * state; an error of `place`; or the disk's error. */
int change_commit(struct outbox *outbox, struct change *changes, size_t len);

/* Removes a claimed item, whose content may be moved out already, and keeps the claim. Waits for the disk.
 * Returns 0; or the disk's error: the item is unchanged, or removed in a way that a power cut may undo. */
int change_remove(struct outbox *outbox, struct item *item);

/* Tries to save one unsaved row. Waits for the disk. Returns true if a row was saved. */
bool change_save_again(struct outbox *outbox);

/* Appends the receipt of a row, with the request that was recorded at the last attempt. Waits for the disk.
 * Returns 0, the disk's error, or the buffer's. */
int outbox_format_receipt(struct outbox *outbox, const struct row *row, struct strbuf *out);
/* Sets row->receipt_bytes. Waits for the disk. */
int outbox_measure_receipt(struct outbox *outbox, struct row *row);

/* ---------------------------------------------------------------- settling */

/* The caller has claimed the item, keeps the claim, and holds no lock. All but the first wait for the disk.
 * The changes are forced, because a failure of the disk cannot undo what the service did. */

/* Begins a forced change, which the caller edits, commits and releases. */
void change_begin_settling(struct change *change, struct item *item, enum item_state state, int http_status,
                           const char *reason);
/* Changes the state and records the reason: a state of failed/ causes an event; for a state of the queue the
 * caller sets the time of the next attempt. An interrupted item of a never-sent name stays in its folder, and
 * ITEM_FAILED becomes ITEM_UNKNOWN if the message may have been sent. `http_status` is 0 if there was no
 * answer. */
void settle_item(struct outbox *outbox, struct item *item, enum item_state state, int http_status,
                 const char *reason);
/* Records that the service took the message or the file. `id` may be NULL. */
void settle_accepted(struct outbox *outbox, struct item *item, int http_status, const char *id);
/* Records that the message may have been sent. If keys are trusted, queues the message to be repeated; else
 * makes it ITEM_UNKNOWN. `detail` explains that to the user, or is NULL. */
void settle_unknown(struct outbox *outbox, struct item *item, int http_status, const char *detail);

#endif
