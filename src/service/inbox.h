/* SPDX-License-Identifier: MIT */
/*
 * An inbox is its published record (interface, GET /api/v1/inbox), which the table `inboxes` has as JSON. The
 * rules in the record decide whose mail is valid: a block list, an allow list, and whether the inbox may be
 * reached by Cc and by Bcc.
 */
#ifndef INBOXFS_SERVICE_INBOX_H
#define INBOXFS_SERVICE_INBOX_H

#include <jansson.h>
#include <stdint.h>

#include "service/validation.h"
#include "sql/query.h"

struct service_inbox {
    int64_t seq;    /* key of the row in `inboxes` */
    json_t *record; /* owned */
};

/* Accepts a zeroed inbox. */
void service_inbox_release(struct service_inbox *inbox);

#define _cleanup_inbox_ __attribute__((cleanup(service_inbox_release)))

/* Return a text that is borrowed from the record; for the settings of a new inbox, the id is NULL. */
const char *service_inbox_id(const struct service_inbox *inbox);
const char *service_inbox_address(const struct service_inbox *inbox);
/* Returns NULL if the inbox has no name. */
const char *service_inbox_name(const struct service_inbox *inbox);

/* Find an inbox. The case of ASCII letters in addresses is ignored. Mail for user+tag@domain is for the inbox
 * of this address or, if there is none, for that of user@domain. Return: 0, -ENOENT or -errno. */
int service_inbox_find_by_id(struct connection *connection, const char *id, struct service_inbox *ret_inbox);
int service_inbox_find_by_address(struct connection *connection, const char *address,
                                  struct service_inbox *ret_inbox);
int service_inbox_find_for_mail(struct connection *connection, const char *address,
                                struct service_inbox *ret_inbox);

/* Turns the settings (inbox_settings_read()) in place into the published record, and stores it in the row
 * `seq`, or in a new row if `seq` is 0. The caller has the turn to write. Return: 0; -EEXIST if another inbox
 * has the address; -errno. */
int service_inbox_store(struct connection *turn, int64_t seq, json_t *settings);

/* The header in which a message names an inbox. If several do, the first in this order counts. */
enum recipient_header {
    DELIVERY_TO,
    DELIVERY_CC,
    DELIVERY_BCC,
};

struct verdict {
    const char *status;  /* the record's `status`: "valid", "blocked_from_address" … */
    const char *message; /* its `status_message`; NULL if the status is "valid" */
};

/* Applies the rules of an inbox record, first the block list, also to `authors` (JSON or NULL; a ">" may
 * lack). An allow list without entries allows all senders. */
struct verdict inbox_judge(const json_t *record, const char *from_address, const json_t *authors,
                           enum recipient_header header);

/* Reads a request to make or update an inbox (interface, POST /api/v1/inbox/upsert). Returns the settable
 * fields of the published record, with defaults for those that the request leaves out, and the id, which is
 * null for a new inbox. The caller owns them. Adds mistakes to `validation`; if there are any, the caller
 * must not use the settings. */
json_t *inbox_settings_read(json_t *body, struct validation *validation);

/* Returns the default settings of a new inbox, which the caller owns; NULL if `address` is not a valid
 * address. */
json_t *inbox_settings_default(const char *address);

#endif
