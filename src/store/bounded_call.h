/* SPDX-License-Identifier: MIT */
/*
 * Bounds the time of a function that waits for the network: the function runs in a thread of its own, and
 * ends soon after its cancel is set.
 */
#ifndef INBOXFS_STORE_BOUNDED_CALL_H
#define INBOXFS_STORE_BOUNDED_CALL_H

#include <stdint.h>

#include "base/clock.h"
#include "base/wait.h"

/* Runs `function`, which must return soon after its cancel is set, to its end. `cancel` (may be NULL) and the
 * passing of `timeout_ms` set that. 0, or -errno when no thread can be started (it did not run). */
int bounded_call(struct clock *clock, int64_t timeout_ms, struct cancel *cancel,
                 void (*function)(void *context, struct cancel *cancel), void *context);

#endif
