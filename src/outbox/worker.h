/* SPDX-License-Identifier: MIT */
/*
 * The threads of the outbox: more are started as they are busy, for up to sixteen messages and sixteen
 * uploads at a time, so that slow uploads leave threads to messages.
 */
#ifndef INBOXFS_OUTBOX_WORKER_H
#define INBOXFS_OUTBOX_WORKER_H

struct outbox;
struct worker_threads;

/* Starts them. Returns 0 or -errno; *ret_threads is to be stopped in any case where it is set. */
int worker_threads_start(struct outbox *outbox, struct worker_threads **ret_threads);
/* outbox->is_stopping is set. Gives requests under way a few seconds, cancels them then, and waits for the
 * threads. Frees them. NULL-safe. */
void worker_threads_stop(struct worker_threads *threads);

#endif
