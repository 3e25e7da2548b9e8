/* SPDX-License-Identifier: MIT */
/*
 * libfuse's messages. It hands no context to the function that it calls, so that what belongs to a message is
 * kept by thread.
 */
#include "fs/library_log.h"

#include <fuse_lowlevel.h>
#include <stdio.h>

#include "base/log.h"

enum {
    LINE_MAX_BYTES = 1024
};

static _Thread_local struct strbuf *collected;
static _Thread_local char line[LINE_MAX_BYTES]; /* until its newline comes */

static void log_lines(char *text)
{
    char *newline;
    while ((newline = strchr(text, '\n')) != NULL) {
        *newline = '\0';
        log_error("%s", text);
        memmove(text, newline + 1, strlen(newline + 1) + 1);
    }
}

__attribute__((format(printf, 2, 0))) static void take_piece(enum fuse_log_level level, const char *format,
                                                             va_list arguments)
{
    if (level > FUSE_LOG_WARNING)
        return;
    if (collected != NULL) {
        strbuf_vappendf(collected, format, arguments);
        return;
    }
    size_t len = strlen(line);
    vsnprintf(line + len, sizeof(line) - len, format, arguments);
    if (strlen(line) == sizeof(line) - 1)
        line[sizeof(line) - 2] = '\n'; /* a line that long ends here */
    log_lines(line);
}

void library_log_install(void)
{
    fuse_set_log_func(take_piece);
}

void library_log_collect(struct strbuf *words)
{
    collected = words;
}
