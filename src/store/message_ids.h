/* SPDX-License-Identifier: MIT */
/*
 * Which emails a Message-ID names: by it an answer that was written in a mail program names the email that it
 * answers. Such a program knows a Message-ID because it has read the message here, so the Message-ID of each
 * message is noted when its content is fetched, and nothing is asked of the service for it. The service's
 * lists do not have them.
 *
 * They are a table of the cache (cache.h), bounded in number: the oldest go first. One Message-ID may name
 * several emails, one in each inbox that got the message; and as senders choose them, the first ones stay, up
 * to a bound. A row has 64 bits of a digest, which nobody can make another Message-ID for.
 */
#ifndef INBOXFS_STORE_MESSAGE_IDS_H
#define INBOXFS_STORE_MESSAGE_IDS_H

#include "store/cache.h"

enum {
    MESSAGE_IDS_MAX = 1000 * 1000,
    MESSAGE_IDS_EMAILS_MAX = 64, /* of one Message-ID */
};

/* Notes, in a turn to write of the cache, that the email's message has this Message-ID, without brackets. 0
 * or -errno. */
int message_ids_note(struct connection *writer, const char *message_id, const char *email_id);

/* Fills in the ids of the emails that it names, in the order in which they were noted, perhaps none (waits
 * for the disk). From any thread. The caller frees each. 0, -ENOMEM, or another -errno: the cache cannot be
 * read, and it is not known whether there are any. */
int message_ids_find(struct cache *cache, const char *message_id, char *ret_email_ids[MESSAGE_IDS_EMAILS_MAX],
                     size_t *ret_len);

#endif
