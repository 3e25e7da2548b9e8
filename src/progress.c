/* SPDX-License-Identifier: MIT */
/*
 * The log and the progress line share the terminal without a lock: each line of the log first wipes the
 * progress line, and each is written by one write(2).
 */
#include "progress.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/strbuf.h"

#define LOG_PREFIX "inboxfs: "
#define WIPE "\r\033[K" /* moves the cursor to the start of the line, and erases the line */

enum {
    LINE_MAX_BYTES = 256,
    USUAL_COLUMNS = 80,
};

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* Wipes the line, and writes the text, which may be "", in its place. */
static void write_line(struct progress *progress, const char *text)
{
    char line[LINE_MAX_BYTES];
    char output[sizeof(line) + sizeof(WIPE)];
    struct winsize size = {0};
    /* If the user has stopped the output (Ctrl-S), the terminal is not writable, and a write would wait. */
    struct pollfd terminal = {.fd = STDERR_FILENO, .events = POLLOUT};
    /* If a shell put the daemon into the background, other programs use the terminal. */
    pid_t group = tcgetpgrp(STDERR_FILENO);
    if (group >= 0 && group != getpgrp())
        progress->is_shown = false;
    else if ((text[0] != '\0' || progress->is_shown) && poll(&terminal, 1, 0) == 1 &&
             (terminal.revents & POLLOUT) != 0) {
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size); /* some terminals do not know their size, which stays 0 */
        /* One column is left free, so that no terminal begins another line. */
        int columns = (size.ws_col > 0 ? size.ws_col : USUAL_COLUMNS) - 1;
        snprintf(line, sizeof(line), "%s%s", text[0] != '\0' ? LOG_PREFIX : "", text);
        int len = snprintf(output, sizeof(output), WIPE "%.*s", columns, line);
        progress->is_shown = write(STDERR_FILENO, output, (size_t)len) > 0 && text[0] != '\0';
    }
}

void progress_refresh(struct progress *progress)
{
    struct store_status store;
    struct outbox_status outbox;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(LINE_MAX_BYTES);
    store_get_status(progress->store, &store);
    outbox_get_status(progress->outbox, &outbox);
    /* Without polling the first sync waits for the user's request. */
    if (!store.has_synced && store.next_poll_ms != 0)
        strbuf_appendf(&text, ", first sync, %zu inbox%s, %zu email%s%s", store.inboxes,
                       store.inboxes == 1 ? "" : "es", store.emails, plural(store.emails),
                       !store.is_online || store.sync_error[0] != '\0' ? ", trying again" : "");
    if (outbox.uploading > 0)
        strbuf_appendf(&text, ", %zu file%s to upload", outbox.uploading, plural(outbox.uploading));
    if (outbox.queued > 0)
        strbuf_appendf(&text, ", %zu message%s to send", outbox.queued, plural(outbox.queued));
    if (outbox.uploading + outbox.queued > 0 && outbox.is_paused)
        strbuf_append_str(&text, ", waiting for the service");
    bool is_idle = text.len == 0;
    if (is_idle || progress->is_lasting)
        write_line(progress, strbuf_str(&text) + (is_idle ? 0 : strlen(", ")));
    progress->is_lasting = !is_idle;
}

bool progress_begin(void)
{
    const char *kind = getenv("TERM");
    if (!isatty(STDERR_FILENO) || kind == NULL || strcmp(kind, "dumb") == 0)
        return false;
    log_set_prefix(WIPE LOG_PREFIX);
    return true;
}

void progress_end(struct progress *progress)
{
    write_line(progress, "");
    log_set_prefix(LOG_PREFIX);
}
