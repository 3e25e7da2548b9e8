/* SPDX-License-Identifier: MIT */
/*
 * The service's SQLite database: WAL, synchronous=FULL, one connection that writes and as many readers as are
 * needed at once. What was committed survives the loss of the process and of power.
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

/* A reader that sees one state of the data until it is given back. */
int database_begin_read(struct database *database, sqlite3 **ret_db);
void database_end_read(struct database *database, sqlite3 *db);

/* Waits for the turn to write; ends with database_commit() or database_rollback(), from the same thread.
 * Nothing may be read by database_begin_read() in between. */
int database_begin_write(struct database *database, sqlite3 **ret_db);

/* 0: durable. -errno: nothing happened, but for -EIO and its like, when it is not known. */
int database_commit(struct database *database);
void database_rollback(struct database *database);

#endif
