/* SPDX-License-Identifier: MIT */
/*
 * API keys. A key is 256 random bits in hex. The database has its SHA-256, its first 8 digits for lists, and
 * when it was made and revoked; the key itself is shown once, when it is made. Each key opens the whole
 * account.
 *
 * The first start makes a key and leaves it in DIR/api-key, so that a local client can find it. It writes the
 * file first and the database second: a crash in between leaves a file whose key the next start takes over.
 *
 * The keys_command_ functions are the commands of `inboxd key`. Each opens the database in a process of its
 * own, also while a service runs on it, and makes no directory.
 */
#ifndef INBOXFS_SERVICE_KEYS_H
#define INBOXFS_SERVICE_KEYS_H

#include <stdio.h>

#include "service/tables.h"

/* Returns 1 if the key is valid, 0 for any other text, or -errno. */
int keys_is_known(struct database *database, const char *key);

/* Makes the first key if there never was one, or finishes an interrupted start. Return: 0 or -errno. */
int keys_establish_first(struct database *database, int dir_fd);

/* Makes a key and prints it, the only time that it is shown. Return, as of the next two: 0; -ENOENT if no
 * service has used the directory; -errno. */
int keys_command_add(const char *data_dir, FILE *out);

/* Prints a line for each valid key: its id, its first characters, and when it was made. */
int keys_command_list(const char *data_dir, FILE *out);

/* Revokes a key. Returns -ENOKEY if no valid key has this id. */
int keys_command_revoke(const char *data_dir, const char *id);

#endif
