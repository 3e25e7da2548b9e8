/* SPDX-License-Identifier: MIT */
/*
 * Bounds the time of a function that waits for the network. The function must return soon after its cancel is
 * set.
 */
#ifndef INBOXFS_STORE_BOUNDED_CALL_H
#define INBOXFS_STORE_BOUNDED_CALL_H

#include <stdint.h>

#include "base/clock.h"
#include "base/wait.h"

/* Runs `function` in another thread, and waits for its end. Sets the cancel that `function` was given when
 * `cancel` (may be NULL) is set or `timeout_ms` has passed. Return: 0; -errno when no thread can be started
 * (`function` did not run). */
int bounded_call(struct clock *clock, int64_t timeout_ms, struct cancel *cancel,
                 void (*function)(void *context, struct cancel *cancel), void *context);

#endif
