/* SPDX-License-Identifier: MIT */
/*
 * Records in the cache that others have taken the place of, while the program runs. A service whose records
 * change at every look would fill the disk with them. Whoever knows the position of one and reads it after it
 * was given back is told so, and looks for the one that took its place (mirror_read_email()); whoever cannot
 * do that keeps mirror->open_indexes above 0. What is not remembered here is cleared away at the next start.
 */
#ifndef INBOXFS_STORE_DEAD_FRAMES_H
#define INBOXFS_STORE_DEAD_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "store/record_log.h"

enum {
    DEAD_FRAMES_MAX = 64 * 1024, /* stretches of records side by side */
};

struct dead_stretch;

struct dead_frames { /* empty: all zeros */
    struct dead_stretch *stretches;
    size_t len;
    size_t capacity;
};

void dead_frames_release(struct dead_frames *frames);

/* Notes that the record at `position`, of `bytes` in the file, was replaced. */
void dead_frames_add(struct dead_frames *frames, uint64_t position, uint64_t bytes);

/* Gives them back, once what took their place is durable (waits for the disk). */
void dead_frames_discard(struct dead_frames *frames, struct record_log *log);

#endif
