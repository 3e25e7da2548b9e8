/* SPDX-License-Identifier: MIT */
/*
 * Waits for the end of the program, and notices meanwhile when the way to the service may be another: the
 * kernel reports that an address or a route was added or removed (netlink, route(7)), or that the wall clock
 * jumped, as it does when a machine wakes from a suspend (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
 * Nothing runs, and no timer ticks, while nothing happens.
 */
#ifndef INBOXFS_NETWORK_WATCH_H
#define INBOXFS_NETWORK_WATCH_H

#include <signal.h>

/* Waits for one of these signals, which are blocked in all threads, and returns its number. Calls `changed`
 * on this thread, once for what the kernel reports together. Only waits if the kernel has no such report. */
int network_watch_until(const sigset_t *ending, void (*changed)(void *context), void *context);

#endif
