/* SPDX-License-Identifier: MIT */
/*
 * The local full-text index (FTS5): subjects, names and addresses of all emails, and the bodies and
 * attachment names that were fetched. An email has two *sources* of words: its record, whose number is twice
 * the email's, and its content, whose number is one more.
 *
 * The table `search` (cache.h) has the words of a source in a row, but not the texts, so SQLite can neither
 * change nor delete the row. A changed source gets another row. search_rows has the source of each row. Rows
 * that it lacks are ignored; when most rows are such, the index is made anew (cache_delete_replaced()). Until
 * then, a body is found even if it has left the cache of contents.
 *
 * Indexing a record takes longer than receiving and writing it; a body takes 1 ms. So a thread that writes a
 * record or fetches a content only adds the source to the table search_pending. Pending sources are indexed
 * many at a time: by the sync thread when it is idle, and at the beginning of a search.
 *
 * Every function waits for the disk. "In a turn" means that the caller has the turn to write of the cache.
 */
#ifndef INBOXFS_STORE_SEARCH_INDEX_H
#define INBOXFS_STORE_SEARCH_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "mail/search_query.h"
#include "store/cache.h"

enum {
    SEARCH_BODY_MAX_BYTES = 256 * 1024 /* an email's attachment names and body; the rest is not indexed */
};

/* Removes an email, whose record is deleted, from the index, in a turn. A pending source of an email without
 * a record is not indexed. Return: 0; -errno of SQLite. */
int search_index_remove(struct connection *connection, uint32_t email);

/* Indexes some of the pending sources, in a turn of its own. May be called from any thread. Return: 1 when
 * more may be pending; 0 when none is; -errno of SQLite. */
int search_index_process_pending(struct cache *cache);

/* Receives a hit. */
typedef void (*search_hit_sink)(void *context, uint32_t email);

/* Finds the emails that match at least one of the terms, in no particular order; some of them twice. There is
 * at least one term, and none is a fact. Ignores is_negated. May be called from any thread. Return: 0; -EINTR
 * when `cancel` was set; -errno when the cache cannot be read. */
int search_index_find(struct cache *cache, const struct search_term *terms, size_t len, search_hit_sink sink,
                      void *context, struct cancel *cancel);

/* Finds the emails whose content is not indexed, so that their attachments are not known. Otherwise as
 * search_index_find(). */
int search_index_find_unread(struct cache *cache, search_hit_sink sink, void *context, struct cancel *cancel);

#endif
