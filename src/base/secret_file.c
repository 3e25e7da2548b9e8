/* SPDX-License-Identifier: MIT */
/*
 * The owner and mode are checked on the descriptor that is then read, so that no user can replace the file
 * between check and read.
 */
#include "base/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/file.h"

void secret_free(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

__attribute__((format(printf, 3, 4))) static int set_reason(int error, char **ret_reason, const char *format,
                                                            ...)
{
    va_list arguments;
    va_start(arguments, format);
    *ret_reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    return error;
}

/* A group may read a file that belongs to root, since systemd gives credentials to a service by an ACL, which
 * shows as the mode of the group. */
static int check_access(const struct stat *status, const char *path, const char *what, char **ret_reason)
{
    bool is_lent = status->st_uid == 0 && geteuid() != 0;
    if ((status->st_mode & (is_lent ? 037 : 077)) != 0)
        return set_reason(-EACCES, ret_reason, "%s %s is open to others: chmod 600 %s", what, path, path);
    if (status->st_uid != geteuid() && status->st_uid != 0)
        return set_reason(-EPERM, ret_reason, "%s %s belongs to another user: it must be yours, or root's",
                          what, path);
    return 0;
}

/* Cuts the line end off. Returns false if what is left is not one line of text. */
static bool trim_line(char *text, size_t len)
{
    if (len > 0 && text[len - 1] == '\n')
        text[--len] = '\0';
    if (len > 0 && text[len - 1] == '\r')
        text[--len] = '\0';
    return len > 0 && strlen(text) == len && !character_has(text, CHARACTER_CONTROL | CHARACTER_INVALID);
}

int secret_file_read_all(const char *path, const char *what, size_t max_bytes, char **ret_text,
                         size_t *ret_len, char **ret_reason)
{
    *ret_reason = NULL;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        int error = -errno;
        return set_reason(error, ret_reason, "cannot read %s %s: %s", what, path, strerrordesc_np(-error));
    }
    int error = check_access(&status, path, what, ret_reason);
    if (error != 0)
        return error;
    error = file_read_fd(fd, max_bytes, ret_text, ret_len);
    if (error != 0)
        return set_reason(error, ret_reason, "cannot read %s %s: %s", what, path, strerrordesc_np(-error));
    return 0;
}

int secret_file_read(const char *path, const char *what, char **ret_secret, char **ret_reason)
{
    char *text = NULL;
    size_t len = 0;
    int error = secret_file_read_all(path, what, SECRET_MAX_BYTES, &text, &len, ret_reason);
    if (text == NULL)
        return error;
    if (!trim_line(text, len)) {
        explicit_bzero(text, len);
        free(text);
        return set_reason(-EINVAL, ret_reason, "%s %s does not hold one line of text", what, path);
    }
    *ret_secret = text;
    return 0;
}
