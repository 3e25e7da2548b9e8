/* SPDX-License-Identifier: MIT */
/*
 * Received emails in the database: what is changed of them after their delivery.
 */
#ifndef INBOXFS_SERVICE_EMAILS_H
#define INBOXFS_SERVICE_EMAILS_H

#include <jansson.h>
#include <sqlite3.h>
#include <stdbool.h>

/* Sets the record's user_mark_status, inside a write transaction. An email counts as valid when its status is
 * `valid` or it is so marked. The caller owns *ret_record. 0, -ENOENT or -errno. */
int emails_mark(sqlite3 *db, const char *id, bool mark, json_t **ret_record);

#endif
