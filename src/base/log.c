/* SPDX-License-Identifier: MIT */
/*
 * The log is written to standard error, or to syslog after log_to_syslog().
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <syslog.h>
#include <unistd.h>

#include "base/character.h"

enum {
    LINE_MAX_BYTES = 2048
};

static _Atomic enum log_level current_level = LOG_LEVEL_INFO;
static const char *_Atomic line_prefix = "inboxfs: ";
static atomic_bool uses_syslog;

void log_set_level(enum log_level level)
{
    current_level = level;
}

void log_set_prefix(const char *prefix)
{
    line_prefix = prefix;
}

void log_to_syslog(const char *name)
{
    openlog(name, LOG_PID, LOG_DAEMON);
    uses_syslog = true;
}

void log_write(enum log_level level, const char *format, ...)
{
    static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    if (level > current_level)
        return;

    char line[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    character_format_plain(line, sizeof(line), format, arguments);
    va_end(arguments);

    if (uses_syslog) {
        syslog(priorities[level], "%s", line);
        return;
    }
    /* One write(2), so that lines of several threads do not mix. */
    char whole[LINE_MAX_BYTES + 32];
    int len = snprintf(whole, sizeof(whole), "%.30s%s\n", line_prefix, line);
    if (len > 0 && write(STDERR_FILENO, whole, (size_t)len) < 0)
        return;
}
