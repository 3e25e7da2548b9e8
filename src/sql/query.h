/* SPDX-License-Identifier: MIT */
/*
 * SQLite statements with their arguments bound in one call, and its result codes as errno.
 *
 * A statement that is run once goes through query_execute() and its like. One that is run over and over
 * belongs to a set: it is prepared when it is first run, and kept for the next time.
 */
#ifndef INBOXFS_SQL_QUERY_H
#define INBOXFS_SQL_QUERY_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* -errno for the result code of a call on `db` (NULL: the connection could not even be made): -ENOSPC,
 * -ENOMEM, -EBUSY, -EEXIST (a constraint), -EUCLEAN (damaged), -EIO …, and the system's own reason where a
 * file could not be opened. */
int query_error_on(sqlite3 *db, int sqlite_result);
/* Runs statements without arguments or rows. 0 or -errno. A disk that cannot be read is -EIO, and not taken
 * for damage, here and below. */
int query_script(sqlite3 *db, const char *sql);

/* Prepares `sql` and binds its parameters, a letter of `types` for each in order:
 * 's' const char * (NULL binds NULL; copied), 'i' int64_t, 'b' const void * and size_t (borrowed until the
 * statement is finalised). 0 or -errno. */
int query_prepare(sqlite3 *db, sqlite3_stmt **ret_statement, const char *sql, const char *types, ...);

/* The same, and steps to the first row. 0, -ENOENT: there is none, or -errno; the statement is there with 0
 * alone. query_step() goes on. */
int query_first(sqlite3 *db, sqlite3_stmt **ret_statement, const char *sql, const char *types, ...);

/* 1: a row, 0: no more, or -errno: the system's own where a file could not be read or written. */
int query_step(sqlite3_stmt *statement);

/* Prepares, runs to the end, finalises. 0 or -errno. */
int query_execute(sqlite3 *db, const char *sql, const char *types, ...);

/* One integer from the first row; -ENOENT without a row. */
int query_integer(sqlite3 *db, int64_t *ret_value, const char *sql, const char *types, ...);

/* The text of a column, which is SQLite's until the next step: "" for an SQL NULL or without memory. */
const char *query_column_text(sqlite3_stmt *statement, int column);

/* A copy of a text or blob column, NUL-terminated; NULL for an SQL NULL or without memory. `ret_len` may be
 * NULL. The caller frees. */
char *query_column_copy(sqlite3_stmt *statement, int column, size_t *ret_len);

/* ---------------------------------------------------------------- statements that are kept */

enum {
    STATEMENTS_MAX = 64
};

struct statements {           /* of one connection, one thread at a time; all zeros: everything fails */
    sqlite3 *db;              /* borrowed, to be closed after statements_release() */
    const char *const *texts; /* by number; static */
    sqlite3_stmt *prepared[STATEMENTS_MAX];
};

void statements_init(struct statements *statements, sqlite3 *db, const char *const *texts);
/* All zeros are fine, too. */
void statements_release(struct statements *statements);

/* Runs statement `number` to its end, with its parameters bound as by query_prepare(). 0 or -errno. */
int statements_execute(struct statements *statements, size_t number, const char *types, ...);

/* The first row's columns, which are `len` integers; -ENOENT without a row. */
int statements_integers(struct statements *statements, size_t number, int64_t *ret_values, size_t len,
                        const char *types, ...);

/* Binds the parameters of a statement and steps to its first row: 1, 0: there is none, or -errno.
 * query_step() goes on; statements_end() has to follow in any case, and until
 * then texts stay borrowed, too. */
int statements_begin(struct statements *statements, size_t number, sqlite3_stmt **ret_statement,
                     const char *types, ...);
void statements_end(sqlite3_stmt *statement);

static inline void cleanup_statement(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}

#define _cleanup_statement_ __attribute__((cleanup(cleanup_statement)))

#endif
