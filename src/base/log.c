/* SPDX-License-Identifier: MIT */
/*
 * The log: to standard error while there is a terminal, to syslog afterwards.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 2048
};

static _Atomic enum log_level current_level = LOG_LEVEL_INFO;
static atomic_bool uses_syslog;

void log_set_level(enum log_level level)
{
    current_level = level;
}

void log_to_syslog(const char *name)
{
    openlog(name, LOG_PID, LOG_DAEMON);
    uses_syslog = true;
}

/* The bytes of a character that a terminal obeys: C0, DEL, the C1 controls (C2 80 to C2 9F), and those that
 * turn the direction of text (U+202A to U+202E, U+2066 to U+2069). 0: it is shown. */
static size_t control_len(const unsigned char *c)
{
    if (c[0] < 0x20 || c[0] == 0x7f)
        return 1;
    if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
        return 2;
    bool turns = c[0] == 0xe2 && ((c[1] == 0x80 && c[2] >= 0xaa && c[2] <= 0xae) ||
                                  (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
    return turns ? 3 : 0;
}

/* Each byte: the last one alone would be a control to a terminal that is not in UTF-8. */
static void replace_control_characters(char *line)
{
    for (char *c = line; *c != '\0'; c++) {
        size_t len = control_len((const unsigned char *)c);
        if (len > 0)
            memset(c, '?', len);
    }
}

void log_write(enum log_level level, const char *format, ...)
{
    static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    if (level > current_level)
        return;

    char line[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    replace_control_characters(line);

    if (uses_syslog) {
        syslog(priorities[level], "%s", line);
        return;
    }
    /* One write(2), so that lines of several threads do not mix. */
    char whole[LINE_MAX_BYTES + 16];
    int len = snprintf(whole, sizeof(whole), "inboxfs: %s\n", line);
    if (len > 0 && write(STDERR_FILENO, whole, (size_t)len) < 0)
        return;
}
