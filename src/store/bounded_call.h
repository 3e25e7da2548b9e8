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

/* Runs `function` to its end, and waits for that. Its cancel is set when `cancel` (may be NULL) is set or
 * `timeout_ms` has passed; it must then return soon. Return: 0; -errno when no thread can be started: then
 * `function` did not run. */
int bounded_call(struct clock *clock, int64_t timeout_ms, struct cancel *cancel,
                 void (*function)(void *context, struct cancel *cancel), void *context);

#endif
