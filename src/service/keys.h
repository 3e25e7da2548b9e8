/* SPDX-License-Identifier: MIT */
/*
 * API keys. A key is 256 random bits in hex, and gives access to the whole account. For each key the
 * database has the SHA-256, the key's first 8 digits for lists, and the times at which the key was made and
 * revoked. The key itself is shown only once, when it is made.
 *
 * The first start of a service makes a key, and leaves it in DIR/api-key for local clients. The file is
 * written before the database: after a crash in between, the next start uses the key in the file.
 *
 * The keys_command_ functions are the commands of `inboxd key`, which may run while a service does.
 */
#ifndef INBOXFS_SERVICE_KEYS_H
#define INBOXFS_SERVICE_KEYS_H

#include <stdio.h>

#include "service/tables.h"

/* Return: 1 if the key is valid; 0 for any other text; or -errno. */
int keys_is_valid(struct database *database, const char *key);

/* Makes the first key if there never was one, or finishes an interrupted start. Return: 0 or -errno. */
int keys_establish_first(struct database *database, int dir_fd);

/* Makes a key and prints it. Return, also of the next two functions: 0; -ENOENT if no service has used the
 * directory; -errno. */
int keys_command_add(const char *data_dir, FILE *out);

/* Prints a line for each valid key: its id, its first characters, and the date on which it was made. */
int keys_command_list(const char *data_dir, FILE *out);

/* Revokes a key. Returns -ENOKEY if no valid key has this id. */
int keys_command_revoke(const char *data_dir, const char *id);

#endif
