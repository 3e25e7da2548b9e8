/* SPDX-License-Identifier: MIT */
/*
 * Keeps what the store knows up to date with the service.
 *
 * One thread, "sync", lists mail: the newest at intervals, everything every 15 minutes and when the program
 * starts, and everything, or one inbox, when somebody asks for it (completely, or the newest alone). A
 * request is taken up by the run that starts after it was made, never by the run under way, which may have
 * asked the service too early. All that wait for the next run share it. After a run that brought nothing the
 * next comes soon, then later (backoff), at the latest after the interval of polls or 10 s, whichever is
 * more; or when the service asked for it.
 *
 * With many inboxes a poll asks for the newest of all mail at once, and for complete lists of some inboxes,
 * the next ones each time: its requests are bounded, and all inboxes have had their turn after 15 minutes (a
 * round).
 *
 * A run lists the inboxes, then the emails of each, then the mail that was sent. The service has no paging:
 * an answer that is as long as its limit is followed by a question with a higher limit. Records go into the
 * index while they arrive. Only an answer that came whole, was shorter than its limit, and can be read to the
 * last record, speaks against what it lacks, which goes when a later one confirms that (index_changes.h). A
 * failure with one inbox does not hold up the others.
 */
#ifndef INBOXFS_STORE_SYNC_H
#define INBOXFS_STORE_SYNC_H

#include <stdint.h>

#include "base/wait.h"
#include "store/store.h"

#define SYNC_ALL UINT32_MAX /* in place of the number of an inbox */

enum sync_depth {
    SYNC_NEWEST,   /* some emails, and more while unknown ones keep coming */
    SYNC_COMPLETE, /* all there are */
};

struct sync;

/* NULL without memory. */
struct sync *sync_new(struct store *store);
/* After sync_stop(). NULL-safe. */
void sync_free(struct sync *sync);

/* Starts the thread. 0 or -errno. */
int sync_start(struct sync *sync);
/* Cancels the request to the service, wakes all that wait in sync_wait(), and waits for the thread. */
void sync_stop(struct sync *sync);

/* Has an inbox (or SYNC_ALL) synced completely, and waits for the network until the sync is done, at most
 * until the clock shows `until_ms` (-EHOSTUNREACH). Errors and *ret_reason as store_sync(). */
int sync_wait(struct sync *sync, uint32_t inbox, int64_t until_ms, struct cancel *cancel, char **ret_reason);
/* Has an inbox (or SYNC_ALL) synced as soon as may be, without waiting. However often it is called, there is
 * one such run at a time, and one to come. */
void sync_request(struct sync *sync, uint32_t inbox, enum sync_depth depth);

/* Fills in has_synced, last_full_ms and next_poll_ms. */
void sync_get_status(struct sync *sync, struct store_status *ret);

#endif
