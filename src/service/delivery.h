/* SPDX-License-Identifier: MIT */
/*
 * Delivery: a message is stored once, and put into each inbox that it reaches. If an inbox's rules are
 * against a message, it is put there all the same, with a status that names the rule, and a list of valid
 * mail leaves it out.
 *
 * The service composes a message itself (sending.h), or gets it as RFC 5322 text: by `inboxd deliver`, which
 * mail servers call, or by SMTP or LMTP (smtp_server.h). It keeps the text byte for byte, and reads from it
 * all that it shows.
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
    DELIVERY_INBOXES_MAX = 10 * 1000,      /* from that number on, mail makes no inbox */
};

/* What is stored of a message besides its values. */
struct message_row {
    char *header;      /* the fields that all its content records have in common, as JSON */
    char *search_text; /* the text that a search compares */
    const char *raw;   /* RFC 5322 text; borrowed */
    size_t raw_len;
};

/* Accepts a row of zeros. */
void message_row_release(struct message_row *row);

/* Makes the header and the text for searches. Return: 0 or -ENOMEM. */
int message_row_fill(struct message_row *row, const struct message *message);

/* Stores a message, inside a write transaction. Later messages find it by `key` to join its thread; the key
 * is its message_id, unless another message has the same one. Return: 0 or -errno. */
int delivery_store(sqlite3 *db, const struct message *message, const char *key, const struct message_row *row,
                   int64_t *ret_seq);

/* Puts a stored message into the inbox of `recipient` (an address as in struct message), inside a write
 * transaction. Return: 0, also if the inbox has it already; -ENOENT if there is no such inbox; -errno. */
int delivery_put(sqlite3 *db, const struct message *message, int64_t seq, enum recipient_header header,
                 const json_t *recipient);

/* Returns the date in the form of records; NULL without memory. */
json_t *delivery_date(int64_t date_ms);

/* A message from elsewhere, and whom it is for. */
struct delivery {
    const char *sender; /* of the envelope; "" or NULL: none. Stands in for a missing From */
    const char *const *recipients;
    size_t recipients_len;   /* 1 to DELIVERY_RECIPIENTS_MAX */
    const char *raw;         /* any bytes */
    size_t raw_len;          /* at most DELIVERY_MAX_BYTES */
    const char *new_inboxes; /* the domain where recipients without an inbox get one; "": everywhere; NULL:
                                nowhere */
};

/* Returns true if an address is in this domain (the part behind the last @). */
bool delivery_is_in_domain(const char *address, const char *domain);

/* Returns true if mail for this address makes an inbox, if there is none. `new_inboxes` is that of struct
 * delivery. */
bool delivery_makes_inbox(const char *new_inboxes, const char *address);

/* Puts the message into the inboxes of all recipients, or of none. The same bytes again change nothing in an
 * inbox that has them, if they have a Message-ID. Return: 0, and the message is durable; -ENOENT if the
 * recipient of index *ret_unknown has no inbox and cannot get one; -EUSERS if there would be more than
 * DELIVERY_INBOXES_MAX inboxes; -errno. */
int delivery_receive(struct database *database, const struct delivery *delivery, size_t *ret_unknown);

#endif
