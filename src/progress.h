/* SPDX-License-Identifier: MIT */
/*
 * What is under way, as one line on the terminal that the daemon was started on: the first sync, files to
 * upload, messages to send, counted as in status.json.
 */
#ifndef INBOXFS_PROGRESS_H
#define INBOXFS_PROGRESS_H

#include "outbox/outbox.h"
#include "store/store.h"

enum {
    PROGRESS_REFRESH_MS = 400 /* work that is over sooner is not shown */
};

struct progress;

/* Both are borrowed. From here on, each line of the log wipes the one of the progress. 0 and *ret_progress,
 * which is NULL if standard error is no terminal that could show it; or -ENOMEM. */
int progress_new(struct store *store, struct outbox *outbox, struct progress **ret_progress);

/* Writes the line anew, or wipes it; to be called every PROGRESS_REFRESH_MS by one thread. */
void progress_refresh(struct progress *progress);

/* Wipes the line. NULL-safe. */
void progress_free(struct progress *progress);

#endif
