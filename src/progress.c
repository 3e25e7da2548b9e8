/* SPDX-License-Identifier: MIT */
/*
 * The log and the progress line share the terminal without a lock: each line of the log first wipes the
 * progress line, and each is written by one write(2). The line has no text of strangers.
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
#define WIPE "\r\033[K" /* to the start of the line, and nothing after it */

enum {
    LINE_MAX_BYTES = 256,
    USUAL_COLUMNS = 80,
};

/* ---------------------------------------------------------------- the words */

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* Each part begins with a comma. Without polling there is no sync before the user asks for it. */
static void describe(const struct progress *progress, struct strbuf *words)
{
    struct store_status store;
    struct outbox_status outbox;
    store_get_status(progress->store, &store);
    outbox_get_status(progress->outbox, &outbox);
    if (!store.has_synced && store.next_poll_ms != 0)
        strbuf_appendf(words, ", first sync, %zu inbox%s, %zu email%s%s", store.inboxes,
                       store.inboxes == 1 ? "" : "es", store.emails, plural(store.emails),
                       !store.is_online || store.sync_error[0] != '\0' ? ", trying again" : "");
    if (outbox.uploading > 0)
        strbuf_appendf(words, ", %zu file%s to upload", outbox.uploading, plural(outbox.uploading));
    if (outbox.queued > 0)
        strbuf_appendf(words, ", %zu message%s to send", outbox.queued, plural(outbox.queued));
    if (outbox.uploading + outbox.queued > 0 && outbox.is_paused)
        strbuf_append_str(words, ", waiting for the service");
}

/* ---------------------------------------------------------------- the terminal */

/* Returns true if a shell put the daemon into the background: other programs use the terminal then. */
static bool is_in_background(void)
{
    pid_t group = tcgetpgrp(STDERR_FILENO);
    return group >= 0 && group != getpgrp();
}

/* Returns false if the user has stopped the output (Ctrl-S): a write would wait. */
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

/* Wipes the line, and writes these words in its place; "" for none. */
static void show(struct progress *progress, const char *words)
{
    char line[LINE_MAX_BYTES];
    char whole[sizeof(line) + sizeof(WIPE)];
    if (is_in_background())
        progress->is_shown = false;
    else if ((words[0] != '\0' || progress->is_shown) && takes_output()) {
        snprintf(line, sizeof(line), "%s%s", words[0] != '\0' ? LOG_PREFIX : "", words);
        int len = snprintf(whole, sizeof(whole), WIPE "%.*s", columns(), line);
        progress->is_shown = write(STDERR_FILENO, whole, (size_t)len) > 0 && words[0] != '\0';
    }
}

void progress_refresh(struct progress *progress)
{
    _cleanup_strbuf_ struct strbuf words = STRBUF_INIT(LINE_MAX_BYTES);
    describe(progress, &words);
    bool is_idle = words.len == 0;
    if (is_idle || progress->is_lasting)
        show(progress, strbuf_str(&words) + (is_idle ? 0 : strlen(", ")));
    progress->is_lasting = !is_idle;
}

bool progress_begin(struct progress *progress)
{
    const char *kind = getenv("TERM");
    if (!isatty(STDERR_FILENO) || kind == NULL || strcmp(kind, "dumb") == 0)
        return false;
    log_set_prefix(WIPE LOG_PREFIX);
    return true;
}

void progress_end(struct progress *progress)
{
    show(progress, "");
    log_set_prefix(LOG_PREFIX);
}
