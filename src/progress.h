/* SPDX-License-Identifier: MIT */
/*
 * What is under way, as one line on the terminal that the daemon was started on: the first sync, files to
 * upload, messages to send, counted as in status.json.
 */
#ifndef INBOXFS_PROGRESS_H
#define INBOXFS_PROGRESS_H

#include "outbox/outbox.h"
#include "store/store.h"

struct progress;

/* Both are borrowed, and have been started. From here on, each line of the log wipes the one of the progress.
 * 0 and *ret_progress, which is NULL where standard error is no terminal that could show it; or -errno. */
int progress_start(struct store *store, struct outbox *outbox, struct progress **ret_progress);

/* Wipes the line. NULL-safe. */
void progress_free(struct progress *progress);

#endif
