/* SPDX-License-Identifier: MIT */
/*
 * An inbox is its published record (interface, GET /api/v1/inbox), kept as JSON in the table `inboxes` under
 * a number, `seq`. The record's rules decide who may write to it: a block list, an allow list, and whether
 * mail reaches it by Cc and by Bcc.
 */
#ifndef INBOXFS_SERVICE_INBOX_H
#define INBOXFS_SERVICE_INBOX_H

#include <jansson.h>
#include <sqlite3.h>
#include <stdint.h>

#include "service/validation.h"

struct service_inbox {
    int64_t seq;    /* its key in the database */
    json_t *record; /* owned */
};

/* Accepts an inbox of zeros. */
void service_inbox_release(struct service_inbox *inbox);

#define _cleanup_inbox_ __attribute__((cleanup(service_inbox_release)))

/* Borrowed from the record; never NULL. */
const char *service_inbox_id(const struct service_inbox *inbox);
const char *service_inbox_address(const struct service_inbox *inbox);
/* NULL when it has none. */
const char *service_inbox_name(const struct service_inbox *inbox);

/* Finds an inbox. Addresses are compared without regard to the case of ASCII letters. Return: 0, -ENOENT or
 * -errno. */
int service_inbox_find_by_id(sqlite3 *db, const char *id, struct service_inbox *ret_inbox);
int service_inbox_find_by_address(sqlite3 *db, const char *address, struct service_inbox *ret_inbox);

/* Finds the inbox that gets the mail for `address`: its own, else, for user+tag@domain, that of user@domain.
 * 0, -ENOENT or -errno. */
int service_inbox_find_for_mail(sqlite3 *db, const char *address, struct service_inbox *ret_inbox);

/* Completes the settings (inbox_settings_read()) to the published record, in place, and stores it, inside a
 * write transaction: for the inbox `seq`, or for a new one if that is 0. Return: 0; -EEXIST if another inbox
 * has the address; -errno. */
int service_inbox_store(sqlite3 *db, int64_t seq, json_t *settings);

/* The header by which a message reached an inbox; of several the most open one counts. */
enum recipient_header {
    DELIVERY_TO,
    DELIVERY_CC,
    DELIVERY_BCC,
};

struct verdict {
    const char *status;  /* the record's `status`: "valid", "blocked_from_address" … */
    const char *message; /* its `status_message`; NULL when valid */
};

/* Applies the rules of `record` (a published inbox record) to a message. A block wins over everything; an
 * allow list without entries allows all. */
struct verdict inbox_judge(const json_t *record, const char *from_address, enum recipient_header header);

/* Reads a request to create or update an inbox (interface, POST /api/v1/inbox/upsert): every settable field
 * of the published record, and its id, which is null for a new inbox. A field that the request leaves out
 * gets its default, also in an update. Adds mistakes to `validation`; the caller must not use the settings if
 * there are any. The caller owns the settings. Return: NULL without memory. */
json_t *inbox_settings_read(json_t *body, struct validation *validation);

/* Makes the default settings of a new inbox of this address. The caller owns them. Return: 0; -EBADMSG if it
 * is no address; -ENOMEM. */
int inbox_settings_default(const char *address, json_t **ret_settings);

#endif
