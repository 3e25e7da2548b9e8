/* SPDX-License-Identifier: MIT */
/*
 * The outbox in memory, and what all its units do with it: ask for the time, wait for programs and workers,
 * publish events.
 *
 * The caller of a `_locked` function holds outbox->lock, that of any other function does not. No thread waits
 * for the disk, the network or another layer with the lock held. docs/OUTBOX.md has the order of all locks.
 */
#ifndef INBOXFS_OUTBOX_OUTBOX_PRIVATE_H
#define INBOXFS_OUTBOX_OUTBOX_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "outbox/item.h"
#include "outbox/outbox.h"
#include "outbox/send_queue.h"
#include "outbox/spool.h"

struct worker_threads;

struct outbox {
    struct outbox_config config;
    struct spool *spool;
    struct worker_threads *threads;

    pthread_mutex_t lock;
    pthread_cond_t changed;  /* an item changed, or its claim ended */
    struct item_table table; /* protected by lock, like all below */
    struct send_queue queue;
    bool is_handing_in;      /* a worker is handing in messages; one worker at a time, to keep the order */
    uint64_t failures;       /* number of failed items so far: shows a barrier which failures are later */
    unsigned int unsaved;    /* number of items whose row on the disk is outdated */
    int64_t save_again_ms;   /* monotonic; time of the next try to save the unsaved rows */
    uint64_t last_position;  /* the greatest position of all items */
    unsigned int events_due; /* settled items whose event is not published yet */
    bool is_stopping;
};

int64_t outbox_monotonic_ms(const struct outbox *outbox);
int64_t outbox_realtime_ms(const struct outbox *outbox);

/* Returns true if a send of unknown outcome may be repeated with its key. Does not wait. */
bool outbox_trusts_keys(const struct outbox *outbox);

/* Returns true if the attachment of this number is still being written. */
bool outbox_is_being_written_locked(const struct outbox *outbox, uint64_t number);

/* Hands in the messages that are closed now, so that they bind an attachment before the caller changes,
 * renames or removes it. The caller has no claim. Waits for the disk and for the workers. */
void outbox_hand_in_waiting(struct outbox *outbox);

/* Waits for the release of a closed file, which the kernel reports after close(2) has returned. Waits 2 s at
 * most, for the program may have closed a duplicate. The caller has no claim. */
void outbox_await_release(struct outbox *outbox, enum outbox_folder folder, const char *name);

#define REASON_BUSY "it is being sent, or may have been sent: it cannot be changed until its outcome is known"

/* Publishes an event about the path of `name` in `folder`. The caller holds no lock. */
void outbox_notify(struct outbox *outbox, enum event_kind kind, enum outbox_folder folder, const char *name,
                   const char *id, const char *error);
void outbox_notify_path(struct outbox *outbox, enum event_kind kind, const char *path, const char *id,
                        const char *error);

#endif
