/* SPDX-License-Identifier: MIT */
/*
 * How items change: the state behind `struct outbox`, claims, transitions, and what messages need of
 * attachments.
 *
 * Model. Who wants to change an item *claims* it first: one thread at a time has the claim. Then it makes a
 * *transition*: it takes a copy of the envelope, edits it, and commits it. Committing reserves in memory all
 * that the new state needs (its name, its place in the queue), writes the envelope durably, and lets memory
 * follow. Where the disk refuses, nothing has happened; unless the transition is *forced*, for then it
 * records what has happened already (the service answered): memory follows, and the envelope is written again
 * later.
 *
 * A message *binds* the attachments that its text names: their content at the moment of its hand-in. It holds
 * a *pin* on each until it is settled, and the content stays for as long, even if its file is removed or
 * replaced.
 *
 * `_locked`: the caller holds outbox->lock. All others take it, and wait for the disk where they say so. With
 * the lock held nobody waits for the disk, the network or another layer. docs/OUTBOX.md has the order of all
 * locks.
 */
#ifndef INBOXFS_OUTBOX_TRANSITION_H
#define INBOXFS_OUTBOX_TRANSITION_H

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

/* ================================================================ the outbox in memory, claims, events */

struct send_pool;
struct outbox_handle;

/* Handles that are closed and not yet released (handle.h), in order of closing. All zeros is an empty list.
 */
struct pending_releases {
    struct outbox_handle *first;
    struct outbox_handle *last;
    uint64_t count; /* of closes so far */
};

struct outbox {
    struct outbox_config config; /* default_from is owned */
    struct spool *spool;
    struct send_pool *pool;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* an item changed, or its claim ended */
    struct sleepers idle_workers;
    struct item_table table; /* protected by lock, like all below */
    struct send_queue queue;
    struct quota quota;
    struct suspension suspensions[2]; /* by kind of item: what keeps messages back does not keep files from
                                         being uploaded */
    uint64_t failures;                /* counted, so that a barrier knows what is new */
    unsigned int unsaved;             /* items whose envelope on disk is old */
    int64_t save_again_ms;
    unsigned int memories;                       /* items of item_remembers_key() */
    uint64_t last_order;                         /* the greatest of all items */
    struct pending_releases pending_releases[2]; /* by kind */
    unsigned int events_due;                     /* settled items whose event is not published yet */
    struct item *loose_ends;                     /* see "loose ends" below; referenced */
    bool is_stopping;
};

int64_t outbox_monotonic_ms(const struct outbox *outbox);
int64_t outbox_realtime_ms(const struct outbox *outbox);

/* Whether a send of unknown outcome may be repeated with its key. Does not wait. */
bool outbox_trusts_keys(const struct outbox *outbox);

/* Wakes those who wait for an item. */
void outbox_broadcast_locked(struct outbox *outbox);
void outbox_wake_worker_locked(struct outbox *outbox);
void outbox_wake_workers_locked(struct outbox *outbox);

/* Makes the caller the only one who changes the item, until claim_release_locked(). Waits for others who have
 * it for the disk, and for an upload, which is called off: it can be made again. 0, -EBUSY: the message is at
 * the service; -ENOENT: it was removed meanwhile. Holds a reference. */
int claim_take_locked(struct outbox *outbox, struct item *item, enum item_claim claim);
void claim_release_locked(struct outbox *outbox, struct item *item);
/* The same for a claim that was taken under this very hold of the lock. Nobody has seen it, so who waits
 * for the item is not woken: several that try in turn, and wait, would wake one another without end. A worker
 * is, where the item is queued. */
void claim_undo_locked(struct outbox *outbox, struct item *item);

/* Of a message that is claimed for the service: while that is waited for, its claimant reads nothing of
 * the envelope, and another may change its name. claim_take_back() waits for who does. */
void claim_lend(struct outbox *outbox, struct item *item);
void claim_take_back(struct outbox *outbox, struct item *item);
/* 0; -EAGAIN: not lent at this moment, but soon. Holds a reference. */
int claim_borrow_locked(struct item *item);
void claim_give_back_locked(struct outbox *outbox, struct item *item);
/* As claim_undo_locked(). */
void claim_undo_borrowing_locked(struct item *item);
/* Whether claim_take_locked() would wait now. A caller that must not wait holding another claim waits for
 * `changed` and asks again. Asking calls an upload off. */
