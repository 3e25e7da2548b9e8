/* SPDX-License-Identifier: MIT */
/*
 * A file of the state directory that is an SQLite database: what is known of the account (records.h), and
 * what is remembered of Maildirs (maildir_memory.h).
 *
 * The file is open once, for this process alone, with a write-ahead log beside it. Nothing of it is mapped:
 * what another program cuts off, or a disk cannot read, is an error of the call that needed it.
 *
 * Two locks. Whoever changes something holds the transaction from state_file_begin() to state_file_commit()
 * or _abandon(). Each single statement, a reader's too, takes the lock of the connection for as long as it
 * runs. So a reader may see what a transaction has written and not committed yet: who reads has to know from
 * elsewhere what there is.
 *
 * A new file of what can be fetched again may be filled without the log, which has each page written twice,
 * until state_file_end_filling(). A transaction is still done as a whole or not at all, but nothing is made
 * durable, and a program that is killed, or a power cut, may leave damage. The file's header says that it
 * uses no log: such a file is checked from end to end when it is next opened.
 *
 * A file that SQLite cannot make sense of, or that is not of this format, is set aside under another name
 * ("NAME.set-aside"), in words, and made anew: when it is opened, or by state_file_renew() or _replace() when
 * it was found damaged later. One that cannot be had at all (no such folder, no right to it, a disk that
 * fails) stays as it is, and every call fails with the error that kept it away.
 */
#ifndef INBOXFS_STORE_STATE_FILE_H
#define INBOXFS_STORE_STATE_FILE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sql/query.h"

struct state_file_format {
    const char *name; /* of the file */
    int version;      /* not 0 */
    const char *schema;
    const char *const *statements;
    int page_bytes;
    int log_pages;              /* so many in the log are taken over into the file */
    bool is_filled_without_log; /* a new one: state_file_end_filling() */
};

struct state_file {
    const struct state_file_format *format;
    char path[PATH_MAX];
    pthread_mutex_t transaction; /* taken before the next */
    pthread_mutex_t connection;
    sqlite3 *db;                  /* protected by connection, like what follows; NULL: it cannot be had */
    struct statements statements; /* of it */
    struct statements aside;      /* of the file that was set aside while it ran; .db is NULL: of none */
    int error;                    /* why it cannot be had */
    bool is_durable;              /* commits wait for the disk */
    bool is_filling;              /* without a log; set with both locks held */
    atomic_bool is_damaged;       /* SQLite said so since it was opened */
    atomic_uint generation;       /* how often it was made anew */
};

/* Opens or makes the file in `dir_fd` (waits for the disk). 0; -ENOMEM. The words are in the log when the
 * file cannot be had. */
int state_file_open(struct state_file *file, int dir_fd, const struct state_file_format *format);
/* All zeros are fine, too. Waits for the disk. */
void state_file_release(struct state_file *file);

/* Begins a transaction (waits for other threads' ones, and the disk). When it is committed, it is on the disk
 * if `is_durable`, else it may be lost in a power cut, as a whole. 0 or -errno: there is none. */
int state_file_begin(struct state_file *file, bool is_durable);
/* 0, or -errno: nothing of it happened. It is over in any case. */
int state_file_commit(struct state_file *file);
void state_file_abandon(struct state_file *file);

/* Makes a file durable that is being filled (waits for the disk), and uses a log from then on. Where that
 * fails, the file is being filled still. Within no transaction. */
void state_file_end_filling(struct state_file *file);

/* Runs a statement of the format to its end: statements_execute(). */
int state_file_execute(struct state_file *file, size_t statement, const char *types, ...);

/* For statements that have rows: sqlite3 and file->statements are the caller's between these. What fails with
 * -errno goes through state_file_note(), which returns it. */
void state_file_lock(struct state_file *file);
void state_file_unlock(struct state_file *file);
int state_file_note(struct state_file *file, int error);

/* Sets the file aside and makes a new one without anything in it. Within no transaction. What the old one
 * held can be read from then on by file->aside, as far as SQLite can: by a connection of its own, since
 * SQLite refuses to write in a transaction that met damage. 0 or -errno. */
int state_file_renew(struct state_file *file);

/* Tries again, where the new file could not be had. Within no transaction. */
void state_file_open_renewed(struct state_file *file);

/* The same where nothing may be lost: `fill` writes everything to the new file, in a durable transaction of
 * its own. Until that is on the disk the old file is kept as "NAME.damaged", and where `fill` fails, or the
 * program ends before, that is the file again, at once or when it is next opened; still damaged, that is.
 * Within no transaction. 0 or -errno. */
int state_file_replace(struct state_file *file, int (*fill)(void *context), void *context);

#endif
