/* SPDX-License-Identifier: MIT */
/*
 * One pass, one window. The kernel reads ahead of it.
 */
#include "store/record_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "store/record_frame.h"

enum {
    WINDOW_BYTES = 1024 * 1024, /* but as long as the longest frame */
    PAGE_BYTES = 4096,          /* what a disk cannot read at once */
    UNREADABLE_MAX = 256,       /* pages: a disk may try each for seconds */
};

struct window {
    char *bytes;
    size_t capacity;
    size_t start; /* in the file; a multiple of RECORD_FRAME_ALIGNMENT */
    size_t len;
};

/* How many of the bytes there are. What the disk cannot read is zeros, which are no frame. */
static size_t read_bytes(struct record_scan *scan, char *ret_bytes, size_t len, size_t offset)
{
    ssize_t got = file_pread_all(scan->fd, ret_bytes, len, (off_t)offset);
    if (got >= 0)
        return (size_t)got;
    for (size_t done = 0; done < len;) {
        size_t part = PAGE_BYTES - (offset + done) % PAGE_BYTES;
        if (part > len - done)
            part = len - done;
        got = file_pread_all(scan->fd, ret_bytes + done, part, (off_t)(offset + done));
        if (got < 0 && ++scan->unreadable > UNREADABLE_MAX)
            return done;
        if (got < 0)
            memset(ret_bytes + done, 0, part);
        else if ((size_t)got < part)
            return done + (size_t)got;
        done += part;
    }
    return len;
}

/* Makes `len` bytes from `offset` on part of the window, or fewer: *scan ends where the file can be read to.
 * 0 or -ENOMEM. */
static int fill(struct window *window, struct record_scan *scan, size_t offset, size_t len)
{
    if (len > window->capacity) {
        free(window->bytes);
        *window = (struct window){.bytes = malloc(len > WINDOW_BYTES ? len : WINDOW_BYTES),
                                  .capacity = len > WINDOW_BYTES ? len : WINDOW_BYTES};
        if (window->bytes == NULL)
            return -ENOMEM;
    }
    size_t wanted = scan->bytes - offset < window->capacity ? scan->bytes - offset : window->capacity;
    window->start = offset;
    window->len = read_bytes(scan, window->bytes, wanted, offset);
    if (window->len < wanted)
        scan->bytes = offset + window->len;
    return 0;
}

static bool has(const struct window *window, size_t offset, size_t len)
{
    return offset >= window->start && offset - window->start <= window->len &&
           window->len - (offset - window->start) >= len;
}

/* The frame at `offset`, or NULL: there is none that is intact. 0 or -ENOMEM. */
static int look(struct window *window, struct record_scan *scan, size_t offset,
                const struct record_frame **ret_frame)
{
    size_t len = sizeof(struct record_frame);
    int error = 0;
    *ret_frame = NULL;
    if (!has(window, offset, len))
        error = fill(window, scan, offset, len);
    if (error != 0 || !has(window, offset, len))
        return error;
    const struct record_frame *frame = (const void *)(window->bytes + (offset - window->start));
    if (!record_frame_has_head(frame) || record_frame_bytes(frame->len) > scan->bytes - offset)
        return 0;
    /* Of an idle one nothing but the head counts, and it may be longer than any other. */
    if (frame->kind != RECORD_FRAME_IDLE)
        len = record_frame_bytes(frame->len);
    if (!has(window, offset, len))
        error = fill(window, scan, offset, len);
    if (error != 0 || !has(window, offset, len))
        return error;
    frame = (const void *)(window->bytes + (offset - window->start));
    if (record_frame_is_intact(frame, scan->bytes - offset))
        *ret_frame = frame;
    return 0;
}

static int visit_all(struct record_scan *scan, struct window *window, record_visitor visitor, void *context)
{
    bool is_damaged = false; /* since the last intact frame */
    for (size_t offset = scan->end; offset < scan->bytes;) {
        const struct record_frame *frame;
        int error = look(window, scan, offset, &frame);
        if (error != 0)
            return error;
        if (frame == NULL) {
            is_damaged = true;
            offset += RECORD_FRAME_ALIGNMENT;
            continue;
        }
        scan->damaged += is_damaged;
        is_damaged = false;
        offset += record_frame_bytes(frame->len);
        scan->end = offset;
        if (frame->kind != RECORD_FRAME_IDLE)
            error = visitor(context, frame->kind, frame->payload, frame->len,
                            offset - record_frame_bytes(frame->len) + sizeof(*frame));
        if (error != 0)
            return error;
    }
    return 0;
}

int record_scan_run(struct record_scan *scan, record_visitor visitor, void *context)
{
    struct window window = {.bytes = NULL};
    posix_fadvise(scan->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    int error = visit_all(scan, &window, visitor, context);
    free(window.bytes);
    return error;
}
