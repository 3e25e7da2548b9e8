/* SPDX-License-Identifier: MIT */
/*
 * Keeps the search index up to date with what the store's index holds, in a thread of its own: some moments
 * after something changed, or at once when somebody is about to search. What was indexed before the last end
 * is not looked at again; an index that is lost, damaged or of other records is built anew. The thread gives
 * way to all others, and rests as long as it works unless somebody waits for it.
 */
#ifndef INBOXFS_STORE_SEARCH_FEED_H
#define INBOXFS_STORE_SEARCH_FEED_H

#include <stdint.h>

#include "base/wait.h"
#include "mail/content_folder.h"
#include "store/index.h"
#include "store/search_index.h"

struct search_feed;

/* The index is to be in `dir_fd`. NULL without memory. */
struct search_feed *search_feed_new(struct index *index, int dir_fd);
/* After search_feed_stop(). NULL-safe. */
void search_feed_free(struct search_feed *feed);

/* 0 or -errno. */
int search_feed_start(struct search_feed *feed);
/* Ends the thread, which keeps what it was given of texts (about a megabyte at the most), and closes the
 * index: no search may be under way. */
void search_feed_stop(struct search_feed *feed);

/* An email was added, changed or removed. Does not wait. NULL-safe. */
void search_feed_note(struct search_feed *feed, uint32_t email);
/* Some emails were added, or the index was found to be damaged. NULL-safe. */
void search_feed_wake(struct search_feed *feed);

/* The content of an email was read, what is in `folder`: its body and the names of its
 * attachments are to be found by from now on, unless they were handed over before in this mount. Where there
 * is no room for them, they are the next time. Does not wait. NULL-safe.
 */
void search_feed_note_content(struct search_feed *feed, uint32_t email, const struct content_folder *folder);

/* Waits until what is known now is in the index, at most `timeout_ms`; false: some of it may not be. */
bool search_feed_settle(struct search_feed *feed, int64_t timeout_ms, struct cancel *cancel);

/* The index, or NULL: there is none (yet). Valid until search_feed_stop(). */
struct search_index *search_feed_index(struct search_feed *feed);

#endif
