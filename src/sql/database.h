/* SPDX-License-Identifier: MIT */
/*
 * A database: an SQLite file with a write-ahead log, one connection that writes, and as many that read as are
 * needed at once.
 *
 * A reader sees one state of the data, from begin to end, and waits for nobody. Writers take turns. A turn
 * that ends while other threads wait for theirs leaves its transaction open to the next one; the last of them
 * commits for all, with one fsync, and only then does any of them return. So each turn sees what the turns
 * before it wrote, is undone by itself, and becomes durable together with them or not at all.
 *
 * The file is made (0600) when it is missing. The steps of its format bring an older one up to date, in one
 * transaction: after step n SQLite's user_version is n. A database that is *expendable* holds what can be
 * fetched again: where the file is damaged, foreign or of a newer version, it is renamed to NAME.set-aside,
 * with words in the log, and a new one is made. Its commits do not wait for the disk; a power cut may undo
 * the last ones.
 *
 * DATABASE_ALONE maps no file: who opens the file from another process meets a lock until it is closed.
 * Shared, SQLite maps NAME-shm, and a program of the same user that truncates that file ends this process
 * with SIGBUS.
 */
#ifndef INBOXFS_SQL_DATABASE_H
#define INBOXFS_SQL_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/wait.h"
#include "sql/query.h"

struct database;

enum database_sharing {
    DATABASE_SHARED, /* with other processes */
    DATABASE_ALONE,  /* this process's until it is closed */
};

struct database_step {
    const char *sql;
    int (*run)(sqlite3 *db); /* after `sql`, in the same transaction; or NULL */
};

struct database_format {
    const char *name; /* of the file */
    const struct database_step *steps;
    size_t steps_len;
    const char *const *statements; /* of each connection, by number (struct statements); or NULL */
    const char *pragmas;           /* statements that are run on each new connection; or NULL */
    bool is_expendable;
};

struct connection {
    sqlite3 *db;
    struct statements statements;
};

/* Opens the database in the directory `dir_fd` (waits for the disk). 0; -EPROTO: a newer program made it;
 * -EUCLEAN: it is damaged or foreign (both only where it is not expendable); -EBUSY: it is another process's
 * alone (after some seconds); or -errno. */
int database_open(int dir_fd, const struct database_format *format, enum database_sharing sharing,
                  struct database **ret_database);

/* No turn may be open, and no reader. NULL-safe. Waits for the disk. */
void database_free(struct database *database);
DEFINE_CLEANUP_FREE(database)

/* All below may be called from any thread.
 *
 * Begins a read transaction: everything that is read until database_end_read() is of one moment. 0 or -errno.
 */
int database_begin_read(struct database *database, struct connection **ret_connection);
void database_end_read(struct database *database, struct connection *connection);

/* Takes a connection for single statements, without a transaction (cheaper). 0 or -errno. */
int database_take_reader(struct database *database, struct connection **ret_connection);
void database_return_reader(struct database *database, struct connection *connection);

/* Waits for the turn to write, which the same thread ends with database_end_write(). In between it may not
 * call database_begin_read(). 0, or -errno: it has no turn. */
int database_begin_write(struct database *database, struct connection **ret_connection);

/* Ends the turn: commits what was written in it, or undoes it where `error` is set. Returns once everything
 * that was visible in the turn is committed, the writes of other turns too (durably, unless expendable). 0;
 * `error`; or another -errno: nothing of this turn happened, but for -EIO and its like, when it is not known.
 */
int database_end_write(struct database *database, int error);

/* Sets an expendable database aside, whose data were found damaged, and makes a new one (waits for the turn,
 * for all readers, and for the disk). The caller has neither a turn nor a reader. 0 or -errno: every call
 * fails until this one is repeated with success. */
int database_renew(struct database *database);

/* Returns how often this process has committed. */
uint64_t database_commits(struct database *database);

/* Waits until this process has committed more often than `seen`: 0. -ETIMEDOUT: the monotonic clock shows
 * `until_ms`; -EINTR: cancelled. Commits of other processes wake nobody. */
int database_await_commit(struct database *database, uint64_t seen, int64_t until_ms, struct cancel *cancel);

#endif
