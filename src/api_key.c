/* SPDX-License-Identifier: MIT */
/*
 * Reading the API key, and refusing files that others can read.
 */
#include "api_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "config_file.h"

enum {
    KEY_MAX_BYTES = 4096
};

void api_key_free(char *key)
{
    if (key != NULL)
        explicit_bzero(key, strlen(key));
    free(key);
}

/* A key stands in a header line: one word of printable ASCII. */
static int take_word(const char *text, char **ret_key)
{
    const char *start = text + strspn(text, " \t\r\n");
    size_t len = strcspn(start, " \t\r\n");
    for (size_t i = 0; i < len; i++)
        if (start[i] <= ' ' || start[i] > '~')
            return -EINVAL;
    if (len == 0 || start[len + strspn(start + len, " \t\r\n")] != '\0')
        return -EINVAL;
    *ret_key = strndup(start, len);
    return *ret_key == NULL ? -ENOMEM : 0;
}

static int read_key_file(const char *path, char **ret_key)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        int error = -errno;
        log_error("cannot read the API key file %s: %s", path, strerror(errno));
        return error;
    }
    if ((status.st_mode & 077) != 0) {
        log_error("the API key file %s can be read by others: chmod 600 %s", path, path);
        return -EACCES;
    }
    int error = config_file_check_owner(&status, "the API key file", path);
    if (error != 0)
        return error;
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    error = file_read_input(fd, KEY_MAX_BYTES, &text, &len);
    if (error == 0 && (error = take_word(text, ret_key)) == -EINVAL)
        log_error("the API key file %s does not hold one key", path);
    else if (error != 0)
        log_error("cannot read the API key file %s: %s", path, strerror(-error));
    if (text != NULL)
        explicit_bzero(text, len);
    return error;
}

static int read_key_command(const char *command, char **ret_key)
{
    FILE *pipe = popen(command, "re");
    if (pipe == NULL) {
        int error = -errno;
        log_error("cannot run the API key command: %s", strerror(errno));
        return error;
    }
    /* Unbuffered, so that no copy of the key stays in stdio's memory. */
    setvbuf(pipe, NULL, _IONBF, 0);
    char text[KEY_MAX_BYTES + 1];
    size_t len = fread(text, 1, sizeof(text) - 1, pipe);
    text[len] = '\0';
    int status = pclose(pipe);
    int error = 0;
    if (status != 0) {
        log_error("the API key command failed (%s %d)", WIFEXITED(status) ? "exit status" : "signal",
                  WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        error = -EACCES;
    } else if ((error = take_word(text, ret_key)) != 0) {
        log_error("the API key command did not print one key");
    }
    explicit_bzero(text, sizeof(text));
    return error;
}

int api_key_read(const struct options *options, char **ret_key)
{
    if (options->api_key_file != NULL)
        return read_key_file(options->api_key_file, ret_key);
    if (options->api_key != NULL) {
        int error = take_word(options->api_key, ret_key);
        if (error != 0)
            log_error("the API key given is not one word of printable characters");
        return error;
    }
    if (options->api_key_command != NULL)
        return read_key_command(options->api_key_command, ret_key);
    log_error("no API key: use --api-key-file, INBOXFS_API_KEY or --api-key-command");
    return -EACCES;
}
