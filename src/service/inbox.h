/* SPDX-License-Identifier: MIT */
/*
 * An inbox. It is its published record (interface, GET /api/v1/inbox), kept as JSON in the table `inboxes`;
 * its key there is a number, `seq`. The record's rules say who may write to it: a block list, an allow list,
 * and whether it may be reached by Cc and by Bcc.
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

/* 0, -ENOENT or -errno. Addresses are compared without regard to the case of ASCII letters. */
int service_inbox_find_by_id(sqlite3 *db, const char *id, struct service_inbox *ret_inbox);
int service_inbox_find_by_address(sqlite3 *db, const char *address, struct service_inbox *ret_inbox);

/* Finds the inbox that gets the mail for `address`: its own, else, for user+tag@domain, that of user@domain.
 * 0, -ENOENT or -errno. */
int service_inbox_find_for_mail(sqlite3 *db, const char *address, struct service_inbox *ret_inbox);

/* Inside a write transaction: completes the settings (inbox_settings_read()) to the published record, in
 * place, and stores it for the inbox of this key; 0: for a new one. 0, -EEXIST (the address is taken) or
 * -errno. */
int service_inbox_store(sqlite3 *db, int64_t seq, json_t *settings);

/* How a message reached an inbox; of several ways the most open one counts. */
enum delivery_way {
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
struct verdict inbox_judge(const json_t *record, const char *from_address, enum delivery_way way);

/* Reads a request to create or update an inbox (interface, POST /api/v1/inbox/upsert): every settable field
 * of the published record, and its id, null where it is to be created. An update is a full update: a field
 * that is left out falls to its default. What is wrong is added to `validation`, and then the settings are
 * not to be used. The caller owns them. NULL without memory. */
json_t *inbox_settings_read(json_t *body, struct validation *validation);

/* The settings of a new inbox of this address of which nothing else is said. The caller owns them. 0,
 * -EBADMSG (it is no address) or -ENOMEM. */
int inbox_settings_default(const char *address, json_t **ret_settings);

#endif
