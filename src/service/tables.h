/* SPDX-License-Identifier: MIT */
/*
 * The service's tables, in the database inbox.sqlite3 of its data directory (sql/database.h). Committed rows
 * survive the loss of the process and of power. A database that is shared lets `inboxd key` and `inboxd
 * deliver` write while a service runs; one that is not is this process's alone until it is closed.
 */
#ifndef INBOXFS_SERVICE_TABLES_H
#define INBOXFS_SERVICE_TABLES_H

#include "sql/database.h"

/* Gives the database a random name (settings.instance), which is part of each ETag, so that a copy answers
 * with other ETags than the original. */
#define TABLES_NAME_INSTANCE "INSERT OR REPLACE INTO settings VALUES ('instance', lower(hex(randomblob(16))))"

/* Opens the database in the directory, and makes it if it is missing. Returns as database_open() does. */
int tables_open(int dir_fd, enum database_sharing sharing, struct database **ret_database);

/* The same for a command that works beside a service, or without one. Makes nothing, and returns -ENOENT if
 * no service has used the directory. */
int tables_open_existing(const char *data_dir, struct database **ret_database);

/* A large message takes several times its size in memory until it is stored, so this process works on one at
 * a time. Waits for the one before. The caller calls it before database_begin_write(). */
enum {
    LARGE_MESSAGE_BYTES = 1000 * 1000,
};
void large_message_begin(void);
void large_message_end(void);

#endif
