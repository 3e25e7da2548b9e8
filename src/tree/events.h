/* SPDX-License-Identifier: MIT */
/*
 * Reporting events, in events.jsonl and `events`. For this layer alone.
 */
#ifndef INBOXFS_TREE_EVENTS_H
#define INBOXFS_TREE_EVENTS_H

#include "mail/event.h"

struct tree;

/* Adds what happened: readers of both files see it at once. Writes it to the disk; no lock may be held. */
void events_add(struct tree *tree, const struct event *event);
/* The same of a user's request that went wrong, in words. `path` is below the mount point. */
void events_report(struct tree *tree, enum event_kind kind, const char *path, const char *error);

/* The same for status.json (status.c). Called by events_add() alone. */
void status_count_event(struct tree *tree, const struct event *event);

#endif
