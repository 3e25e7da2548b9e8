/* SPDX-License-Identifier: MIT */
/*
 * The service's SQLite database: one connection that writes, and as many readers as are needed at once. What
 * was committed survives the loss of the process and of power (WAL, synchronous=FULL).
 *
 * A reader sees one state of the data, from its begin to its end, and nobody waits for it. Writers take
 * turns. A turn that ends while others wait for theirs leaves its transaction open to the next one; the last
 * of them commits for all, with one fsync, and only then does any of them return. So each turn sees what
 * those before it wrote, is undone by itself, and becomes durable together with them or not at all.
 *
 * A database is shared with other processes, so that `inboxd key` and `inboxd deliver` can write while a
 * service runs, or it is this process's alone until it is closed. Shared, SQLite maps DIR/inbox.sqlite3-shm:
 * a program of the same user that cuts this file off ends the process with SIGBUS. Alone, no file is mapped.
 * (Without WAL none would be either, but a list that a client reads slowly would keep all others from
 * writing.)
 */
#ifndef INBOXFS_SERVICE_DATABASE_H
#define INBOXFS_SERVICE_DATABASE_H

#include <sqlite3.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/wait.h"

struct database;

enum database_sharing {
    DATABASE_SHARED,
    DATABASE_ALONE,
};

/* Opens DIR/inbox.sqlite3, made (0600) when missing, and brings its tables up to date. 0, -EPROTO when a
 * newer program made it, -EBUSY when it is another process's alone (after some seconds), or -errno. */
int database_open(const char *dir, enum database_sharing sharing, struct database **ret_database);

/* The same for commands that work beside a service, or without one: nothing is made. -ENOENT: no service has
 * used this directory. */
int database_open_existing(const char *dir, struct database **ret_database);

/* No transaction may be open. NULL-safe. */
void database_free(struct database *database);
DEFINE_CLEANUP_FREE(database)

/* Both may be called from any thread. 0 or -errno. */
int database_begin_read(struct database *database, sqlite3 **ret_db);
void database_end_read(struct database *database, sqlite3 *db);

/* Waits for the turn to write, which the same thread ends with database_end_write(). Nothing may be read by
 * database_begin_read() in between. 0, or -errno: it is nobody's turn. */
int database_begin_write(struct database *database, sqlite3 **ret_db);

/* Ends the turn: commits what was written in it, or undoes it where `error` is set. Returns once all that was
 * visible in the turn is durable, the writes of others too, so that an answer may tell of it. 0: durable.
 * `error`, or another -errno: nothing of this turn happened, but for -EIO and its like, when it is not known.
 */
int database_end_write(struct database *database, int error);

/* A large message takes several times its size in memory while it is read or made, and until it is stored:
 * one has its turn at a time. To be called before database_begin_write(). */
enum {
    DATABASE_LARGE_BYTES = 1000 * 1000,
};
void database_begin_large(struct database *database);
void database_end_large(struct database *database);

/* How often this process has committed, from any thread. */
uint64_t database_commits(struct database *database);

/* Waits until it has done so more often than `seen`: 0. -ETIMEDOUT: `until_ms` of the monotonic clock has
 * come; -EINTR: cancelled. What other processes commit wakes nobody. */
int database_await_commit(struct database *database, uint64_t seen, int64_t until_ms, struct cancel *cancel);

#endif
