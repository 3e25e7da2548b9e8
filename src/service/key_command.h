/* SPDX-License-Identifier: MIT */
/*
 * `inboxd key add|list|revoke`: the keys of a data directory, also while a service runs on it.
 */
#ifndef INBOXFS_SERVICE_KEY_COMMAND_H
#define INBOXFS_SERVICE_KEY_COMMAND_H

#include <stdio.h>

/* Prints the new key, the only time that it is shown. All: 0, -ENOENT (no data in the directory, no such key)
 * or -errno. */
int key_command_add(const char *data_dir, FILE *out);

/* A line for each key in force: its id, its first characters, when it was made. */
int key_command_list(const char *data_dir, FILE *out);

int key_command_revoke(const char *data_dir, const char *id);

#endif
