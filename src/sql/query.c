/* SPDX-License-Identifier: MIT */
/*
 * A string of letters describes the parameters, so that a call fits on one line.
 */
#include "sql/query.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

static int error_of_result(int sqlite_result)
{
    /* By the primary result code. Each other failure is EIO. */
    static const int errors[SQLITE_NOTADB + 1] = {
        [SQLITE_NOMEM] = ENOMEM,    [SQLITE_FULL] = ENOSPC,       [SQLITE_BUSY] = EBUSY,
        [SQLITE_LOCKED] = EBUSY,    [SQLITE_CONSTRAINT] = EEXIST, [SQLITE_TOOBIG] = EMSGSIZE,
        [SQLITE_READONLY] = EACCES, [SQLITE_PERM] = EACCES,       [SQLITE_CANTOPEN] = EACCES,
        [SQLITE_CORRUPT] = EUCLEAN, [SQLITE_NOTADB] = EUCLEAN,    [SQLITE_MISUSE] = EINVAL,
        [SQLITE_RANGE] = EINVAL,    [SQLITE_ERROR] = EINVAL,
    };
    unsigned int primary = (unsigned int)sqlite_result & 0xff;
    if (primary == SQLITE_OK || primary == SQLITE_ROW || primary == SQLITE_DONE)
        return 0;
    if (sqlite_result == SQLITE_IOERR_SHORT_READ) /* the file was truncated */
        return -EUCLEAN;
    return primary < ARRAY_LEN(errors) && errors[primary] != 0 ? -errors[primary] : -EIO;
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

/* ---------------------------------------------------------------- statements */

enum {
    KEPT_MAX =
        64, /* statements that a connection keeps; bounded, since the SQL of some is made at run time */
};

static void finalise(void *statement)
{
    sqlite3_finalize(statement);
}

/* Hashes the length and the middle: g_str_hash() of a long text takes longer than a short statement runs. */
static guint hash_sql(const void *sql)
{
    size_t len = strlen(sql);
    return (guint)(len * 256 + ((const unsigned char *)sql)[len / 2]);
}

void connection_close(struct connection *connection)
{
    if (connection->kept != NULL)
        g_hash_table_unref(connection->kept);
    sqlite3_close(connection->db);
    *connection = (struct connection){0};
}

/* A statement in use is not in the table, so that no other user gets it. */
static int take(struct connection *connection, const char *sql, sqlite3_stmt **ret_statement)
{
    void *kept = NULL;
    if (connection->kept != NULL && g_hash_table_steal_extended(connection->kept, sql, NULL, &kept)) {
        *ret_statement = kept;
        return 0;
    }
    errno = 0;
    return error_of_reading(
        connection->db,
        sqlite3_prepare_v3(connection->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_statement, NULL));
}

/* Without a reset, the transaction of the statement would stay open. Its error is ignored: query_step() has
 * returned it. */
void query_end(struct statement *statement)
{
    sqlite3_stmt *ended = TAKE_PTR(statement->row);
    if (ended == NULL)
        return;
    sqlite3_reset(ended);
    sqlite3_clear_bindings(ended);
    GHashTable *kept = statement->connection->kept;
    if (kept == NULL)
        kept = statement->connection->kept = g_hash_table_new_full(hash_sql, g_str_equal, NULL, finalise);
    if (g_hash_table_size(kept) < KEPT_MAX)
        g_hash_table_replace(kept, (void *)sqlite3_sql(ended), ended);
    else
        sqlite3_finalize(ended);
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

static int begin(struct connection *connection, struct statement *ret_statement, const char *sql,
                 const char *types, va_list arguments)
{
    *ret_statement = (struct statement){.connection = connection};
    int error = take(connection, sql, &ret_statement->row);
    if (error == 0)
        error = bind_all(ret_statement->row, types, arguments);
    if (error != 0)
        query_end(ret_statement);
    return error;
}

int query_begin(struct connection *connection, struct statement *ret_statement, const char *sql,
                const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    int error = begin(connection, ret_statement, sql, types, arguments);
    va_end(arguments);
    return error;
}

int query_step(sqlite3_stmt *row)
{
    errno = 0;
    int result = sqlite3_step(row);
    /* Only errno has the reason of a failed read or write. */
    if ((result & 0xff) == SQLITE_IOERR && result != SQLITE_IOERR_SHORT_READ && errno != 0)
        return -errno;
    return result == SQLITE_ROW ? 1 : error_of_reading(sqlite3_db_handle(row), result);
}

/* An ENOENT of the disk becomes -EIO, since -ENOENT means that there is no row. */
static int find_first(struct connection *connection, struct statement *ret_statement, const char *sql,
                      const char *types, va_list arguments)
{
    int error = begin(connection, ret_statement, sql, types, arguments);
    if (error != 0)
        return error;
    int step = query_step(ret_statement->row);
    if (step > 0)
        return 0;
    query_end(ret_statement);
    return step == 0 ? -ENOENT : step == -ENOENT ? -EIO : step;
}

int query_first(struct connection *connection, struct statement *ret_statement, const char *sql,
                const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    int error = find_first(connection, ret_statement, sql, types, arguments);
    va_end(arguments);
    return error;
}

int query_execute(struct connection *connection, const char *sql, const char *types, ...)
{
    _cleanup_statement_ struct statement statement = {0};
    va_list arguments;
    va_start(arguments, types);
    int error = begin(connection, &statement, sql, types, arguments);
    va_end(arguments);
    if (error == 0)
        do
            error = query_step(statement.row);
        while (error > 0);
    return error;
}

int query_integers(struct connection *connection, int64_t *ret_values, size_t len, const char *sql,
                   const char *types, ...)
{
    _cleanup_statement_ struct statement statement = {0};
    va_list arguments;
    va_start(arguments, types);
    int error = find_first(connection, &statement, sql, types, arguments);
    va_end(arguments);
    for (size_t i = 0; error == 0 && i < len; i++)
        ret_values[i] = sqlite3_column_int64(statement.row, (int)i);
    return error;
}

const char *query_column_text(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text != NULL ? text : "";
}

char *query_column_copy(sqlite3_stmt *row, int column, size_t *ret_len)
{
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        return NULL;
    /* sqlite3_column_blob() does not convert the value. It must be called before sqlite3_column_bytes(). */
    const void *bytes = sqlite3_column_blob(row, column);
    size_t len = (size_t)sqlite3_column_bytes(row, column);
    char *copy = g_malloc(len + 1);
    if (len > 0 && bytes != NULL)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    if (ret_len != NULL)
        *ret_len = len;
    return copy;
}