bool claim_would_wait_locked(struct item *item);
void claim_release(struct outbox *outbox, struct item *item);

/* The item's name in the folder, which it has left, goes on answering for a while to the process that wrote
 * it. */
void outbox_add_former_name_locked(struct outbox *outbox, enum outbox_folder folder, const char *name,
                                   const struct item *item);

/* `name`, or with a number where that is taken in outbox/ at this moment (item_table_choose_name()). The
 * caller frees; NULL without memory. */
char *outbox_choose_name(struct outbox *outbox, const char *name);

/* Publishes an event. No lock may be held. `name` in `folder` makes the path. */
void outbox_notify(struct outbox *outbox, enum event_kind kind, enum outbox_folder folder, const char *name,
                   const char *id, const char *error);
void outbox_notify_path(struct outbox *outbox, enum event_kind kind, const char *path, const char *id,
                        const char *error);

/* ================================================================ transitions */

/* The pins of a message that is just being handed in. */
struct binding {
    struct item **items;
    size_t len;
};

struct transition {
    struct outbox *outbox;  /* borrowed */
    enum item_state state;  /* the next one */
    struct envelope next;   /* the next one; `state` is filled in when it is saved */
    struct binding binding; /* of a message that is queued: moves into the item */
    struct item *replaced;  /* shown under the new name until now, claimed by the caller: becomes hidden; or
                               NULL */
    bool is_forced;         /* it has happened already (the service answered): memory follows even where the
                               disk fails; the envelope is written again later */
    bool is_own_doing;      /* nobody asked for it in a system call: names that leave can still be found for
                               a while, and the listener is called */

    /* set while it is committed */
    enum outbox_folder reserved_folder; /* or OUTBOX_FOLDER_NONE */
    struct sequence *sequence;
    size_t receipt_bytes;
    bool is_unsaved;
};

/* The item's envelope as it is now, to be edited. The item is claimed. 0 or -ENOMEM. */
int transition_begin(struct outbox *outbox, const struct item *item, enum item_state state,
                     struct transition *ret_transition);
/* The same of a settled item, in its state, from the envelope on disk: memory has dropped the request.
 * Waits for the disk. */
int transition_begin_settled(struct outbox *outbox, const struct item *item,
                             struct transition *ret_transition);
/* Writes the name of the next state into the envelope. For a caller that does not use transition_save(). */
void transition_stamp(struct transition *transition);
/* Releases a transition that was begun, whether it was committed or not. */
void transition_release(struct transition *transition);
#define _cleanup_transition_ _cleanup_(transition_release)

/* Reserves, saves and applies. The item is claimed, the lock not held. Waits for the disk. In sent/ and
 * failed/ a name that is taken gets a number. 0, -EEXIST, -ENOMEM, or an error of the disk. */
int transition_commit(struct transition *transition, struct item *item);

/* The same in steps, for a new item: reserve, save, give it its content, and add it to the table. */
int transition_reserve_locked(struct transition *transition, const struct item *item);
int transition_save(struct transition *transition, struct item *item);
int transition_add_locked(struct transition *transition, struct item *item);

/* Hides an item durably, for the messages that need it. It is claimed, the lock not held. Waits for the disk.
 */
int transition_hide(struct outbox *outbox, struct item *item);
/* The same of an item whose name another has taken. Where the disk refuses, that is logged: the next start
 * finds two items of one name, and hides the older. */
void transition_hide_replaced(struct outbox *outbox, struct item *item);

/* Before the content or the envelope of an item goes: removes the files of the message that it supersedes, of
 * which its envelope alone says that it is not to be sent. Where the disk let that one go, nothing is to be
 * done. Else it is hidden, and waits for removal_collect(); its claim is not needed, for nothing else becomes
 * of it. Waits for the disk. */
int transition_remove_superseded(struct outbox *outbox, const struct item *item);

