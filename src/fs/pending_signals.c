/* SPDX-License-Identifier: MIT */
/*
 * Signals that wait for a task, from /proc/TASK/status.
 */
#include "fs/pending_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
    STATUS_MAX_BYTES = 8192
};

static uint64_t bit_of(int signal_number)
{
    return UINT64_C(1) << (signal_number - 1);
}

/* The mask in the line that begins so; 0 where there is none. */
static uint64_t mask_of(const char *status, const char *line_start)
{
    const char *line = strstr(status, line_start);
    return line == NULL ? 0 : strtoull(line + strlen(line_start), NULL, 16);
}

bool pending_signals_parse(const char *status)
{
    uint64_t only_telling = bit_of(SIGCHLD) | bit_of(SIGCONT) | bit_of(SIGURG) | bit_of(SIGWINCH);
    uint64_t pending = mask_of(status, "\nSigPnd:") | mask_of(status, "\nShdPnd:");
    pending &= ~mask_of(status, "\nSigBlk:");
    return pending != 0 && (pending & ~only_telling) == 0;
}

bool pending_signals_only_tell(pid_t task)
{
    char path[32];
    char status[STATUS_MAX_BYTES];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)task);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (task <= 0 || fd < 0)
        return false;
    ssize_t len = read(fd, status, sizeof(status) - 1);
    if (len <= 0)
        return false;
    status[len] = '\0';
    return pending_signals_parse(status);
}
