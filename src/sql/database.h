/* SPDX-License-Identifier: MIT */
/*
 * A database is an SQLite file with a write-ahead log, one connection for writing, and as many connections
 * for reading as threads need at the same time.
 *
 * A reader sees one state of the data from begin to end, and does not wait for writers. Writers take turns.
 * If a turn ends while other threads wait for theirs, its transaction stays open for the next turn. The last
 * turn commits for all with one fsync, and only then do their calls return. So a turn sees the writes of the
 * earlier turns, and can be undone alone, but it becomes durable only together with them.
 *
 * A missing file is made (0600). The steps of the format update an older file in one transaction: after step
 * n SQLite's user_version is n. An *expendable* database holds data that can be fetched again. If its file is
 * damaged, foreign or of a newer version, the file is renamed to NAME.set-aside, the rename is logged, and a
 * new file is made. Commits of an expendable database do not wait for the disk: a power cut may undo the last
 * commits.
 *
 * With DATABASE_ALONE, other processes find the file locked until it is closed, and no file is mapped. With
 * DATABASE_SHARED, SQLite maps NAME-shm: if a program of the same user truncates NAME-shm, the kernel kills
 * this process with SIGBUS.
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
    DATABASE_ALONE,  /* locked for other processes until it is closed */
};

struct database_step {
    const char *sql;
    int (*run)(struct connection *connection); /* called after `sql`, in the same transaction; or NULL */
};

struct database_format {
    const char *name; /* name of the file */
    const struct database_step *steps;
    size_t steps_len;
    const char *pragmas; /* run on each new connection, before SQLite makes the file; or NULL */
    bool is_expendable;
};

/* Opens the database in the directory `dir_fd`; waits for the disk. No other thread may use SQLite during the
 * first call of a process. Return: 0; -EPROTO when a newer program made the file, -EUCLEAN when the file is
 * damaged or foreign (both only if it is not expendable); -EBUSY when another process has kept it locked for
 * 10 seconds; or -errno. */
int database_open(int dir_fd, const struct database_format *format, enum database_sharing sharing,
                  struct database **ret_database);

/* Closes the database; no turn and no reader may be open. Waits for the disk. NULL-safe. */
void database_free(struct database *database);
DEFINE_CLEANUP_FREE(database)

/* All functions below may be called from any thread.
 *
 * Takes a connection for single statements without a transaction, which is cheaper than
 * database_begin_read(). Return: 0 or -errno. */
int database_take_reader(struct database *database, struct connection **ret_connection);

/* Takes a connection, and begins a read transaction on it, which sees one state of the data. Return: 0 or
 * -errno. */
int database_begin_read(struct database *database, struct connection **ret_connection);

/* Gives back a connection that one of the two functions above gave; ends its transaction. NULL-safe. */
void database_return_reader(struct connection *connection);

static inline void cleanup_reader(struct connection **connection)
{
    database_return_reader(*connection);
}

#define _cleanup_reader_ _cleanup_(cleanup_reader)

/* Waits for the turn to write, which the same thread must end with database_end_write(). Until then the
 * thread must have no reader (database_renew()). Return: 0; or -errno, and then there is no turn to end. */
int database_begin_write(struct database *database, struct connection **ret_connection);

/* Ends the turn: commits its writes, or undoes them if `error` is set. Waits until the writes of this turn
 * and of all turns that it could see are committed (durably, unless expendable). Return: 0; `error`; or
 * another -errno when nothing of this turn was committed (after -EIO, the turn may have been committed). */
int database_end_write(struct database *database, int error);

/* Sets a damaged expendable database aside and makes a new one. Waits for the turn, all readers, and the
 * disk; the caller must have neither a turn nor a reader. Return: 0; or -errno, and then no turn can begin
 * until a repeated call succeeds. */
int database_renew(struct database *database);

/* Returns how often this process has committed. */
uint64_t database_commits(struct database *database);

/* Waits until database_commits() is not `seen`. Commits of other processes do not count. Return: 0;
 * -ETIMEDOUT when the monotonic clock reaches `until_ms`; -EINTR when `cancel` (may be NULL) is set. */
int database_await_commit(struct database *database, uint64_t seen, int64_t until_ms, struct cancel *cancel);

#endif
