/* SPDX-License-Identifier: MIT */
/*
 * The database's tables, and the steps from each version of them to the next (SQLite's user_version).
 */
#ifndef INBOXFS_SERVICE_SCHEMA_H
#define INBOXFS_SERVICE_SCHEMA_H

#include <sqlite3.h>

/* The version this program reads and writes. */
int schema_version(void);

/* Brings an older or empty database up to schema_version(), in one transaction. 0, -EPROTO when it was made
 * by a newer program, or -errno. */
int schema_migrate(sqlite3 *db);

#endif
