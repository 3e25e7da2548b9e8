/* SPDX-License-Identifier: MIT */
/*
 * Statements kept by number.
 */
#include "sql/kept_queries.h"

#include <errno.h>
#include <stdarg.h>

#include "sql/query.h"

void kept_queries_init(struct kept_queries *queries, sqlite3 *db, const char *const *texts)
{
    *queries = (struct kept_queries){.db = db, .texts = texts};
}

void kept_queries_release(struct kept_queries *queries)
{
    for (size_t i = 0; i < KEPT_QUERIES_MAX; i++)
        sqlite3_finalize(queries->statements[i]);
    kept_queries_init(queries, NULL, queries->texts);
}

/* Ready to be stepped through; finish() it in any case. */
static int begin(struct kept_queries *queries, size_t number, const char *types, va_list arguments)
{
    sqlite3_stmt **statement = &queries->statements[number];
    if (*statement == NULL) {
        int error =
            query_error_on(queries->db, sqlite3_prepare_v3(queries->db, queries->texts[number], -1,
                                                           SQLITE_PREPARE_PERSISTENT, statement, NULL));
        if (error != 0)
            return error;
    }
    return query_bind(*statement, types, arguments);
}

/* A statement that is not reset keeps its transaction open. What failed was told by step. */
static void finish(sqlite3_stmt *statement)
{
    if (statement == NULL)
        return;
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

int kept_queries_execute(struct kept_queries *queries, size_t number, const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    int result = begin(queries, number, types, arguments);
    va_end(arguments);
    if (result == 0)
        do
            result = query_step(queries->statements[number]);
        while (result > 0);
    finish(queries->statements[number]);
    return result;
}

int kept_queries_integers(struct kept_queries *queries, size_t number, int64_t *ret_values, size_t len,
                          const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    int result = begin(queries, number, types, arguments);
    va_end(arguments);
    sqlite3_stmt *statement = queries->statements[number];
    if (result == 0)
        result = query_step(statement);
    for (size_t i = 0; result > 0 && i < len; i++)
        ret_values[i] = sqlite3_column_int64(statement, (int)i);
    finish(statement);
    if (result > 0)
        return 0;
    return result < 0 ? result : -ENOENT;
}
