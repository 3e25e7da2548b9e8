/* SPDX-License-Identifier: MIT */
/*
 * Which emails a Message-ID names: what an answer written in a mail program says of the email that it
 * answers. Such a program knows a Message-ID because it has read the message here, so those of messages are
 * noted as they pass through, and nothing is asked of the service for it. The service's lists do not have
 * them.
 *
 * They are kept in a state file of the cache (state_file.h), bounded in number: the oldest go first. One
 * Message-ID may name several emails, one in each inbox that got the message; and as senders choose them,
 * the first ones stay, up to a bound. What is damaged or lost is noted anew when the message is opened again.
 *
 * Callable from any thread at once. What could not be noted for want of disk is not known.
 */
#ifndef INBOXFS_STORE_MESSAGE_IDS_H
#define INBOXFS_STORE_MESSAGE_IDS_H

#include <pthread.h>
#include <stdint.h>

#include "store/state_file.h"

enum {
    MESSAGE_IDS_MAX = 1000 * 1000,
    MESSAGE_IDS_EMAILS_MAX = 64, /* of one Message-ID */
};

struct message_ids {
    struct state_file file;
    int64_t max;
    pthread_mutex_t lock; /* held while one is noted; taken before those of the file */
};

/* Opens or makes the file in `dir_fd` for about `max` of them (waits for the disk). 0; -ENOMEM. */
int message_ids_open(struct message_ids *ids, int dir_fd, int64_t max);
/* All zeros are fine, too. Waits for the disk. */
void message_ids_release(struct message_ids *ids);

/* The email's message has this Message-ID, without brackets. Waits for the disk, but not for it to be
 * durable. */
void message_ids_note(struct message_ids *ids, const char *message_id, const char *email_id);

/* The ids of the emails that it names, in the order in which they were noted, perhaps none (waits for the
 * disk). The caller frees each. 0, -ENOMEM, or another -errno: the file cannot be read, and it is not known
 * whether there are any. */
int message_ids_find(struct message_ids *ids, const char *message_id,
                     char *ret_email_ids[MESSAGE_IDS_EMAILS_MAX], size_t *ret_len);

#endif
