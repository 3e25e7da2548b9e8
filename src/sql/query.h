/* SPDX-License-Identifier: MIT */
/*
 * SQLite statements whose parameters are bound in one call, and SQLite's result codes as errno. A connection
 * prepares a statement at its first use, and keeps it for the next.
 */
#ifndef INBOXFS_SQL_QUERY_H
#define INBOXFS_SQL_QUERY_H

#include <glib.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

struct database;

/* Used by one thread at a time. */
struct connection {
    struct database *database;
    sqlite3 *db;      /* owned; NULL if it is not open */
    GHashTable *kept; /* sqlite3_stmt by SQL text, owned; none is in use; NULL before the first */
};

/* A statement in use. It must end before the connection is returned or closed. */
struct statement {
    struct connection *connection; /* borrowed */
    sqlite3_stmt *row;             /* at its current row; NULL if there is no statement */
};

/* Closes connection->db, which the caller may have opened by itself. Accepts a zeroed struct. */
void connection_close(struct connection *connection);

/* Returns 0 or the -errno of a result code of `db` (NULL if sqlite3_open_v2() made none): -ENOSPC, -ENOMEM;
 * -EBUSY when another connection has the lock; -EEXIST when a constraint failed; -EUCLEAN when the file is
 * damaged; the system's errno when a file could not be opened; -EIO; or another. */
int query_error_on(sqlite3 *db, int sqlite_result);

/* Runs statements without parameters, and ignores their rows. Return: 0 or -errno. Here and below, a disk
 * that cannot be read is -EIO, not -EUCLEAN. */
int query_script(sqlite3 *db, const char *sql);

/* Takes the statement `sql`, and binds its parameters. `types` has one letter for each parameter:
 * 's' const char * (copied; NULL binds NULL), 'i' int64_t, 'b' const void * and size_t (borrowed until
 * query_end()). Return: 0, and the caller must call query_end(); or -errno. */
int query_begin(struct connection *connection, struct statement *ret_statement, const char *sql,
                const char *types, ...);

/* Like query_begin(), and steps to the first row. Return: 0; -ENOENT when there is no row; or -errno. */
int query_first(struct connection *connection, struct statement *ret_statement, const char *sql,
                const char *types, ...);

/* Steps to the next row. Return: 1 for a row; 0 at the end; or -errno. */
int query_step(sqlite3_stmt *row);

/* Ends the use of a statement. Accepts a zeroed struct, and one of a failed call. */
void query_end(struct statement *statement);

#define _cleanup_statement_ __attribute__((cleanup(query_end)))

/* Runs a statement to its end. Return: 0 or -errno. */
int query_execute(struct connection *connection, const char *sql, const char *types, ...);

/* Reads the first `len` columns of the first row. Return: 0; -ENOENT when there is no row; or -errno. */
int query_integers(struct connection *connection, int64_t *ret_values, size_t len, const char *sql,
                   const char *types, ...);

/* Returns a column's text, borrowed until the next step; "" for an SQL NULL or when out of memory. */
const char *query_column_text(sqlite3_stmt *row, int column);

/* Returns a NUL-terminated copy of a text or blob column, which the caller frees; NULL for an SQL NULL.
 * `ret_len` may be NULL. */
char *query_column_copy(sqlite3_stmt *row, int column, size_t *ret_len);

#endif
