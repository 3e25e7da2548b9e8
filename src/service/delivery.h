/* SPDX-License-Identifier: MIT */
/*
 * Delivery stores a message once, and an email for each inbox that the message reaches. If the rules of an
 * inbox are against the message, the email's status names the rule, and lists of valid mail leave the email
 * out.
 *
 * The service composes a message itself (sending.h), or gets it as RFC 5322 text: by `inboxd deliver`, which
 * mail servers call, or by SMTP or LMTP (smtp_server.h). Such a text is stored byte for byte, except for an
 * mbox's "From " line before it.
 */
#ifndef INBOXFS_SERVICE_DELIVERY_H
#define INBOXFS_SERVICE_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mail/smtp_session.h"
#include "service/inbox.h"
#include "service/message.h"
#include "service/tables.h"

enum {
    DELIVERY_MAX_BYTES = 50 * 1000 * 1000, /* size of a message that another program wrote */
    DELIVERY_INBOXES_MAX = 10 * 1000,      /* once there are this many inboxes, mail makes no new one */
};

/* Stores a message in the row *ret_seq. Replies find the message by its Message-ID, unless an earlier message
 * has this Message-ID. The caller has the turn to write. Return: 0 or -errno. */
int delivery_store(struct connection *turn, const struct message *message, int64_t *ret_seq);

/* Adds an email of a stored message to the inbox of `recipient`, an address as in struct message. The caller
 * has the turn to write. Return: 0, also if the inbox has the message already; -ENOENT if there is no such
 * inbox; -errno. */
int delivery_add_email(struct connection *turn, const struct message *message, int64_t seq,
                       enum recipient_header header, const json_t *recipient);

/* Returns the date in the form of records. */
json_t *delivery_date(int64_t date_ms);

/* Returns true if the address ends with "@" and this domain. */
bool delivery_is_in_domain(const char *address, const char *domain);

/* Returns true if mail for this address makes an inbox when no inbox has the address. `new_inboxes` is the
 * domain of such addresses, "" for all addresses, or NULL for none. */
bool delivery_makes_inbox(const char *new_inboxes, const char *address);

/* Puts a message of another program, of at most DELIVERY_MAX_BYTES, durably into the inboxes of all
 * recipients, or of none. The envelope's sender replaces a missing From. An inbox that has the same bytes
 * already does not get them again, if they have a Message-ID. Waits for the disk. Return: 0; -ENOENT if the
 * recipient at index *ret_unknown has no inbox and cannot get one (delivery_makes_inbox()); -EUSERS if there
 * would be more than DELIVERY_INBOXES_MAX inboxes; -errno. */
int delivery_receive(struct database *database, const struct smtp_message *received, const char *new_inboxes,
                     size_t *ret_unknown);

#endif
