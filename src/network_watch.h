/* SPDX-License-Identifier: MIT */
/*
 * Waits for the end of the program, and notices meanwhile when the way to the service may be another: the
 * kernel reports that an address or a route was added or removed (netlink, route(7)), or that the wall clock
 * jumped, as it does when a machine wakes from a suspend (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
 */
#ifndef INBOXFS_NETWORK_WATCH_H
#define INBOXFS_NETWORK_WATCH_H

#include <signal.h>

#include "progress.h"

/* Waits for one of these signals, which are blocked in all threads. Meanwhile calls store_network_changed(),
 * once for what the kernel reports together, and refreshes the progress unless that is NULL. Return: the
 * signal's number. If the kernel has no signalfd(2) left to give, only the signals are waited for. */
int network_watch_until(const sigset_t *ending, struct store *store, struct progress *progress);

#endif
