/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the outbox share: the state behind `struct outbox`, its lock, and claims. Private to the
 * layer. docs/OUTBOX.md has the lock order; with `lock` held, nobody waits for the disk, the network or
 * another layer.
 */
#ifndef INBOXFS_OUTBOX_CORE_H
#define INBOXFS_OUTBOX_CORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sleepers.h"
#include "outbox/closing.h"
#include "outbox/gate.h"
#include "outbox/item_table.h"
#include "outbox/outbox.h"
#include "outbox/quota.h"
#include "outbox/send_queue.h"
#include "outbox/spool.h"

struct worker_set;

enum {
    GHOST_MS = 10 * 1000,       /* how long a name that left is still found */
    RELEASE_WAIT_MS = 2 * 1000, /* for handles that are flushed and not yet released */
    SETTLE_WAIT_MS = 10 * 1000, /* the longest barrier */
    SAVE_AGAIN_MS = 10 * 1000,  /* until an envelope that could not be written is tried again */
    NAME_MAX_BYTES = 255 - 13,  /* where NAME.receipt.json must fit beside it */
};

struct outbox {
    struct outbox_config config; /* default_from is owned */
    struct spool *spool;
    struct quota quota;
    struct worker_set *workers;

    pthread_mutex_t lock;
    pthread_cond_t changed;    /* something below changed: for those who wait for an item */
    struct sleepers idlers[2]; /* workers that wait for something to do, by kind of item */
    struct item_table table;   /* protected by lock, like all below */
    struct send_queue queue;
    struct gate gates[2]; /* by kind: a full day for messages does not keep files from being uploaded */
    uint64_t failures;    /* counted, so that a barrier knows what is new */
    uint64_t reported[OUTBOX_FOLDERS]; /* failures that a barrier has told of */
    unsigned int unsaved;              /* items whose envelope on disk is old */
    int64_t save_again_ms;
    unsigned int memories;          /* items in ITEM_DRAFTED */
    uint64_t last_order;            /* the greatest of all items */
    struct closing_list closing[2]; /* by kind */
    unsigned int untold;            /* items that are */
    struct item *loose_ends;        /* see binding.h; referenced */
    bool is_stopping;
};

int64_t core_monotonic_ms(const struct outbox *outbox);
int64_t core_realtime_ms(const struct outbox *outbox);

/* Whether a send of unknown outcome may be repeated with its key. Does not wait. */
bool core_trusts_keys(const struct outbox *outbox);

/* Wakes those who wait for an item. */
void core_broadcast_locked(struct outbox *outbox);
/* Wakes one worker, or all, to look for items of this kind. Who has just worked looks by itself. */
void core_wake_worker_locked(struct outbox *outbox, enum envelope_kind kind);
void core_wake_workers_locked(struct outbox *outbox, enum envelope_kind kind);

/* Makes the caller the only one who changes the item, until core_unclaim_locked(). Waits for others who have
 * it for the disk, and for an upload, which is called off: it can be made again. 0, -EBUSY: the message is at
 * the service; -ENOENT: it was removed meanwhile. Holds a reference. */
int core_claim_locked(struct outbox *outbox, struct item *item, enum item_claim claim);
void core_unclaim_locked(struct outbox *outbox, struct item *item);

/* Of a message that is claimed for the service: while that is waited for, its claimant looks at nothing in
 * the envelope, and another may change its name. core_take_back() waits for who does. */
void core_lend(struct outbox *outbox, struct item *item);
void core_take_back(struct outbox *outbox, struct item *item);
/* 0; -EAGAIN: not at this moment, but soon. Holds a reference. */
int core_borrow_locked(struct item *item);
void core_give_back_locked(struct outbox *outbox, struct item *item);
/* Whether that would wait now, for who must not: wait for `changed` instead, and look again. An upload is
 * called off by asking. */
bool core_must_wait_locked(struct item *item);
void core_unclaim(struct outbox *outbox, struct item *item);

/* The item of this name, claimed for the disk, or an error: -ENOENT, or of core_claim_locked(). */
int core_claim_name(struct outbox *outbox, enum outbox_folder folder, const char *name,
                    struct item **ret_item);

/* Whether the name may stand in this folder, outbox/ or attachments/. 0, -EPERM (a receipt's), -ENAMETOOLONG,
 * -EILSEQ (not UTF-8; of an attachment, whose name is sent in a header, also: a control character). */
int core_check_name(enum outbox_folder folder, const char *name);
bool core_is_receipt_name(const char *name);
/* Whether a file of this name is left alone for ever. The backup of a message would be sent as a second
 * message; a backup may well be what somebody wants to attach. */
bool core_is_never_sent(enum envelope_kind kind, const char *name);

/* The item's name in the folder, which it has left, goes on answering for a while to the process that wrote
 * it. */
void core_leave_ghost_locked(struct outbox *outbox, enum outbox_folder folder, const char *name,
                             const struct item *item);

/* What is told to the world. No lock may be held. `name` in `folder` makes the path. */
void core_tell(struct outbox *outbox, enum event_kind kind, enum outbox_folder folder, const char *name,
               const char *id, const char *error);
void core_tell_path(struct outbox *outbox, enum event_kind kind, const char *path, const char *id,
                    const char *error);

/* The item's end is told now: barriers may return. */
void core_told(struct outbox *outbox, struct item *item);

#endif
