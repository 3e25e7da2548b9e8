/* SPDX-License-Identifier: MIT */
/*
 * The sync keeps the store up to date with the service.
 *
 * The sync thread makes passes. At each poll interval a pass lists the newest mail; at the start and every 15
 * minutes, all mail; on request, all or the newest mail of one inbox or of all inboxes. All requests that
 * wait share the next pass; the current pass serves none of them, since its answers may be older than the
 * requests. After failed passes the pauses grow (backoff) to the poll interval or 10 s, whichever is more. No
 * poll begins before the time that the service asked for (Retry-After).
 *
 * With many inboxes a poll lists the newest mail of all inboxes in one list, and all mail of the next few
 * inboxes. So a poll has a bounded number of requests, and 15 minutes of polls (a round) list every inbox.
 *
 * A pass lists the inboxes, then the emails of each, then sent mail. The service has no paging: an answer
 * that is as long as its limit is followed by a request with a higher limit. Records go into the index while
 * they arrive. An email is removed only if complete answers lack it, twice (index_changes.h); an answer is
 * complete if all of it arrived, it is shorter than its limit, and each record can be read. A failure with
 * one inbox does not stop the listing of the others.
 *
 * A pass over everything ends with the probe (store_content.h), so a service that does not answer the probe
 * delays the next pass by 30 s.
 */
#ifndef INBOXFS_STORE_SYNC_H
#define INBOXFS_STORE_SYNC_H

#include <stdint.h>

#include "base/wait.h"
#include "store/store.h"

#define SYNC_ALL UINT32_MAX /* all inboxes; used in place of an inbox number */

enum sync_depth {
    SYNC_NEWEST, /* the newest emails; with a higher limit while the last answer had new or changed emails */
    SYNC_COMPLETE, /* all emails */
};

struct sync;

struct sync *sync_new(struct store *store);
/* Call sync_stop() first. NULL-safe. */
void sync_free(struct sync *sync);

/* Cancels the request to the service, wakes the callers of sync_wait(), and waits for the thread. */
void sync_stop(struct sync *sync);

/* Requests a complete sync of an inbox (or SYNC_ALL), and waits for the end of the sync, at most until
 * `until_ms` (monotonic). Return and *ret_reason: as store_sync(); -EHOSTUNREACH after `until_ms`. */
int sync_wait(struct sync *sync, uint32_t inbox, int64_t until_ms, struct cancel *cancel, char **ret_reason);
/* Requests a sync of an inbox (or SYNC_ALL). Does not wait. Calls before the next pass share that pass. */
void sync_request(struct sync *sync, uint32_t inbox, enum sync_depth depth);

/* Fills in has_synced, last_full_ms and next_poll_ms. */
void sync_get_status(struct sync *sync, struct store_status *ret);

#endif
