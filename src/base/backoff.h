/* SPDX-License-Identifier: MIT */
/*
 * How long to wait before trying again: doubling from `min_ms` to `max_ms`, with jitter, so that many clients
 * of a service that comes back do not all arrive at once.
 */
#ifndef INBOXFS_BASE_BACKOFF_H
#define INBOXFS_BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t min_ms;
    int64_t max_ms;
    unsigned int attempts; /* since the last success */
};

/* The next delay: between half and all of min_ms * 2^attempts, at most max_ms. */
int64_t backoff_next_ms(struct backoff *backoff);

/* After a success. */
void backoff_reset(struct backoff *backoff);

#endif
