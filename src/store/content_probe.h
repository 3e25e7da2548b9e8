/* SPDX-License-Identifier: MIT */
/*
 * Finds out whether the service has content and raw messages, by asking for emails that it has just listed,
 * and remembers it for the next mount.
 */
#ifndef INBOXFS_STORE_CONTENT_PROBE_H
#define INBOXFS_STORE_CONTENT_PROBE_H

#include "store/contents.h"

/* What an earlier mount found out. */
void content_probe_recall(struct contents *contents);

/* Asks (waits for the network), and tells the listener when something changed. */
void content_probe_run(struct contents *contents);

#endif
