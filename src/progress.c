/* SPDX-License-Identifier: MIT */
/*
 * The log needs no lock against the line: each line of the log wipes what is there first, and each writes
 * with one write(2). The line has nothing but numbers and words of ours.
 */
#include "progress.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"

#define LOG_PREFIX "inboxfs: "
#define WIPE "\r\033[K" /* to the start of the line, and nothing after it */

enum {
    LINE_MAX_BYTES = 256,
    USUAL_COLUMNS = 80,
};

struct progress {
    struct store *store;   /* borrowed */
    struct outbox *outbox; /* borrowed */
    bool is_shown;
    bool is_lasting; /* there was something to say the last time, too */
};

/* ---------------------------------------------------------------- the words */

/* Appends to the line, which has room for all that is said at once, after a comma unless it is the first. */
__attribute__((format(printf, 2, 3))) static void say(char line[LINE_MAX_BYTES], const char *format, ...)
{
    size_t len = strlen(line);
    va_list arguments;
    if (len > 0 && len + 2 < LINE_MAX_BYTES) {
        memcpy(line + len, ", ", sizeof(", "));
        len += 2;
    }
    va_start(arguments, format);
    vsnprintf(line + len, LINE_MAX_BYTES - len, format, arguments);
    va_end(arguments);
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* Without polling there is no sync before somebody asks for it. */
static void say_sync(char line[LINE_MAX_BYTES], struct store *store)
{
    struct store_status status;
    store_get_status(store, &status);
    if (status.has_synced || status.next_poll_ms == 0)
        return;
    say(line, "first sync");
    say(line, "%zu inbox%s", status.inboxes, status.inboxes == 1 ? "" : "es");
    say(line, "%zu email%s", status.emails, plural(status.emails));
    if (!status.is_online || status.sync_error[0] != '\0')
        say(line, "trying again");
}

static void say_queue(char line[LINE_MAX_BYTES], struct outbox *outbox)
{
    struct outbox_status status;
    outbox_get_status(outbox, &status);
    if (status.uploading > 0)
        say(line, "%zu file%s to upload", status.uploading, plural(status.uploading));
    if (status.queued > 0)
        say(line, "%zu message%s to send", status.queued, plural(status.queued));
    if (status.uploading + status.queued > 0 && status.is_paused)
        say(line, "waiting for the service");
}

/* ---------------------------------------------------------------- the terminal */

/* A shell has put us there: the terminal is for others. */
static bool is_in_background(void)
{
    pid_t group = tcgetpgrp(STDERR_FILENO);
    return group >= 0 && group != getpgrp();
}

/* Returns false if somebody has stopped the output (Ctrl-S): a write would wait. */
static bool takes_output(void)
{
    struct pollfd terminal = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&terminal, 1, 0) == 1 && (terminal.revents & POLLOUT) != 0;
}

/* One column is left free, so that no terminal begins another line. */
static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col - 1
                                                                           : USUAL_COLUMNS - 1;
}

/* Without a line: wipes it. */
static void show(struct progress *progress, const char *line)
{
    char text[LINE_MAX_BYTES + sizeof(LOG_PREFIX)] = "";
    char whole[sizeof(text) + sizeof(WIPE)];
    bool is_empty = line[0] == '\0';
    if (is_in_background()) {
        progress->is_shown = false;
        return;
    }
    if ((is_empty && !progress->is_shown) || !takes_output())
        return;
    if (!is_empty)
        snprintf(text, sizeof(text), LOG_PREFIX "%s", line);
    int len = snprintf(whole, sizeof(whole), WIPE "%.*s", columns(), text);
    progress->is_shown = write(STDERR_FILENO, whole, (size_t)len) > 0 && !is_empty;
}

void progress_refresh(struct progress *progress)
{
    char line[LINE_MAX_BYTES] = "";
    say_sync(line, progress->store);
    say_queue(line, progress->outbox);
    bool is_idle = line[0] == '\0';
    if (is_idle || progress->is_lasting)
        show(progress, line);
    progress->is_lasting = !is_idle;
}

/* ---------------------------------------------------------------- made and freed */

static bool has_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind != NULL && strcmp(kind, "dumb") != 0;
}

int progress_new(struct store *store, struct outbox *outbox, struct progress **ret_progress)
{
    *ret_progress = NULL;
    if (!has_terminal())
        return 0;
    struct progress *progress = calloc(1, sizeof(*progress));
    if (progress == NULL)
        return -ENOMEM;
    progress->store = store;
    progress->outbox = outbox;
    log_set_prefix(WIPE LOG_PREFIX);
    *ret_progress = progress;
    return 0;
}

void progress_free(struct progress *progress)
{
    if (progress == NULL)
        return;
    show(progress, "");
    log_set_prefix(LOG_PREFIX);
    free(progress);
}
