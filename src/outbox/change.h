/* SPDX-License-Identifier: MIT */
/*
 * How items change: the state behind `struct outbox`, claims, and changes.
 *
 * Model. A thread that wants to change an item *claims* it first; one thread at a time has the claim. Then it
 * makes a *change*: it takes a copy of the row, edits it, and commits it, alone or with changes of other
 * items that it has claimed. Committing reserves in memory all that the new state needs (its name, its place
 * in the queue), saves the rows in one turn, lets memory follow, and removes contents that no row has any
 * more. If the disk refuses, nothing has changed. A *forced* change is different, for it records what has
 * happened already (the service answered): memory follows, and the row is saved again later.
 *
 * `_locked`: the caller holds outbox->lock. All others take it, and wait for the disk where they say so. With
 * the lock held nobody waits for the disk, the network or another layer. docs/OUTBOX.md has the order of all
 * locks.
 */
#ifndef INBOXFS_OUTBOX_CHANGE_H
#define INBOXFS_OUTBOX_CHANGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/wait.h"
#include "outbox/item.h"
#include "outbox/outbox.h"
#include "outbox/send_queue.h"
#include "outbox/spool.h"

/* ================================================================ the outbox in memory */

struct worker_threads;

enum {
    QUIET_MS = 2 * 1000, /* from the last close, or change of the name, to the hand-in */
};

struct outbox {
    struct outbox_config config; /* default_from is owned */
    struct spool *spool;
    struct worker_threads *threads;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* an item changed, or its claim ended */
    struct sleepers idle_workers;
    struct item_table table; /* protected by lock, like all below */
    struct send_queue queue;
    struct quota quota;
    struct suspension suspensions[ITEM_KINDS]; /* what keeps messages back does not keep files from being
                                                  uploaded */
    bool is_handing_in;      /* a worker hands in what was quiet; one at a time, to keep the order */
    uint64_t failures;       /* counted, so that a barrier knows what came after it began */
    unsigned int unsaved;    /* items whose row on the disk is old */
    int64_t save_again_ms;   /* monotonic; when these are tried again */
    uint64_t last_position;  /* the greatest of all items */
    unsigned int events_due; /* settled items whose event is not published yet */
    bool is_stopping;
};

int64_t outbox_monotonic_ms(const struct outbox *outbox);
int64_t outbox_realtime_ms(const struct outbox *outbox);

/* Returns true if a send of unknown outcome may be repeated with its key. Does not wait. */
bool outbox_trusts_keys(const struct outbox *outbox);

/* Somebody touched the item: where it waits to be handed in, its quiet time begins anew. Wakes a worker. */
void outbox_touch_locked(struct outbox *outbox, struct item *item);

/* Returns true if the attachment of this number is still being written. */
bool outbox_is_being_written_locked(const struct outbox *outbox, uint64_t number);

/* Before an attachment is changed, renamed or removed: hands in the messages that were closed before, and
 * waits for that, for they bind what was there. No claim may be held. Waits for the disk, and for the
 * workers. */
void outbox_hand_in_waiting(struct outbox *outbox);

/* Waits for the release of a file that was closed, which the kernel hands over after close(2) has returned; 2
 * s at most, for a program may have closed a duplicate. No claim may be held. */
void outbox_await_release(struct outbox *outbox, enum outbox_folder folder, const char *name);

#define WORDS_BUSY                                                                     \
    "it is being sent, or may have been sent: it cannot be changed until its outcome " \
    "is known"

/* Publishes an event. No lock may be held. `name` in `folder` makes the path. */
void outbox_notify(struct outbox *outbox, enum event_kind kind, enum outbox_folder folder, const char *name,
                   const char *id, const char *error);
void outbox_notify_path(struct outbox *outbox, enum event_kind kind, const char *path, const char *id,
                        const char *error);

/* Returns `name`, or with a number where that is taken in outbox/ at this moment. The caller frees; NULL
 * without memory. */
char *outbox_choose_name(struct outbox *outbox, const char *name);

/* ================================================================ claims */

/* Makes the caller the only one who changes the item, until claim_release_locked(). Waits for others who have
 * it for the disk, and for an upload, which is called off: it can be made again. Returns 0; -EBUSY: the
 * message is at the service; -ENOENT: it was removed meanwhile. Holds a reference. For CLAIM_SERVICE nobody
 * may have the claim, and it does not wait. */
