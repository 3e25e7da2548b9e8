/* SPDX-License-Identifier: MIT */
/*
 * The one place that wires the layers together: service, store, outbox, tree, session; in this order at the
 * start, in the other at the end.
 */
#ifndef INBOXFS_DAEMON_H
#define INBOXFS_DAEMON_H

#include "options.h"

/* Mounts and runs until a signal or an unmount ends it. The exit status; failures were said on the log. */
int daemon_run(const struct options *options);

#endif
