/* SPDX-License-Identifier: MIT */
/*
 * The service's tables, in the database inbox.sqlite3 of its data directory (sql/database.h). What was
 * committed survives the loss of the process and of power. The database is shared with other processes, so
 * that `inboxd key` and `inboxd deliver` can write while a service runs, or it is this process's alone until
 * it is closed.
 */
#ifndef INBOXFS_SERVICE_TABLES_H
#define INBOXFS_SERVICE_TABLES_H

#include "sql/database.h"

/* Gives the database another name (settings.instance), which is part of each ETag: the ETags of a copy differ
 * from those of the database that it was made of. */
#define TABLES_NAME_INSTANCE "INSERT OR REPLACE INTO settings VALUES ('instance', lower(hex(randomblob(16))))"

/* Opens the database in the directory, made when missing. Errors as database_open(). */
int tables_open(int dir_fd, enum database_sharing sharing, struct database **ret_database);

/* The same for commands that work beside a service, or without one: nothing is made. -ENOENT: no service has
 * used this directory. */
int tables_open_existing(const char *data_dir, struct database **ret_database);

/* A large message takes several times its size in memory while it is read or made, and until it is stored:
 * one has its turn at a time in this process. To be called before database_begin_write(). Waits. */
enum {
    LARGE_MESSAGE_BYTES = 1000 * 1000,
};
void large_message_begin(void);
void large_message_end(void);

#endif