/* Removes the item, and first what it supersedes, from the spool and from memory. Where the disk fails once
 * the content is gone, the item is hidden and on hold, and removal_collect() removes the rest. It is claimed,
 * the lock not held. Waits for the disk. 0, -EBUSY, -ENOMEM, or of the disk: the content is there. */
int transition_remove(struct outbox *outbox, struct item *item);
/* The same of a message that must not be sent, whatever the disk says: where it does not let the message go,
 * it is hidden and on hold, for removal_collect(). 0 or -ENOMEM. */
int transition_discard(struct outbox *outbox, struct item *item);

/* Writes one of the envelopes that the disk did not take before; whether there was one, and the disk took it.
 * Waits for the disk. */
bool transition_save_again(struct outbox *outbox);

/* ================================================================ bindings */

/* Pins the attachments of these names, writes them into the envelope, and adds up their sizes. Waits for
 * those whose files are changing. Of one that is open for writing a copy is bound. No lock may be held, and
 * no claim of an attachment. 0, -ENODATA (*ret_missing: which), -ENOMEM, or of the disk; what was pinned is
 * in *ret in any case. */
int binding_pin(struct outbox *outbox, char *const *names, size_t len, struct envelope *envelope,
                struct binding *ret, int64_t *ret_bytes, const char **ret_missing);
/* Finds what the envelope of a recovered message bound, and pins it: directly into the item. 0 or -ENOMEM. */
int binding_recover_locked(struct outbox *outbox, struct item *message);
/* Unpins all that an item has bound. */
void binding_unpin_item_locked(struct outbox *outbox, struct item *message);

/* Before the content or the name of an attachment that messages bind is changed: a copy of it, an item of its
 * own in the same state, takes the name. The item is hidden, and goes on serving its messages until they are
 * settled. It is claimed, the lock is not held. Waits for the disk. -ESTALE: done, and the caller's caller,
 * the kernel, looks the name up once more. Any other error: nothing has changed. */
int binding_leave_name(struct outbox *outbox, struct item *item);

/* ---- loose ends: items about which something has to be done. They are
 * - unneeded: hidden, and no message and no writer needs it: it is removed;
 * - lost: a message needs it, and it will never be in the pool: the message fails.
 * Both follow from state, is_hidden, users and writers. State and is_hidden change under a claim alone. So
 * the item is checked whenever a claim, a pin or a writer leaves it, and nothing else has to be remembered.
 * The workers tie up loose ends by themselves. */

/* Puts the item into the list or takes it out, and wakes a worker if there is something to do. */
void binding_check_locked(struct outbox *outbox, struct item *item);
/* Whether a message needs the item. The lock is not held. While the item is claimed, false stays false. */
bool binding_is_needed(struct outbox *outbox, const struct item *item);
/* Whether removal_collect() has something to do now; else *ret_until_ms is brought forward to when it may. */
bool binding_must_collect_locked(const struct outbox *outbox, int64_t now_ms, int64_t *ret_until_ms);
/* A message that has to fail for what it binds, and that nobody has claimed; or NULL. */
struct item *binding_find_failing_locked(const struct outbox *outbox);

/* When the outbox is freed. The next start finds them again. */
void binding_forget_loose_ends(struct outbox *outbox);

/* ================================================================ named ends */

/* All wait for the disk. The item is claimed by the caller and stays so; the lock is not held. What the
 * service did cannot be undone by a disk that fails: these transitions are forced. */

/* To failed/, in one of the states of failure, for this reason. `http_status`: 0: no answer. */
void settle_into_failed(struct outbox *outbox, struct item *item, enum item_state state, int http_status,
                        const char *words);
/* What was being written did not come to a good end: `interrupted`; or `held`, of a name that is never sent.
 */
void settle_interrupted(struct outbox *outbox, struct item *item, const char *words);
/* The service took the message. `id` may be NULL. */
void settle_sent(struct outbox *outbox, struct item *item, int http_status, const char *id);
/* The file is in the pool. */
void settle_uploaded(struct outbox *outbox, struct item *item, int http_status, const char *id);
/* Nothing is decided: it waits in the queue again. The caller sets when it is tried again. */
void put_back_in_queue(struct outbox *outbox, struct item *item, int http_status, const char *words);

#endif
