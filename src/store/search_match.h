/* SPDX-License-Identifier: MIT */
/*
 * A query put to the search index, through a connection to its file.
 */
#ifndef INBOXFS_STORE_SEARCH_MATCH_H
#define INBOXFS_STORE_SEARCH_MATCH_H

#include <sqlite3.h>
#include <stdbool.h>

#include "mail/search_query.h"

/* Takes a hit; false: no more are wanted. */
typedef bool (*search_hit_sink)(void *context, const char *inbox_id, const char *key);

/* Looks at this from time to time; true: give up. */
typedef bool (*search_stop)(void *context);

/* Contract: search_index_find(), but for -EINTR: what is given up fails in some way. */
int search_match_find(sqlite3 *db, const struct search_query *query, search_hit_sink sink, search_stop stop,
                      void *context);

#endif
