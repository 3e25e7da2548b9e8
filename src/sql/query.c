/* SPDX-License-Identifier: MIT */
/*
 * A string of letters describes the parameters, so that a call fits on one line.
 */
#include "sql/query.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static int error_of_result(int sqlite_result)
{
    /* The file was truncated. */
    if (sqlite_result == SQLITE_IOERR_SHORT_READ)
        return -EUCLEAN;
    switch (sqlite_result & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_CONSTRAINT:
        return -EEXIST;
    case SQLITE_TOOBIG:
        return -EMSGSIZE;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        return -EACCES;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return -EUCLEAN;
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
    case SQLITE_ERROR:
        return -EINVAL;
    default:
        return -EIO;
    }
}

int query_error_on(sqlite3 *db, int sqlite_result)
{
    int reason = (sqlite_result & 0xff) == SQLITE_CANTOPEN ? sqlite3_system_errno(db) : 0;
    return reason > 0 ? -reason : error_of_result(sqlite_result);
}

/* Like query_error_on(), for a call that reads the file; errno must be 0 before that call. SQLite also
 * reports a file as corrupt when the disk could not be read (SQLITE_IOERR_CORRUPTFS). */
static int error_of_reading(sqlite3 *db, int sqlite_result)
{
    bool is_unread = (sqlite_result & 0xff) == SQLITE_CORRUPT && (errno == EIO || errno == ENXIO);
    return is_unread ? -EIO : query_error_on(db, sqlite_result);
}

int query_script(sqlite3 *db, const char *sql)
{
    errno = 0;
    return error_of_reading(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

static int compile(sqlite3 *db, const char *sql, unsigned int flags, sqlite3_stmt **ret_statement)
{
    errno = 0;
    return error_of_reading(db, sqlite3_prepare_v3(db, sql, -1, flags, ret_statement, NULL));
}

static int bind_all(sqlite3_stmt *statement, const char *types, va_list arguments)
{
    int result = SQLITE_OK;
    for (int i = 0; types[i] != '\0' && result == SQLITE_OK; i++) {
        if (types[i] == 's') {
            result =
                sqlite3_bind_text(statement, i + 1, va_arg(arguments, const char *), -1, SQLITE_TRANSIENT);
        } else if (types[i] == 'i') {
            result = sqlite3_bind_int64(statement, i + 1, va_arg(arguments, int64_t));
        } else {
            const void *bytes = va_arg(arguments, const void *);
            size_t len = va_arg(arguments, size_t);
            result = sqlite3_bind_blob64(statement, i + 1, bytes, len, SQLITE_STATIC);
        }
    }
    return error_of_result(result);
}

static int prepare(sqlite3 *db, sqlite3_stmt **ret_statement, const char *sql, const char *types,
                   va_list arguments)
{
    sqlite3_stmt *statement = NULL;
    int error = compile(db, sql, 0, &statement);
    if (error == 0)
        error = bind_all(statement, types, arguments);
    if (error != 0) {
        sqlite3_finalize(statement);
        return error;
    }
    *ret_statement = statement;
    return 0;
}

int query_prepare(sqlite3 *db, sqlite3_stmt **ret_statement, const char *sql, const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    int error = prepare(db, ret_statement, sql, types, arguments);
    va_end(arguments);
    return error;
}

int query_step(sqlite3_stmt *statement)
{
    errno = 0;
    int result = sqlite3_step(statement);
    /* Only errno has the reason of a failed read or write. */
    if ((result & 0xff) == SQLITE_IOERR && result != SQLITE_IOERR_SHORT_READ && errno != 0)
        return -errno;
    return result == SQLITE_ROW ? 1 : error_of_reading(sqlite3_db_handle(statement), result);
}

int query_execute(sqlite3 *db, const char *sql, const char *types, ...)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    va_list arguments;
    va_start(arguments, types);
    int error = prepare(db, &statement, sql, types, arguments);
    va_end(arguments);
    if (error == 0)
        do
            error = query_step(statement);
        while (error > 0);
    return error;
}

/* An ENOENT of the disk becomes -EIO, since -ENOENT means that there is no row. */
static int find_first(sqlite3 *db, sqlite3_stmt **ret_statement, const char *sql, const char *types,
                      va_list arguments)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = prepare(db, &statement, sql, types, arguments);
    if (error != 0)
        return error;
    int step = query_step(statement);
    if (step <= 0)
        return step == 0 ? -ENOENT : step == -ENOENT ? -EIO : step;
    *ret_statement = TAKE_PTR(statement);
    return 0;
}

int query_first(sqlite3 *db, sqlite3_stmt **ret_statement, const char *sql, const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    int error = find_first(db, ret_statement, sql, types, arguments);
    va_end(arguments);
    return error;
}

int query_integer(sqlite3 *db, int64_t *ret_value, const char *sql, const char *types, ...)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    va_list arguments;
    va_start(arguments, types);
    int error = find_first(db, &statement, sql, types, arguments);
    va_end(arguments);
    if (error == 0)
        *ret_value = sqlite3_column_int64(statement, 0);
    return error;
}

const char *query_column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL ? text : "";
}

char *query_column_copy(sqlite3_stmt *statement, int column, size_t *ret_len)
{
    if (sqlite3_column_type(statement, column) == SQLITE_NULL)
        return NULL;
    /* sqlite3_column_blob() does not convert the value. It must be called before sqlite3_column_bytes(). */
    const void *bytes = sqlite3_column_blob(statement, column);
    size_t len = (size_t)sqlite3_column_bytes(statement, column);
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return NULL;
    if (len > 0 && bytes != NULL)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    if (ret_len != NULL)
        *ret_len = len;
    return copy;
}

/* ---------------------------------------------------------------- statements that run often */

/* Does statements_begin(). */
static int begin(struct connection *connection, size_t number, sqlite3_stmt **ret_statement,
                 const char *types, va_list arguments)
{
    sqlite3_stmt **statement = &connection->prepared[number];
    *ret_statement = NULL;
    if (*statement == NULL) {
        int error =
            compile(connection->db, connection->statements[number], SQLITE_PREPARE_PERSISTENT, statement);
        if (error != 0)
            return error;
    }
    *ret_statement = *statement;
    int error = bind_all(*statement, types, arguments);
    return error != 0 ? error : query_step(*statement);
}

/* Without a reset, the transaction of the statement would stay open. Its error is ignored: query_step() has
 * returned it. */
void statements_end(sqlite3_stmt *statement)
{
    if (statement == NULL)
        return;
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

int statements_execute(struct connection *connection, size_t number, const char *types, ...)
{
    sqlite3_stmt *statement;
    va_list arguments;
    va_start(arguments, types);
    int result = begin(connection, number, &statement, types, arguments);
    va_end(arguments);
    while (result > 0)
        result = query_step(statement);
    statements_end(statement);
    return result;
}

int statements_begin(struct connection *connection, size_t number, sqlite3_stmt **ret_statement,
                     const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    int result = begin(connection, number, ret_statement, types, arguments);
    va_end(arguments);
    return result;
}

int statements_integers(struct connection *connection, size_t number, int64_t *ret_values, size_t len,
                        const char *types, ...)
{
    sqlite3_stmt *statement;
    va_list arguments;
    va_start(arguments, types);
    int result = begin(connection, number, &statement, types, arguments);
    va_end(arguments);
    for (size_t i = 0; result > 0 && i < len; i++)
        ret_values[i] = sqlite3_column_int64(statement, (int)i);
    statements_end(statement);
    if (result > 0)
        return 0;
    return result < 0 ? result : -ENOENT;
}
