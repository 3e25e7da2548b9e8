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

/* Both inside a write transaction. The settings (struct inbox_request) are completed to the published record,
 * in place, and stored. An insertion finds them in `inbox->record` and sets `seq`; an update replaces the
 * record of `inbox` by them. -EEXIST: the address is taken. */
int service_inbox_insert(sqlite3 *db, struct service_inbox *inbox);
int service_inbox_update(sqlite3 *db, const struct service_inbox *inbox, json_t *settings);

/* Whether the account has no inbox yet: 1, 0 or -errno. */
int service_inbox_is_none(sqlite3 *db);

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

/* What the rules of `record` (a published inbox record) say to a message. A block wins over everything; an
 * allow list without entries allows all. */
struct verdict inbox_judge(const json_t *record, const char *from_address, enum delivery_way way);

/* A request to create or update an inbox (interface, POST /api/v1/inbox/upsert), read and checked. An update
 * is a full update: a field that is left out falls to its default. */
struct inbox_request {
    const char *id;   /* borrowed from the body; NULL: to be created */
    json_t *settings; /* every settable field of the published record, defaults filled in; owned */
};

/* `body` is borrowed for as long as the request lives. What is wrong is added to `validation`, and then the
 * request is not to be used but for its release. 0 or -ENOMEM. */
int inbox_request_read(json_t *body, struct validation *validation, struct inbox_request *ret_request);
void inbox_request_release(struct inbox_request *request);

/* The request for a new inbox of this address that says nothing else; to be released, on failure too. 0,
 * -EBADMSG (it is no address) or -ENOMEM. */
int inbox_request_default(const char *address, struct inbox_request *ret_request);

#endif
