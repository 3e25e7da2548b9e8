/* SPDX-License-Identifier: MIT */
/*
 * The service's tables, in the database inbox.sqlite3 of its data directory (sql/database.h). Committed rows
 * survive a crash of the process and a power cut. If the service uses DATABASE_SHARED, `inboxd key`,
 * `inboxd deliver` and `inboxd backup` can use the database while the service runs.
 */
#ifndef INBOXFS_SERVICE_TABLES_H
#define INBOXFS_SERVICE_TABLES_H

#include <pthread.h>

#include "sql/database.h"

/* Gives the database a random name (settings.instance), which is part of each ETag, so that a copy answers
 * with other ETags than the original. */
#define TABLES_NAME_INSTANCE "INSERT OR REPLACE INTO settings VALUES ('instance', lower(hex(randomblob(16))))"

/* Opens the database in the directory, and makes it if it is missing. Return: as database_open(). */
int tables_open(int dir_fd, enum database_sharing sharing, struct database **ret_database);

/* Opens the database for a command, whether a service runs or not. Return: as database_open(); -ENOENT if no
 * service has used the directory. */
int tables_open_existing(const char *data_dir, struct database **ret_database);

enum {
    LARGE_MESSAGE_BYTES = 1000 * 1000,
};

/* A large message takes several times its size in memory until it is stored. So the thread that stores one
 * holds this lock, which it takes before database_begin_write(). The lock is global, because it bounds the
 * memory of the whole process. */
extern pthread_mutex_t large_messages;

#endif
