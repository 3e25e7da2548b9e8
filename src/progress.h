/* SPDX-License-Identifier: MIT */
/*
 * Shows the work under way as one line on the terminal that the daemon was started on: the first sync, files
 * to upload, messages to send, counted as in status.json.
 */
#ifndef INBOXFS_PROGRESS_H
#define INBOXFS_PROGRESS_H

#include <stdbool.h>

#include "outbox/outbox.h"
#include "store/store.h"

enum {
    PROGRESS_REFRESH_MS = 400 /* interval of refreshes; shorter work is not shown */
};

struct progress {
    struct store *store;   /* borrowed */
    struct outbox *outbox; /* borrowed */
    bool is_shown;         /* the terminal has the line */
    bool is_lasting;       /* the last refresh found work */
};

/* Makes each line of the log wipe the progress line first. Returns false if standard error is not a
 * terminal that can show the line; then the caller calls no other function. */
bool progress_begin(void);

/* Rewrites the line, or wipes it. One thread calls this every PROGRESS_REFRESH_MS. */
void progress_refresh(struct progress *progress);

void progress_end(struct progress *progress);

#endif
