/* SPDX-License-Identifier: MIT */
/*
 * Statements that are run over and over: each is prepared when it is first run, and kept for the next time.
 * One thread at a time.
 */
#ifndef INBOXFS_SQL_KEPT_QUERIES_H
#define INBOXFS_SQL_KEPT_QUERIES_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KEPT_QUERIES_MAX = 32
};

struct kept_queries {
    sqlite3 *db; /* borrowed, to be closed after kept_queries_release(); NULL: everything fails */
    const char *const *texts; /* of the statements, by number; static */
    sqlite3_stmt *statements[KEPT_QUERIES_MAX];
};

void kept_queries_init(struct kept_queries *queries, sqlite3 *db, const char *const *texts);
/* All zeros are fine, too. */
void kept_queries_release(struct kept_queries *queries);

/* Both run statement `number` with its parameters bound as by query_prepare(); nothing stays bound. */

/* To its end. 0 or -errno. */
int kept_queries_execute(struct kept_queries *queries, size_t number, const char *types, ...);

/* The first row's columns, which are `len` integers; -ENOENT without a row. */
int kept_queries_integers(struct kept_queries *queries, size_t number, int64_t *ret_values, size_t len,
                          const char *types, ...);

#endif
