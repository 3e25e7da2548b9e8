/* SPDX-License-Identifier: MIT */
/*
 * A file of `name = value` lines; `#` begins a comment line. Names may be written with `-` or `_`.
 */
#ifndef INBOXFS_CONFIG_FILE_H
#define INBOXFS_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct config_setting {
    const char *name;
    char **text; /* set to an allocated copy where it is NULL so far; or */
    int *flag;   /* set to 1 by true, yes, 1; left alone by false, no, 0. Both NULL: accepted and ignored */
    bool is_secret; /* a file that sets it may be read by its owner only */
};

/* Reads `path`; one that is missing, or out of this user's reach, is no error unless `is_required`. 0 or
 * -errno, said on the log. */
int config_file_read(const char *path, bool is_required, const struct config_setting *settings, size_t len);

/* Whether nobody but this user and root can change what such a file says. `what` it is, for the words. 0, or
 * -EPERM, said on the log. */
int config_file_check_owner(const struct stat *status, const char *what, const char *path);

#endif
