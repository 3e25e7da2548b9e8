/* SPDX-License-Identifier: MIT */
/*
 * An array of stretches. A service that answers in the same order each time replaces records in the order in
 * which they stand in the file, which makes few stretches of many.
 */
#include "store/dead_frames.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_CAPACITY = 64,
    STRETCH_MAX_BYTES = 64 * 1024 * 1024,
};

struct dead_stretch {
    uint64_t offset; /* of the first payload */
    uint64_t bytes;
    int64_t died_ms; /* the last of them */
};

void dead_frames_release(struct dead_frames *frames)
{
    free(frames->stretches);
    *frames = (struct dead_frames){0};
}

static struct dead_stretch *last_before(struct dead_frames *frames, uint64_t offset, uint64_t bytes)
{
    if (frames->len == 0)
        return NULL;
    struct dead_stretch *last = &frames->stretches[frames->len - 1];
    return last->offset + last->bytes == offset && last->bytes + bytes <= STRETCH_MAX_BYTES ? last : NULL;
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

void dead_frames_add(struct dead_frames *frames, const struct record_log *log, const void *payload,
                     uint64_t bytes, int64_t now_ms)
{
    uint64_t offset = record_log_offset(log, payload);
    if (offset == UINT64_MAX)
        return;
    struct dead_stretch *stretch = last_before(frames, offset, bytes);
    if (stretch != NULL) {
        stretch->bytes += bytes;
        stretch->died_ms = now_ms;
        return;
    }
    stretch = append(frames);
    if (stretch != NULL)
        *stretch = (struct dead_stretch){.offset = offset, .bytes = bytes, .died_ms = now_ms};
}

void dead_frames_discard(struct dead_frames *frames, struct record_log *log, int64_t now_ms)
{
    size_t done = 0;
    while (done < frames->len && now_ms - frames->stretches[done].died_ms >= DEAD_FRAMES_MS) {
        const struct dead_stretch *stretch = &frames->stretches[done++];
        record_log_discard(log, stretch->offset, stretch->bytes); /* stays taken until the next start */
    }
    frames->len -= done;
    if (done > 0)
        memmove(frames->stretches, frames->stretches + done, frames->len * sizeof(frames->stretches[0]));
}
