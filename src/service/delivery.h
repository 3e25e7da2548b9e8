/* SPDX-License-Identifier: MIT */
/*
 * Delivery: a message is stored once, and put into each inbox that it reaches. A message that an inbox's
 * rules are against is put there all the same, with the status that says why, and hidden from those who ask
 * for valid mail.
 *
 * A message is written here (sending.h), or comes from elsewhere as RFC 5322 text: by `inboxd deliver`, which
 * mail servers call, or by SMTP or LMTP (smtp_server.h). The service keeps the
 * text byte for byte, and reads from it all that it shows.
 */
#ifndef INBOXFS_SERVICE_DELIVERY_H
#define INBOXFS_SERVICE_DELIVERY_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/inbox.h"
#include "service/message.h"
#include "service/tables.h"

enum {
    DELIVERY_MAX_BYTES = 50 * 1000 * 1000, /* of a message from elsewhere */
    DELIVERY_RECIPIENTS_MAX = 1000,        /* their transaction keeps other writers waiting */
    DELIVERY_INBOXES_MAX = 10 * 1000,      /* messages make no inbox beyond */
};

/* What is stored of a message besides its values. */
struct message_row {
    char *header;      /* what the content records of all who see it have in common, as JSON */
    char *search_text; /* what a search reads */
    const char *raw;   /* RFC 5322 text; borrowed */
    size_t raw_len;
};

/* Accepts a row of zeros. */
void message_row_release(struct message_row *row);

/* Makes the header and the text for searches. 0 or -ENOMEM. */
int message_row_fill(struct message_row *row, const struct message *message);

/* Stores a message, inside a write transaction. By `key` later messages find it, to join its thread: its
 * message_id, unless another message has the same one. 0 or -errno. */
int delivery_store(sqlite3 *db, const struct message *message, const char *key, const struct message_row *row,
                   int64_t *ret_seq);

/* Puts a stored message into the inbox of `recipient` (an address as in struct message), inside a write
 * transaction. 0, where the inbox has it already, too; -ENOENT: there is no such inbox; -errno. */
int delivery_put(sqlite3 *db, const struct message *message, int64_t seq, enum delivery_way way,
                 const json_t *recipient);

/* A date as records have it; NULL without memory. */
json_t *delivery_date(int64_t date_ms);

/* A message from elsewhere, and whom it is for. */
struct delivery {
    const char *sender; /* of the envelope; "" or NULL: none. It counts where the message has no From */
    const char *const *recipients;
    size_t recipients_len;   /* 1 to DELIVERY_RECIPIENTS_MAX */
    const char *raw;         /* any bytes */
    size_t raw_len;          /* at most DELIVERY_MAX_BYTES */
    const char *new_inboxes; /* the domain where recipients without an inbox get one; "": everywhere; NULL:
                                nowhere */
};

/* Returns true if an address is in this domain (the part behind the last @). */
bool delivery_is_in_domain(const char *address, const char *domain);

/* Returns true if mail makes the inbox of this address, where there is none. `new_inboxes`: as in struct
 * delivery. */
bool delivery_makes_inbox(const char *new_inboxes, const char *address);

/* Puts the message into the inboxes of all recipients, or of none. It is durable when this returns 0. The
 * same bytes again change nothing in an inbox that has them, if they have a Message-ID. 0; -ENOENT: a
 * recipient has no inbox here and cannot get one, the one of index *ret_unknown; -EUSERS: there would be more
 * than DELIVERY_INBOXES_MAX inboxes; -errno. */
int delivery_receive(struct database *database, const struct delivery *delivery, size_t *ret_unknown);

#endif
