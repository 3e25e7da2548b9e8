/* SPDX-License-Identifier: MIT */
/*
 * Records in the cache that others have taken the place of, while the program runs. A service whose records
 * change at every look would fill the disk with them. Whoever was handed one may look at it for a while yet,
 * so they are kept for DEAD_FRAMES_MS. What is not remembered here is cleared away at the next start.
 */
#ifndef INBOXFS_STORE_DEAD_FRAMES_H
#define INBOXFS_STORE_DEAD_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "store/record_log.h"

enum {
    DEAD_FRAMES_MS = 15 * 60 * 1000,
    DEAD_FRAMES_MAX = 64 * 1024, /* stretches of records side by side */
};

struct dead_stretch;

struct dead_frames {                /* empty: all zeros */
    struct dead_stretch *stretches; /* in order of their death */
    size_t len;
    size_t capacity;
};

void dead_frames_release(struct dead_frames *frames);

/* Notes that the record whose payload is `payload`, of `bytes` in the file, was replaced. */
void dead_frames_add(struct dead_frames *frames, const struct record_log *log, const void *payload,
                     uint64_t bytes, int64_t now_ms);

/* Gives back what died long enough before `now_ms` (monotonic). */
void dead_frames_discard(struct dead_frames *frames, struct record_log *log, int64_t now_ms);

#endif
