/* SPDX-License-Identifier: MIT */
/*
 * The local full-text index (FTS5): subjects, names and addresses of all emails, and the bodies that were
 * fetched. It is a table of the cache (cache.h), keyed by the numbers of emails.
 *
 * Indexing an email takes longer than receiving and writing its record; a body takes 1 ms. So a thread that
 * writes a record or fetches a body only notes the email (search_pending). The noted emails are indexed many
 * at a time: by the sync thread when it is idle, and by a search before it looks. The notes survive a kill.
 *
 * Every function waits for the disk. "In a turn" means that the caller has the turn to write of the cache.
 */
#ifndef INBOXFS_STORE_SEARCH_INDEX_H
#define INBOXFS_STORE_SEARCH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mail/content_folder.h"
#include "mail/search_query.h"
#include "store/cache.h"

enum {
    SEARCH_BODY_MAX_BYTES = 256 * 1024 /* the beginning of a body, which is indexed */
};

/* Notes, in a turn, that the record of an email is new or changed. Return: 0; -errno of SQLite. */
int search_index_add_pending(struct connection *connection, uint32_t email);

/* Removes an email from the index, in a turn. Return: 0; -errno of SQLite. */
int search_index_remove(struct connection *connection, uint32_t email);

/* Notes, in a turn, the body of an email and the names of its attachments, unless the index already has them.
 * Return: 0; -errno of SQLite; -ENOMEM. */
int search_index_add_pending_content(struct connection *connection, uint32_t email,
                                     const struct content_folder *folder);

/* Indexes some of the noted emails, in a turn of its own. May be called from any thread. Return: 1 when more
 * may be noted; 0 when there are none; -errno of SQLite. */
int search_index_process_pending(struct cache *cache);

/* Receives a hit. */
typedef void (*search_hit_sink)(void *context, uint32_t email);

/* Called from time to time; returns true if the search is to end. */
typedef bool (*search_stop)(void *context);

/* Finds the emails that match at least one term of each group of the query, in no particular order. The query
 * has at least one term, and no facts; is_negated is ignored. May be called from any thread. Return: 0;
 * -EINTR when `stop` returned true; -errno when the cache cannot be read. */
int search_index_find(struct cache *cache, const struct search_query *query, search_hit_sink sink,
                      search_stop stop, void *context);

#endif
