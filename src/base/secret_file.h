/* SPDX-License-Identifier: MIT */
/*
 * Secrets in files: passwords and signing keys. A secret is never an argument, since all users can see
 * arguments, and other users must not be able to read the file of a secret.
 */
#ifndef INBOXFS_BASE_SECRET_FILE_H
#define INBOXFS_BASE_SECRET_FILE_H

#include <stddef.h>

enum {
    SECRET_MAX_BYTES = 4096
};

/* Reads the single line of a file or pipe, without its line end; free it with secret_free(). The file must
 * belong to this user, or to root, who may let a group read it. `what` names the file in the reason ("the
 * key file"). Return: 0; -EACCES when other users have access; -EPERM when another user owns it; -EINVAL
 * when it is not one line; or -errno, each with *ret_reason (the caller frees). */
int secret_file_read(const char *path, const char *what, char **ret_secret, char **ret_reason);

/* Reads all bytes of a secret's file, and puts a NUL after them; the caller wipes and frees them. Return: as
 * secret_file_read(), but any content is accepted; -EFBIG when the file is longer than `max_bytes`. */
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
