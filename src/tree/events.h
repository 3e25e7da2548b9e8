/* SPDX-License-Identifier: MIT */
/*
 * What happened, a line of JSON each: the bounded file behind events.jsonl, and the source of the stream
 * `events`. All of it is in memory, so that appending and reading never wait for the disk; a thread writes it
 * behind. The disk failing costs the lines their next life, never the program.
 *
 * A position counts the bytes ever logged in this process (plus what the file held at the start), so that a
 * reader keeps its place when the older half is cut away. For the same reason events.jsonl is another file to
 * whoever opens it after a cut: each begins at the position where it was first found, and goes on growing for
 * those who have it open.
 */
#ifndef INBOXFS_TREE_EVENTS_H
#define INBOXFS_TREE_EVENTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mail/event.h"

enum {
    EVENT_LOG_MAX_BYTES = 1024 * 1024
};

struct tree;

/* What happened, into the log: readers of both files see it. No lock may be held. */
void events_add(struct tree *tree, const struct event *event);
/* The same of what a user's request met, in words. `path` is below the mount point. */
void events_report(struct tree *tree, enum event_kind kind, const char *path, const char *error);

/* ---------------------------------------------------------------- the log */

struct event_log;

/* Reads what the file `name` in the directory holds, and starts the writer. `state_dir_fd` is borrowed. A
 * file that cannot be read, or is too long, is begun anew. 0, -ENOMEM, or no thread could be started. */
int event_log_new(int state_dir_fd, const char *name, size_t max_bytes, struct event_log **ret_log);

/* Writes out what is left, and frees. NULL-safe. */
void event_log_free(struct event_log *log);

/* Past the bound the older half, up to a line's end, is cut away. */
void event_log_append(struct event_log *log, const struct event *event);

/* Where the file begins for whoever opens it now: at a line. */
uint64_t event_log_begin(struct event_log *log);
/* The file that begins at `begin`, as it is now: bytes from `offset` on, fewer at its end. What was cut away
 * reads as empty lines. */
size_t event_log_read(struct event_log *log, uint64_t begin, void *ret_bytes, size_t len, off_t offset);
size_t event_log_size(struct event_log *log, uint64_t begin);
/* Realtime of the last event; 0: none in this process. */
int64_t event_log_changed_ms(struct event_log *log);

/* The stream: where it ends now, and the bytes behind *position (which moves on); 0: none yet. What was cut
 * away meanwhile is passed over. */
uint64_t event_log_end(struct event_log *log);
size_t event_log_follow(struct event_log *log, uint64_t *position, void *ret_bytes, size_t len);

#endif
