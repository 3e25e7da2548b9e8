/* SPDX-License-Identifier: MIT */
/*
 * API keys. A key is 256 random bits in hex, and gives access to the whole account. For each key the
 * database has the SHA-256, the key's first 8 digits for lists, and the times at which the key was made and
 * revoked. The key itself is shown only once, when it is made.
 *
 * The first start of a service makes a key, and leaves it in DIR/api-key for local clients. The file is
 * written before the database: after a crash in between, the next start uses the key in the file.
 *
 * The last three functions are the commands of `inboxd key`, which may run while a service does.
 */
#ifndef INBOXFS_SERVICE_KEYS_H
#define INBOXFS_SERVICE_KEYS_H

#include <stdio.h>

#include "service/tables.h"

/* Return: 1 if the key is valid; 0 for any other text; or -errno. */
int keys_is_valid(struct database *database, const char *key);

/* Makes the first key if there never was one, or finishes an interrupted start. Return: 0 or -errno. */
int keys_establish_first(struct database *database, int dir_fd);

/* Makes a key and prints it. Return: 0 or -errno. */
int keys_add(struct database *database, FILE *out);

/* Prints a line for each valid key: its id, its first characters, and the date on which it was made. Return:
 * 0 or -errno. */
int keys_list(struct database *database, FILE *out);

/* Return: 0; -ENOKEY if no valid key has this id; or -errno. */
int keys_revoke(struct database *database, const char *id);

#endif
