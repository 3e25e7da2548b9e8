/* SPDX-License-Identifier: MIT */
/*
 * The local full-text index (FTS5): subjects, names and addresses of all emails, and the bodies that were
 * fetched. It is a table of the cache (cache.h), keyed by the numbers of emails.
 *
 * Indexing an email takes longer than receiving and writing its record; a body takes 1 ms. So a thread that
 * writes a record or fetches a body only adds the email to the table search_pending. Pending emails are
 * indexed many at a time: by the sync thread when it is idle, and at the beginning of a search.
 *
 * Every function waits for the disk. "In a turn" means that the caller has the turn to write of the cache.
 */
#ifndef INBOXFS_STORE_SEARCH_INDEX_H
#define INBOXFS_STORE_SEARCH_INDEX_H

#include <stdint.h>

#include "mail/content_folder.h"
#include "mail/search_query.h"
#include "store/cache.h"

enum {
    SEARCH_BODY_MAX_BYTES = 256 * 1024 /* an email's attachment names and body; the rest is not indexed */
};

/* Adds, in a turn, an email whose record is new or changed. Return: 0; -errno of SQLite. */
int search_index_add_pending(struct connection *connection, uint32_t email);

/* Removes an email, whose record is deleted, from the index, in a turn. An email that is pending without a
 * record is not indexed. Return: 0; -errno of SQLite. */
int search_index_remove(struct connection *connection, uint32_t email);

/* Adds, in a turn, an email with its body and the names of its attachments, unless the index has them.
 * Return: 0; -errno of SQLite. */
int search_index_add_pending_content(struct connection *connection, uint32_t email,
                                     const struct content_folder *folder);

/* Indexes some of the pending emails, in a turn of its own. May be called from any thread. Return: 1 when
 * more may be pending; 0 when none is; -errno of SQLite. */
int search_index_process_pending(struct cache *cache);

/* Receives a hit. */
typedef void (*search_hit_sink)(void *context, uint32_t email);

/* Finds the emails that match at least one term of each group, in no particular order. There is at least one
 * term; none is a fact, and the first is no alternative. Ignores is_negated. May be called from any thread.
 * Return: 0; -EINTR when `cancel` was set; -errno when the cache cannot be read. */
int search_index_find(struct cache *cache, const struct search_term *terms, size_t len, search_hit_sink sink,
                      void *context, struct cancel *cancel);

#endif
