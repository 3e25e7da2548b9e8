/* SPDX-License-Identifier: MIT */
/*
 * The API key: from a file that only its owner can read, the environment, or a command. It never is an
 * argument.
 */
#ifndef INBOXFS_API_KEY_H
#define INBOXFS_API_KEY_H

#include "options.h"

/* The key by the order of the filesystem contract: file, environment, command, configuration. The caller
 * hands it to api_key_free(). 0 or -errno, said on the log. */
int api_key_read(const struct options *options, char **ret_key);

/* Wipes and frees; NULL-safe. */
void api_key_free(char *key);

#endif
