/* SPDX-License-Identifier: MIT */
/*
 * Secrets that users hand over: the API key, the secret of webhooks. Each is one word of printable ASCII. It
 * never is an argument, and a file that holds one is this user's or root's, and readable by its owner only.
 */
#ifndef INBOXFS_SECRET_H
#define INBOXFS_SECRET_H

#include "base/cleanup.h"

enum {
    SECRET_MAX_BYTES = 4096
};

/* Overwrites it where it stood, frees it, and leaves NULL there. NULL-safe. */
void secret_free(char **secret);
#define _cleanup_secret_ _cleanup_(secret_free)

/* The word that the text is, without the blanks and line ends around it. 0, -EINVAL, -ENOMEM. */
int secret_take_word(const char *text, char **ret_secret);

/* Reads a file; `what` it is, for the words ("the API key file"). 0 or -errno, said on the log. */
int secret_read_file(const char *path, const char *what, char **ret_secret);

#endif
