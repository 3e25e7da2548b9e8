/* SPDX-License-Identifier: MIT */
/*
 * The threads of the outbox. When all are busy another one starts, for up to sixteen messages and sixteen
 * uploads at a time, so that slow uploads leave threads for messages.
 */
#ifndef INBOXFS_OUTBOX_WORKER_H
#define INBOXFS_OUTBOX_WORKER_H

struct outbox;
struct worker_threads;

/* Starts the threads. Returns 0 or -errno. The caller stops *ret_threads if it is set, even after an error.
 */
int worker_threads_start(struct outbox *outbox, struct worker_threads **ret_threads);
/* Waits a few seconds for requests under way, cancels them, waits for the threads, and frees them. The caller
 * has set outbox->is_stopping. NULL-safe. */
void worker_threads_stop(struct worker_threads *threads);

#endif