int claim_take_locked(struct outbox *outbox, struct item *item, enum item_claim claim);
void claim_release_locked(struct outbox *outbox, struct item *item);
void claim_release(struct outbox *outbox, struct item *item);
/* Returns true if claim_take_locked() would wait now. A caller that must not wait holding another claim waits
 * for outbox->changed and asks again. Asking calls an upload off. */
bool claim_would_wait_locked(struct item *item);
/* Claims for the disk what has this name: *ret_item, with a reference. Returns 0, -ENOENT or -EBUSY. */
int claim_by_name(struct outbox *outbox, enum outbox_folder folder, const char *name, struct item **ret_item);

/* ================================================================ changes */

struct change {
    struct item *item;   /* claimed, or new; NULL: no change. A new one's reference becomes the table's */
    struct row next;     /* taken over. next.state ITEM_GONE: the item is removed */
    const char *request; /* of ITEM_SENDING: recorded with it; borrowed */
    bool is_new;         /* the item is in no table yet */
    bool is_forced;      /* it has happened already (the service answered): memory follows even where the disk
                            fails */
    bool is_own_doing;   /* nobody asked for it in a system call: the listener is called */
    bool is_counted;     /* the message is one more in the count of the day, next.quota_day */
    const struct piece *pooled; /* a file that is in the pool now; borrowed; or NULL */
    uint64_t awaits; /* of ITEM_WAITING: the attachment that is still being written (schedule.awaits) */

    /* set while it is committed */
    enum outbox_folder reserved; /* where next.name is reserved, or OUTBOX_FOLDER_NONE */
    bool is_unsaved;
};

/* Begins a change of an item that is claimed, from its row as it is now. Returns 0 or -ENOMEM. */
int change_begin(struct change *change, struct item *item, enum item_state state);
/* Releases a change that was begun, whether it was committed or not. All zeros are fine, too. Removes the
 * contents of pieces that were made for a change that was not committed (waits for the disk). */
void change_release(struct outbox *outbox, struct change *change);

/* Commits all of them in one turn, or none. No lock may be held. Waits for the disk. In sent/ and failed/ a
 * name that is taken gets a number. Returns 0, -EEXIST (a name is taken, by an item that is not removed
 * along), -ENOMEM, or of the disk. */
int change_commit(struct outbox *outbox, struct change *changes, size_t len);

/* The same in steps, for an item whose file is made or moved in before memory follows: reserved in memory;
 * durable; and shown. change_undo() takes back on the disk what made a new item durable. */
int change_reserve(struct outbox *outbox, struct change *changes, size_t len);
int change_save(struct outbox *outbox, struct change *changes, size_t len);
void change_apply(struct outbox *outbox, struct change *changes, size_t len);
void change_undo(struct outbox *outbox, const struct change *change);

/* Removes an item that is claimed; it keeps its claim. Waits for the disk. Returns 0, -ENOMEM, or of the
 * disk: then it is there as before. */
int change_remove(struct outbox *outbox, struct item *item);
/* The content of an item was moved out: it is removed whatever the disk says, for the next start finds its
 * row without content. */
void change_forget(struct outbox *outbox, struct item *item);

/* Saves one of the rows again that the disk did not take before. Waits for the disk. Returns true if there
 * was one, and the disk took it. */
bool change_save_again(struct outbox *outbox);

/* Appends the receipt of a row. Returns 0 or the buffer's error. */
int row_format_receipt(const struct row *row, const char *request, struct strbuf *out);

/* ---------------------------------------------------------------- named ends */

/* All wait for the disk. The item is claimed by the caller and stays so; the lock is not held. A
 * disk that fails cannot undo what the service did: these changes are forced. */

/* Begins such a change for a caller that edits it. Without memory for it nothing is to be changed: the item
 * stays as it is until the next start. Returns 0 or -ENOMEM; change_release() has to follow. */
int change_begin_end(struct change *change, struct item *item, enum item_state state, int http_status,
                     const char *words);
/* Changes the state for this reason: to one of those in failed/, with its event; or nothing is decided, and
 * it waits in the queue again, where the caller sets when it is tried. What is interrupted under a name that
 * is never sent stays where it is. `http_status`: 0: no answer. */
void settle_item(struct outbox *outbox, struct item *item, enum item_state state, int http_status,
                 const char *words);
/* The service took the message, or the file. `id` may be NULL. */
void settle_accepted(struct outbox *outbox, struct item *item, int http_status, const char *id);
/* The message's request may have left: it is repeated where keys are trusted; else its outcome is unknown.
 * `detail`: words, or NULL. */
void settle_unknown(struct outbox *outbox, struct item *item, int http_status, const char *detail);

#endif
