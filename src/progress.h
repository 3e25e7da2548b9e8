/* SPDX-License-Identifier: MIT */
/*
 * What is under way, as one line on the terminal that the daemon was started on: the first sync, files to
 * upload, messages to send, counted as in status.json.
 */
#ifndef INBOXFS_PROGRESS_H
#define INBOXFS_PROGRESS_H

#include <stdbool.h>

#include "outbox/outbox.h"
#include "store/store.h"

enum {
    PROGRESS_REFRESH_MS = 400 /* work that is over sooner is not shown */
};

struct progress {
    struct store *store;   /* borrowed */
    struct outbox *outbox; /* borrowed */
    bool is_shown;
    bool is_lasting; /* there was something to say the last time, too */
};

/* From here on, each line of the log wipes the one of the progress. False: standard error is no terminal that
 * could show it, and nothing else is to be called. */
bool progress_begin(struct progress *progress);

/* Writes the line anew, or wipes it; to be called every PROGRESS_REFRESH_MS by one thread. */
void progress_refresh(struct progress *progress);

/* Wipes the line. */
void progress_end(struct progress *progress);

#endif
