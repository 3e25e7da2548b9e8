/* SPDX-License-Identifier: MIT */
/*
 * Transitions.
 */
#ifndef INBOXFS_OUTBOX_TRANSITION_H
#define INBOXFS_OUTBOX_TRANSITION_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/sleepers.h"
#include "outbox/item.h"
#include "outbox/outbox.h"
#include "outbox/send_queue.h"
#include "outbox/spool.h"

/* ================================================================ what the parts share */

struct worker_set;
struct outbox_handle;

enum {
    GHOST_MS = 10 * 1000,       /* how long a name that left is still found */
    RELEASE_WAIT_MS = 2 * 1000, /* for handles that are flushed and not yet released */
    SETTLE_WAIT_MS = 10 * 1000, /* the longest barrier */
    SAVE_AGAIN_MS = 10 * 1000,  /* until an envelope that could not be written is tried again */
};

/* All zeros is an empty list. In order of closing. */
struct closing_list {
    struct outbox_handle *first;
    struct outbox_handle *last;
    uint64_t count; /* of closes so far */
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

/* The item's name in the folder, which it has left, goes on answering for a while to the process that wrote
 * it. */
void core_leave_ghost_locked(struct outbox *outbox, enum outbox_folder folder, const char *name,
                             const struct item *item);

/* `name`, or with a number where that is taken at this moment (numbered_name_find()). The caller frees; NULL
 * without memory. */
char *outbox_choose_name(struct outbox *outbox, enum outbox_folder folder, const char *name);

/* What is told to the world. No lock may be held. `name` in `folder` makes the path. */
void core_tell(struct outbox *outbox, enum event_kind kind, enum outbox_folder folder, const char *name,
               const char *id, const char *error);
void core_tell_path(struct outbox *outbox, enum event_kind kind, const char *path, const char *id,
                    const char *error);

/* ================================================================ transitions */

struct outbox;

/* The pins of a message that is just being handed in. */
struct binding {
    struct item **items;
    size_t len;
};

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

/* Writes one of the envelopes that the disk did not take before. Waits for the disk. */
void change_save_again(struct outbox *outbox);

/* ================================================================ bindings */

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

/* Pins the attachments of these names, writes them into the envelope, and adds up their sizes. Waits for
 * those whose files are changing. 0, -ENODATA (*ret_missing: which), -ENOMEM. */
int binding_pin_locked(struct outbox *outbox, char *const *names, size_t len, struct envelope *envelope,
                       struct binding *ret, int64_t *ret_bytes, const char **ret_missing);
/* Finds what the envelope of a recovered message bound, and pins it: directly into the item. 0 or -ENOMEM. */
int binding_recover_locked(struct outbox *outbox, struct item *message);
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

/* ================================================================ ends */

struct outbox;

/* To failed/, in one of the states of failure, for this reason. `http_status`: 0: no answer. */
void settle_failed(struct outbox *outbox, struct item *item, enum item_state state, int http_status,
                   const char *words);
/* What was being written did not come to a good end: `interrupted`; or `held`, of a name that is never sent.
 */
void settle_interrupted(struct outbox *outbox, struct item *item, const char *words);
/* The service took the message. `id` may be NULL. */
void settle_sent(struct outbox *outbox, struct item *item, int http_status, const char *id);
/* The file is in the pool. */
void settle_uploaded(struct outbox *outbox, struct item *item, int http_status, const char *id);
/* Back to where it waits; until when is not said here. */
void settle_later(struct outbox *outbox, struct item *item, int http_status, const char *words);

#endif
