/* SPDX-License-Identifier: MIT */
/*
 * API keys: 256 random bits in hex, kept as their SHA-256 alone. All belong to the one account.
 */
#ifndef INBOXFS_SERVICE_KEYS_H
#define INBOXFS_SERVICE_KEYS_H

#include <sqlite3.h>
#include <stdbool.h>

enum {
    API_KEY_LENGTH = 64, /* characters */
    API_KEY_SIZE = API_KEY_LENGTH + 1,
};

/* Makes up a new key; it is not known to any database yet. 0 or -errno. */
int keys_generate(char ret_key[API_KEY_SIZE]);

/* Whether it has the form of a key. */
bool keys_is_well_formed(const char *key);

/* Inside a write transaction. `ret_id` may be NULL. 0, -EEXIST or -errno. */
int keys_add(sqlite3 *db, const char *key, char ret_id[37]);

/* Inside a write transaction, by id. 0, -ENOENT (no such key, or revoked already) or -errno. */
int keys_revoke(sqlite3 *db, const char *id);

/* 1: a key that is in force, 0: not, or -errno. */
int keys_is_known(sqlite3 *db, const char *key);

/* Whether there never was a key: 1, 0 or -errno. */
int keys_is_empty(sqlite3 *db);

#endif
