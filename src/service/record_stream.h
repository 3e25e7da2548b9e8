/* SPDX-License-Identifier: MIT */
/*
 * A JSON array made while it is sent: each row of a statement is a record's text. However long the list is,
 * no more of it than a record is in memory.
 */
#ifndef INBOXFS_SERVICE_RECORD_STREAM_H
#define INBOXFS_SERVICE_RECORD_STREAM_H

#include <stddef.h>
#include <sys/types.h>

#include "service/database.h"

struct record_stream;

/* Takes over the reader and the statement, on failure too; the records are the statement's first column. 0 or
 * -ENOMEM. */
int record_stream_new(struct database *database, sqlite3 *db, sqlite3_stmt *statement,
                      struct record_stream **ret_stream);

/* Ends the reading. NULL-safe. */
void record_stream_free(struct record_stream *stream);

/* Up to `len` bytes (at least 1) of the array's text; 0 at its end, or -errno. */
ssize_t record_stream_read(struct record_stream *stream, char *ret_bytes, size_t len);

#endif
