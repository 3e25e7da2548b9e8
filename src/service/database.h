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
 * SQLite maps DIR/inbox.sqlite3-shm: a program of the same user that cuts this file off while a service runs
 * ends the service with SIGBUS. The ways around it cost more: without WAL a list that a client reads slowly
 * keeps all others from writing; and with an exclusive lock, under which SQLite needs no such file, `inboxd
 * key` could not change keys while a service runs.
 */
#ifndef INBOXFS_SERVICE_DATABASE_H
#define INBOXFS_SERVICE_DATABASE_H

#include <sqlite3.h>
#include <stdint.h>

#include "base/cleanup.h"

struct database;

/* Opens DIR/inbox.sqlite3, made (0600) when missing, and brings its tables up to date. 0, -EPROTO when a
 * newer program made it, or -errno. */
int database_open(const char *dir, struct database **ret_database);

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

#endif
