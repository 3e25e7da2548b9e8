/* SPDX-License-Identifier: MIT */
/*
 * The account's inboxes in the database. An inbox is its published record (interface, GET /api/v1/inbox).
 */
#ifndef INBOXFS_SERVICE_INBOXES_H
#define INBOXFS_SERVICE_INBOXES_H

#include <jansson.h>
#include <sqlite3.h>
#include <stdint.h>

struct inbox {
    int64_t seq;    /* its key in the database */
    json_t *record; /* owned */
};

/* Accepts an inbox of zeros. */
void inbox_release(struct inbox *inbox);

#define _cleanup_inbox_ __attribute__((cleanup(inbox_release)))

/* Borrowed from the record; never NULL. */
const char *inbox_id(const struct inbox *inbox);
const char *inbox_address(const struct inbox *inbox);
/* NULL when it has none. */
const char *inbox_name(const struct inbox *inbox);

/* 0, -ENOENT or -errno. Addresses are compared without regard to the case of ASCII letters. */
int inboxes_find_by_id(sqlite3 *db, const char *id, struct inbox *ret_inbox);
int inboxes_find_by_address(sqlite3 *db, const char *address, struct inbox *ret_inbox);

/* Inside a write transaction; `inbox->record` is stored. Insertion sets `seq`. -EEXIST: the address is taken.
 */
int inboxes_insert(sqlite3 *db, struct inbox *inbox);
int inboxes_update(sqlite3 *db, const struct inbox *inbox);

/* Whether there is none yet: 1, 0 or -errno. */
int inboxes_is_empty(sqlite3 *db);

#endif
