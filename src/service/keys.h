/* SPDX-License-Identifier: MIT */
/*
 * API keys. A key is 256 random bits in hex. The database has its SHA-256, its first 8 digits for lists, and
 * when it was made and revoked; the key itself is shown once, when it is made. All keys belong to the one
 * context, and each opens all of it.
 *
 * The first start makes a key and leaves it in DIR/api-key, so that a local client can find it. It writes the
 * file first and the database second: a crash in between leaves a file whose key the next start takes over.
 *
 * The commands are those of `inboxd key`. They open the database from a process of their own, also while a
 * service runs on it, and never make a directory that is not there.
 */
#ifndef INBOXFS_SERVICE_KEYS_H
#define INBOXFS_SERVICE_KEYS_H

#include <stdio.h>

#include "service/tables.h"

/* 1: a key that is in force, 0: any other text, or -errno. */
int keys_is_known(struct database *database, const char *key);

/* Makes the first key if there never was one, or finishes an interrupted start. 0 or -errno. */
int keys_establish_first(struct database *database, int dir_fd);

/* Prints the new key, the only time that it is shown. All: 0, -ENOENT (no data in the directory, no such key)
 * or -errno. */
int keys_command_add(const char *data_dir, FILE *out);

/* A line for each key in force: its id, its first characters, when it was made. */
int keys_command_list(const char *data_dir, FILE *out);

/* -ENOKEY: no key in force has this id. */
int keys_command_revoke(const char *data_dir, const char *id);

#endif
