/* SPDX-License-Identifier: MIT */
/*
 * The full-text index (FTS5) of what is known locally: subjects, names and addresses, and bodies once they
 * were fetched. It is a table of the cache (cache.h), by the numbers of emails.
 *
 * Adding an email to it takes longer than receiving and writing its record, and a body takes 1 ms by itself.
 * So a thread that writes a record, or has fetched a body, notes the email (search_pending), and the index
 * follows many emails at a time: the sync thread brings it up to date when it has nothing else to do, and a
 * search does so before it looks. After a kill that goes on.
 *
 * Everything waits for the disk.
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
    SEARCH_BODY_MAX_BYTES = 256 * 1024 /* of a body; what follows is not found */
};

/* Notes, in a turn, that the record of an email is new or changed. 0 or -errno. */
int search_index_note(struct connection *connection, uint32_t email);

/* Removes an email, in a turn. 0 or -errno. */
int search_index_remove(struct connection *connection, uint32_t email);

/* Notes, in a turn, the body of an email and the names of its attachments, unless they are known. 0 or
 * -errno. */
int search_index_note_content(struct connection *connection, uint32_t email,
                              const struct content_folder *folder);

/* Brings some of the emails that were noted into the index, in a turn of its own. From any thread. 1: there
 * may be more; 0: there are none; or -errno. */
int search_index_catch_up(struct cache *cache);

/* Takes a hit. */
typedef void (*search_hit_sink)(void *context, uint32_t email);

/* Looks at this from time to time; true: give up. */
typedef bool (*search_stop)(void *context);

/* Finds the emails that meet one term of each group of the query, in no order. There is at least one term,
 * none of them is a fact, and whether one is negated is the sink's business. From any thread. 0, -EINTR
 * (stopped), or -errno. */
int search_index_find(struct cache *cache, const struct search_query *query, search_hit_sink sink,
                      search_stop stop, void *context);

#endif
