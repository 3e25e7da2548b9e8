/* SPDX-License-Identifier: MIT */
/*
 * The local mirror of the account: inboxes and emails in memory, backed by the cache on disk. This is the
 * part that all others of the store stand on: what it holds, its locks, and who is told of changes.
 *
 * Two locks. Whoever changes anything holds `write_lock` throughout, and `read_lock` for writing only for the
 * moment in which readers could see half a change. Readers hold `read_lock` for reading; a writer may read
 * without it. Order: write_lock, read_lock; the locks of the file (state_file.h) after write_lock. Memory
 * work alone happens under read_lock; under write_lock records are written to the file and compared with it,
 * too. Nobody is told of anything while a lock is held.
 *
 * Names, ids and keys live as long as the mirror. Records do not: mirror_read_email() and mirror_read_inbox()
 * copy them.
 */
#ifndef INBOXFS_STORE_MIRROR_H
#define INBOXFS_STORE_MIRROR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "store/email_index.h"
#include "store/inbox_table.h"
#include "store/records.h"
#include "store/store.h"

struct search_feed;

struct mirror {
    struct clock *clock;
    struct store_listener listener;
    struct event_listener events;

    pthread_mutex_t write_lock;
    pthread_rwlock_t read_lock;

    struct records records;     /* protected by write_lock, but for reading texts */
    struct inbox_table inboxes; /* protected by both */
    struct email_index *emails; /* protected by both */
    int64_t inboxes_changed_ms; /* protected by both */
    bool shows_held;            /* protected by both: the service tells what it holds back */
    bool inboxes_are_listed;    /* protected by both: GET /inbox has answered in this mount */
    atomic_uint open_indexes;   /* snapshots that know records by the numbers of their texts */
    atomic_uint lost;           /* how often a record could not be read: lists are to be delivered whole again */
    uint32_t last_look;         /* protected by write_lock: numbers looks, see mirror_begin_look() */

    struct search_feed *search_feed; /* told of changes, too; NULL: none. Set once, before there are any */
};

/* As it was when the program last ran: loaded from `file` (borrowed; waits for the disk), which it uses from
 * then on. On failure it is to be released all the same. 0 or -ENOMEM. */
int mirror_open(struct mirror *mirror, struct clock *clock, const struct store_listener *listener,
                const struct event_listener *events, struct state_file *file, enum records_list list);
void mirror_release(struct mirror *mirror);

/* Makes a file anew that was found to be damaged; what is lost with it is found to be missing from then on (waits
 * for the disk). */
void mirror_repair(struct mirror *mirror);

/* Begins a transaction for changes to the file (records_begin()); when that was made anew, all that is known
 * is written to it first. With write_lock held. 0 or -errno. */
int mirror_begin_write_locked(struct mirror *mirror);

/* Writes what is known of an inbox, in a transaction. With write_lock held. 0 or -errno. */
int mirror_write_inbox_locked(struct mirror *mirror, const struct inbox *inbox);

/* The row that an email is in the file. `seen_ms`: when it last changed. */
struct email_row mirror_email_row(uint32_t number, const struct email_entry *entry, int64_t seen_ms);

/* A number for one look at the service, by which what it met is told from what it did not. Never 0. */
uint32_t mirror_begin_look(struct mirror *mirror);

/* What there was is known: mail in inboxes that appear from here on is news. */
void mirror_end_first_sync(struct mirror *mirror);

/* The service was asked for what it holds back, and answered: told once, as a change of every inbox. */
void mirror_note_held_shown(struct mirror *mirror);

/* A record could not be read: says so, once, and has the next complete look bring it back. */
void mirror_note_lost(struct mirror *mirror);

/* Deletes texts that were replaced, unless somebody holds on to them (waits for the disk). */
void mirror_give_back(struct mirror *mirror);

/* Tell whoever listens. With no lock held. `path` and `id` as in struct event. */
void mirror_tell_email(const struct mirror *mirror, uint32_t email, enum store_change change);
void mirror_tell_inbox(const struct mirror *mirror, uint32_t inbox, enum store_change change);
void mirror_tell_event(const struct mirror *mirror, enum event_kind kind, const char *path, const char *id,
                       const char *error);

#endif
