/* SPDX-License-Identifier: MIT */
/*
 * Secrets in files: passwords, and keys that sign. A secret is never an argument, which everybody can see,
 * and a file that holds one must be closed to others.
 */
#ifndef INBOXFS_BASE_SECRET_FILE_H
#define INBOXFS_BASE_SECRET_FILE_H

#include <stddef.h>

enum {
    SECRET_MAX_BYTES = 4096
};

/* The one line of text that the file holds, without its line end. The file (or pipe) must belong to this
 * user and be closed to all others; or to root, who may let a group read it. `what` says in the reason whose
 * file it is: "the key file". The caller frees with secret_free(). 0; or -errno with the words in *ret_reason
 * (the caller frees; NULL without memory). */
int secret_file_read(const char *path, const char *what, char **ret_secret, char **ret_reason);

/* Likewise all bytes of the file, at most `max_bytes`, and a NUL behind them. The caller wipes and frees. */
int secret_file_read_all(const char *path, const char *what, size_t max_bytes, char **ret_text,
                         size_t *ret_len, char **ret_reason);

/* Wipes and frees. NULL-safe. */
void secret_free(char *secret);

static inline void cleanup_secret(char **secret)
{
    secret_free(*secret);
}
#define _cleanup_secret_ __attribute__((cleanup(cleanup_secret)))

#endif
