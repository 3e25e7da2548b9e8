/* SPDX-License-Identifier: MIT */
/*
 * Waits for the end of the program, and notices meanwhile when the way to the service may be another: the
 * kernel reports that an address or a route was added or removed (netlink, route(7)), or that the wall clock
 * jumped, as it does when a machine wakes from a suspend (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
 * Nothing runs while nothing happens, unless the caller wants to be called at intervals.
 */
#ifndef INBOXFS_NETWORK_WATCH_H
#define INBOXFS_NETWORK_WATCH_H

#include <signal.h>

struct network_watch_calls {
    void (*changed)(void *context); /* once for what the kernel reports together */
    void (*tick)(void *context);    /* every `tick_ms` at least; or NULL */
    int tick_ms;
    void *context;
};

/* Waits for one of these signals, which are blocked in all threads, and returns its number. Makes the calls
 * on this thread. Without means to wait for more than the signals it makes no calls. */
int network_watch_until(const sigset_t *ending, const struct network_watch_calls *calls);

#endif
