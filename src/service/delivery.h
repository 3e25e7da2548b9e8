/* SPDX-License-Identifier: MIT */
/*
 * Mail on its way: what is sent is stored, and delivered into the inboxes here that it is addressed to.
 * Recipients elsewhere are not relayed to; the email then stays `pending`.
 */
#ifndef INBOXFS_SERVICE_DELIVERY_H
#define INBOXFS_SERVICE_DELIVERY_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/inboxes.h"
#include "service/message.h"
#include "service/submission.h"

/* Where a message belongs: with the thread of the one it replies to, or on its own. */
struct lineage {
    int64_t thread;        /* 0: a thread of its own */
    int64_t forward_depth; /* how many messages are enclosed in each other */
};

/* All inside a write transaction. 0 or -errno. */

/* Stores a message and its text. */
int delivery_store(sqlite3 *db, const struct message *message, const char *raw, size_t raw_len,
                   struct lineage lineage, int64_t *ret_seq);

/* Delivers a stored message into each inbox that it names, once. `ret_is_complete`: every recipient has an
 * inbox here. */
int delivery_distribute(sqlite3 *db, const struct message *message, int64_t seq, bool *ret_is_complete);

/* The record of what an inbox sent (interface, GET /api/v1/email/outbound). */
int delivery_record_sent(sqlite3 *db, const struct message *message, int64_t seq, const struct inbox *sender,
                         enum message_type type, bool is_complete, char ret_id[37]);

/* Greets the account's first inbox from support@domain; nothing happens where the inbox's rules are against
 * it. */
int delivery_welcome(sqlite3 *db, const struct inbox *inbox, const char *domain);

#endif
