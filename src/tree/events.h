/* SPDX-License-Identifier: MIT */
/*
 * Adding events to events.jsonl and `events`. Only this layer includes this header.
 */
#ifndef INBOXFS_TREE_EVENTS_H
#define INBOXFS_TREE_EVENTS_H

#include "mail/event.h"

struct tree;

/* Adds an event; readers of both files see it at once. Waits for the disk; the caller may hold no lock. */
void events_add(struct tree *tree, const struct event *event);
/* Adds the event of a user's request that failed. `path` is relative to the mount point; `error` is the
 * reason in words. */
void events_report(struct tree *tree, enum event_kind kind, const char *path, const char *error);

/* Counts the event for status.json. Only events_add() calls it. */
void status_count_event(struct tree *tree, const struct event *event);

#endif
