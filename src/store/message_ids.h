/* SPDX-License-Identifier: MIT */
/*
 * A table of the cache (cache.h) that finds emails by Message-ID. An answer that is written in a mail program
 * names the answered email by Message-ID. The service's lists do not have Message-IDs, so a row is added when
 * the content of an email is fetched: the mail program has read that content.
 *
 * A Message-ID may belong to several emails, one in each inbox that got the message. Senders choose
 * Message-IDs, so the number of emails for each is bounded: the first ones are kept. All rows are bounded as
 * well: the oldest are deleted. A row has 64 bits of the Message-ID's digest.
 */
#ifndef INBOXFS_STORE_MESSAGE_IDS_H
#define INBOXFS_STORE_MESSAGE_IDS_H

#include "store/cache.h"

enum {
    MESSAGE_IDS_MAX = 1000 * 1000,
    MESSAGE_IDS_EMAILS_MAX = 64, /* emails of one Message-ID */
};

/* Adds the Message-ID, without brackets, of an email. The caller has the turn to write to the cache. Ignores
 * an `email_id` of more than 255 bytes. Return: 0; -errno of SQLite. */
int message_ids_add(struct connection *writer, const char *message_id, const char *email_id);

/* Finds the ids of the emails that have the Message-ID, oldest row first; there may be none. The caller frees
 * each id. May be called from any thread; waits for the disk. Return: 0; -ENOMEM; another -errno when the
 * cache cannot be read. */
int message_ids_find(struct cache *cache, const char *message_id, char *ret_email_ids[MESSAGE_IDS_EMAILS_MAX],
                     size_t *ret_len);

#endif
