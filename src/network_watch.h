/* SPDX-License-Identifier: MIT */
/*
 * Waits for the end of the program, and notices meanwhile when the route to the service may have changed: the
 * kernel reports that an address or a route was added or removed (netlink, route(7)), or that the wall clock
 * jumped, as it does when a machine wakes from a suspend (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
 */
#ifndef INBOXFS_NETWORK_WATCH_H
#define INBOXFS_NETWORK_WATCH_H

#include <signal.h>

#include "progress.h"

/* Waits for one of these signals, which are blocked in all threads, and returns its number. Meanwhile calls
 * store_network_changed() after each report of the kernel, and refreshes `progress` unless it is NULL. If
 * signalfd(2) fails, only waits for the signals. */
int network_watch_until_signal(const sigset_t *ending, struct store *store, struct progress *progress);

#endif
