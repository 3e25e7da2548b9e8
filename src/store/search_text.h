/* SPDX-License-Identifier: MIT */
/*
 * The body of an email whose content was read, and the names of its attachments, on their way to the search
 * index.
 */
#ifndef INBOXFS_STORE_SEARCH_TEXT_H
#define INBOXFS_STORE_SEARCH_TEXT_H

#include "store/search_feed.h"
#include "store/store_content.h"

/* Hands them over, unless that was done before in this mount. Does not wait for more than the content's own
 * file. `feed` may be NULL. */
void search_text_note(struct search_feed *feed, const struct store_content *content);

#endif
