/* SPDX-License-Identifier: MIT */
/*
 * The memory of large replies. A request for an email's content, raw message or attachment takes several
 * times the memory of its reply while the service makes that, and the reply stays in memory until the client
 * has taken it, which may be never. So a few requests make their replies at a time, and none begins while the
 * replies that wait for their clients pass a bound. A request waits for its turn, within a time.
 *
 * All functions may be called from any thread.
 */
#ifndef INBOXFS_SERVICE_REPLY_BUDGET_H
#define INBOXFS_SERVICE_REPLY_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reply_budget {
    unsigned int max_makers;
    size_t max_bytes; /* of the replies that were made; one reply each of `max_makers` may come on top */
    int64_t wait_ms;
    pthread_mutex_t lock; /* a leaf */
    pthread_cond_t changed;
    unsigned int makers; /* protected by lock, as below */
    size_t bytes;
    bool is_closed;
};

void reply_budget_init(struct reply_budget *budget, unsigned int max_makers, size_t max_bytes,
                       int64_t wait_ms);

/* No reply may be under way. */
void reply_budget_release(struct reply_budget *budget);

/* Waits for the turn to make a reply. 0, or -EBUSY: after `wait_ms`, or the budget is closed. */
int reply_budget_begin(struct reply_budget *budget);

/* The server ends: nobody waits for a turn any more, or gets one. */
void reply_budget_close(struct reply_budget *budget);

/* Ends that turn: the reply was made, and its memory counts. */
void reply_budget_end(struct reply_budget *budget, size_t bytes);

/* The memory of a reply was freed. */
void reply_budget_return(struct reply_budget *budget, size_t bytes);

#endif
