/* SPDX-License-Identifier: MIT */
/*
 * An array of stretches. A service that answers in the same order each time replaces records in the order in
 * which they stand in the file, which makes few stretches of many.
 */
#include "store/dead_frames.h"

#include <stdlib.h>

enum {
    FIRST_CAPACITY = 64,
    STRETCH_MAX_BYTES = 64 * 1024 * 1024,
};

struct dead_stretch {
    uint64_t position; /* of the first record */
    uint64_t bytes;
};

void dead_frames_release(struct dead_frames *frames)
{
    free(frames->stretches);
    *frames = (struct dead_frames){0};
}

static struct dead_stretch *last_before(struct dead_frames *frames, uint64_t position, uint64_t bytes)
{
    if (frames->len == 0)
        return NULL;
    struct dead_stretch *last = &frames->stretches[frames->len - 1];
    return last->position + last->bytes == position && last->bytes + bytes <= STRETCH_MAX_BYTES ? last : NULL;
}

/* NULL: no room. */
static struct dead_stretch *append(struct dead_frames *frames)
{
    if (frames->len == frames->capacity) {
        size_t capacity = frames->capacity == 0 ? FIRST_CAPACITY : 2 * frames->capacity;
        struct dead_stretch *larger =
            capacity > DEAD_FRAMES_MAX ? NULL : realloc(frames->stretches, capacity * sizeof(*larger));
        if (larger == NULL)
            return NULL;
        frames->stretches = larger;
        frames->capacity = capacity;
    }
    return &frames->stretches[frames->len++];
}

void dead_frames_add(struct dead_frames *frames, uint64_t position, uint64_t bytes)
{
    if ((position & RECORD_IN_MEMORY) != 0)
        return;
    struct dead_stretch *stretch = last_before(frames, position, bytes);
    if (stretch != NULL) {
        stretch->bytes += bytes;
        return;
    }
    stretch = append(frames);
    if (stretch != NULL)
        *stretch = (struct dead_stretch){.position = position, .bytes = bytes};
}

void dead_frames_discard(struct dead_frames *frames, struct record_log *log)
{
    if (frames->len == 0 || record_log_sync(log) != 0)
        return;
    for (size_t i = 0; i < frames->len; i++) /* what fails stays taken until the next start */
        record_log_discard(log, frames->stretches[i].position, frames->stretches[i].bytes);
    frames->len = 0;
}
