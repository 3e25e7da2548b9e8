/* SPDX-License-Identifier: MIT */
/*
 * SQLite statements whose parameters are bound in one call, and SQLite's result codes as errno.
 *
 * The query_ functions prepare a statement for one run. The statements_ functions run the statements of a
 * connection, and prepare each at its first run.
 */
#ifndef INBOXFS_SQL_QUERY_H
#define INBOXFS_SQL_QUERY_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* Returns 0 or the -errno of a result code of `db` (NULL if sqlite3_open_v2() made none): -ENOSPC, -ENOMEM;
 * -EBUSY when another connection has the lock; -EEXIST when a constraint failed; -EUCLEAN when the file is
 * damaged; the system's errno when a file could not be opened; -EIO; or another. */
int query_error_on(sqlite3 *db, int sqlite_result);

/* Runs statements without parameters, and ignores their rows. Return: 0 or -errno. Here and below, a disk
 * that cannot be read is -EIO, not -EUCLEAN. */
int query_script(sqlite3 *db, const char *sql);

/* Prepares `sql` and binds its parameters. `types` has one letter for each parameter:
 * 's' const char * (copied; NULL binds NULL), 'i' int64_t, 'b' const void * and size_t (borrowed until the
 * statement is finalised). The caller finalises the statement. Return: 0 or -errno. */
int query_prepare(sqlite3 *db, sqlite3_stmt **ret_statement, const char *sql, const char *types, ...);

/* Like query_prepare(), and steps to the first row; query_step() steps to the next. Return: 0; -ENOENT when
 * there is no row; or -errno. *ret_statement is set only with 0. */
int query_first(sqlite3 *db, sqlite3_stmt **ret_statement, const char *sql, const char *types, ...);

/* Steps to the next row. Return: 1 for a row; 0 at the end; or -errno. */
int query_step(sqlite3_stmt *statement);

/* Prepares a statement, runs it to its end, and finalises it. Return: 0 or -errno. */
int query_execute(sqlite3 *db, const char *sql, const char *types, ...);

/* Reads one integer from the first row. Return: 0; -ENOENT when there is no row; or -errno. */
int query_integer(sqlite3 *db, int64_t *ret_value, const char *sql, const char *types, ...);

/* Returns a column's text, borrowed until the next step; "" for an SQL NULL or when out of memory. */
const char *query_column_text(sqlite3_stmt *statement, int column);

/* Returns a NUL-terminated copy of a text or blob column, which the caller frees; NULL for an SQL NULL or
 * when out of memory. `ret_len` may be NULL. */
char *query_column_copy(sqlite3_stmt *statement, int column, size_t *ret_len);

/* ---------------------------------------------------------------- statements that run often */

enum {
    STATEMENTS_MAX = 64
};

struct database;

/* Used by one thread at a time. */
struct connection {
    struct database *database;
    sqlite3 *db;
    const char *const *statements; /* SQL by number; static */
    sqlite3_stmt *prepared[STATEMENTS_MAX];
};

/* Binds parameters as query_prepare() does, and runs statement `number` to its end. Return: 0 or -errno. */
int statements_execute(struct connection *connection, size_t number, const char *types, ...);

/* Reads `len` integer columns of the first row. Return: 0; -ENOENT when there is no row; or -errno. */
int statements_integers(struct connection *connection, size_t number, int64_t *ret_values, size_t len,
                        const char *types, ...);

/* Binds the parameters of a statement and steps to its first row. Return: 1; 0 when there is no row; or
 * -errno. The caller must call statements_end() in any case; blobs are borrowed until then. */
int statements_begin(struct connection *connection, size_t number, sqlite3_stmt **ret_statement,
                     const char *types, ...);
void statements_end(sqlite3_stmt *statement);

static inline void cleanup_statement(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}

#define _cleanup_statement_ __attribute__((cleanup(cleanup_statement)))

#endif
