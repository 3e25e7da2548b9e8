/* SPDX-License-Identifier: MIT */
/*
 * The configuration file: read whole, bounded, line by line; any mistake is an error with its line number.
 * Nothing of the line is shown: it may hold a key.
 */
#include "config_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"

enum {
    CONFIG_MAX_BYTES = 64 * 1024
};

static bool is_same_name(const char *given, const char *name)
{
    for (; *given != '\0' && *name != '\0'; given++, name++)
        if (*given != *name && !(*given == '_' && *name == '-'))
            return false;
    return *given == *name;
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static int set_flag(int *flag, const char *value)
{
    if (strcmp(value, "true") == 0 || strcmp(value, "yes") == 0 || strcmp(value, "1") == 0)
        *flag = 1;
    else if (strcmp(value, "false") != 0 && strcmp(value, "no") != 0 && strcmp(value, "0") != 0)
        return -EINVAL;
    return 0;
}

static int apply(const struct config_setting *setting, const char *value, bool is_private)
{
    if (setting->is_secret && !is_private)
        return -EACCES;
    if (setting->flag != NULL)
        return set_flag(setting->flag, value);
    if (setting->text == NULL || *setting->text != NULL)
        return 0;
    *setting->text = strdup(value);
    return *setting->text == NULL ? -ENOMEM : 0;
}

static int apply_line(char *line, const struct config_setting *settings, size_t len, bool is_private)
{
    char *value = strchr(line, '=');
    if (value == NULL)
        return -EINVAL;
    *value++ = '\0';
    const char *name = trim(line);
    for (size_t i = 0; i < len; i++)
        if (is_same_name(name, settings[i].name))
            return apply(&settings[i], trim(value), is_private);
    return -ENOENT;
}

static const char *line_error_words(int error)
{
    switch (error) {
    case -EACCES:
        return "a secret in a file that others can read: chmod 600 it";
    case -ENOENT:
        return "unknown option";
    case -ENOMEM:
        return "out of memory";
    default:
        return "not 'name = value', or a value that is not allowed";
    }
}

static int apply_text(const char *path, char *text, const struct config_setting *settings, size_t len,
                      bool is_private)
{
    char *rest = text;
    char *line;
    for (unsigned int number = 1; (line = strsep(&rest, "\n")) != NULL; number++) {
        line = trim(line);
        if (*line == '\0' || *line == '#')
            continue;
        int error = apply_line(line, settings, len, is_private);
        if (error != 0) {
            log_error("%s:%u: %s", path, number, line_error_words(error));
            return error;
        }
    }
    return 0;
}

int config_file_check_owner(const struct stat *status, const char *what, const char *path)
{
    /* /dev/null is nobody's to write to. */
    if (!S_ISREG(status->st_mode))
        return 0;
    if (status->st_uid != geteuid() && status->st_uid != 0) {
        log_error("%s %s belongs to another user: it must be yours, or root's", what, path);
        return -EPERM;
    }
    if ((status->st_mode & 022) != 0) {
        log_error("%s %s can be written by others: chmod go-w %s", what, path, path);
        return -EPERM;
    }
    return 0;
}

/* A default that is out of reach is none: started for a user by mount(8), HOME may still be root's. */
static bool counts_as_none(int error, bool is_required)
{
    return !is_required && (error == ENOENT || error == EACCES);
}

int config_file_read(const char *path, bool is_required, const struct config_setting *settings, size_t len)
{
    static const char what[] = "the configuration";
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && counts_as_none(errno, is_required)) {
        if (errno != ENOENT)
            log_warning("going on without %s %s: %s", what, path, strerror(errno));
        return 0;
    }
    _cleanup_free_ char *text = NULL;
    size_t text_len = 0;
    struct stat status = {0};
    int error =
        fd < 0 || fstat(fd, &status) != 0 ? -errno : file_read_input(fd, CONFIG_MAX_BYTES, &text, &text_len);
    if (error != 0) {
        log_error("cannot read %s %s: %s", what, path, strerror(-error));
        return error;
    }
    error = config_file_check_owner(&status, what, path);
    if (error == 0)
        error = apply_text(path, text, settings, len, (status.st_mode & 077) == 0);
    if (text != NULL)
        explicit_bzero(text, text_len);
    return error;
}
