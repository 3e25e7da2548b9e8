/* SPDX-License-Identifier: MIT */
/*
 * No copy of a secret stays in memory but the one that is returned.
 */
#include "secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "options.h"

void secret_free(char **secret)
{
    if (*secret != NULL)
        explicit_bzero(*secret, strlen(*secret));
    free(*secret);
    *secret = NULL;
}

int secret_take_word(const char *text, char **ret_secret)
{
    const char *start = text + strspn(text, " \t\r\n");
    size_t len = strcspn(start, " \t\r\n");
    for (size_t i = 0; i < len; i++)
        if (start[i] <= ' ' || start[i] > '~')
            return -EINVAL;
    if (len == 0 || start[len + strspn(start + len, " \t\r\n")] != '\0')
        return -EINVAL;
    *ret_secret = strndup(start, len);
    return *ret_secret == NULL ? -ENOMEM : 0;
}

int secret_read_file(const char *path, const char *what, char **ret_secret)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        int error = -errno;
        log_error("cannot read %s %s: %s", what, path, strerror(errno));
        return error;
    }
    if ((status.st_mode & 077) != 0) {
        log_error("%s %s can be read by others: chmod 600 %s", what, path, path);
        return -EACCES;
    }
    int error = options_check_owner(&status, what, path);
    if (error != 0)
        return error;
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    error = file_read_input(fd, SECRET_MAX_BYTES, &text, &len);
    if (error == 0 && (error = secret_take_word(text, ret_secret)) == -EINVAL)
        log_error("%s %s does not hold one word of printable characters", what, path);
    else if (error != 0)
        log_error("cannot read %s %s: %s", what, path, strerror(-error));
    if (text != NULL)
        explicit_bzero(text, len);
    return error;
}
