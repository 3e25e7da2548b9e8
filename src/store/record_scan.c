/* SPDX-License-Identifier: MIT */
/*
 * Checking is reading every byte, visiting is mostly waiting for memory here and there: side by side they
 * take little longer than one of them. The thread that goes ahead stops at the first damage; from there on
 * the visitor's checks for itself.
 */
#include "store/record_scan.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/thread.h"
#include "store/record_frame.h"

static const size_t window_bytes = (size_t)1 << 25; /* pages in memory at once */
static const size_t step_bytes = (size_t)1 << 19;   /* checked before the visitor is told */
static const size_t large_bytes = (size_t)1 << 23;  /* a thread costs less than checking this */

/* Looks at frames ahead of the visitor. */
struct checker {
    const char *base;
    size_t bytes;
    size_t start;
    pthread_t thread;
    bool is_started;
    pthread_mutex_t lock;
    pthread_cond_t was_checked;
    pthread_cond_t was_visited;
    size_t checked; /* protected by lock, like all below: every frame before is intact */
    size_t visited;
    bool has_ended;
    bool is_to_end;
};

static const struct record_frame *frame_at(const char *base, size_t offset)
{
    return (const struct record_frame *)(base + offset);
}

/* Where `offset` enters another window: reads that, and lets go of what lies before. */
static void slide_window(const char *base, size_t bytes, size_t offset, size_t *window_end)
{
    if (offset < *window_end)
        return;
    size_t start = offset & ~(window_bytes - 1);
    if (*window_end > 0)
        madvise((void *)base, start, MADV_DONTNEED);
    *window_end = start + window_bytes;
    size_t ahead = bytes - start < window_bytes ? bytes - start : window_bytes;
    madvise((void *)(base + start), ahead, MADV_POPULATE_READ);
}

/* ---------------------------------------------------------------- going ahead */

/* False: nobody wants to know more. */
static bool tell_visitor(struct checker *checker, size_t checked)
{
    pthread_mutex_lock(&checker->lock);
    checker->checked = checked;
    pthread_cond_signal(&checker->was_checked);
    while (!checker->is_to_end && checked > checker->visited + window_bytes)
        pthread_cond_wait(&checker->was_visited, &checker->lock);
    bool goes_on = !checker->is_to_end;
    pthread_mutex_unlock(&checker->lock);
    return goes_on;
}

static void *check(void *argument)
{
    struct checker *checker = argument;
    size_t offset = checker->start;
    size_t told = offset;
    while (offset < checker->bytes) {
        const struct record_frame *frame = frame_at(checker->base, offset);
        if (!record_frame_is_intact(frame, checker->bytes - offset))
            break;
        offset += record_frame_bytes(frame->len);
        if (offset - told < step_bytes)
            continue;
        if (!tell_visitor(checker, offset))
            break;
        told = offset;
    }
    pthread_mutex_lock(&checker->lock);
    checker->checked = offset;
    checker->has_ended = true;
    pthread_cond_signal(&checker->was_checked);
    pthread_mutex_unlock(&checker->lock);
    return NULL;
}

static void start_checker(struct checker *checker, const struct record_scan *scan)
{
    *checker = (struct checker){
        .base = scan->base,
        .bytes = scan->bytes,
        .start = scan->end,
        .checked = scan->end,
        .visited = scan->end,
    };
    pthread_mutex_init(&checker->lock, NULL);
    pthread_cond_init(&checker->was_checked, NULL);
    pthread_cond_init(&checker->was_visited, NULL);
    checker->is_started = scan->bytes >= large_bytes && sysconf(_SC_NPROCESSORS_ONLN) > 1 &&
                          thread_start(&checker->thread, "check", check, checker) == 0;
    if (!checker->is_started)
        checker->has_ended = true;
}

static void stop_checker(struct checker *checker)
{
    pthread_mutex_lock(&checker->lock);
    checker->is_to_end = true;
    pthread_cond_signal(&checker->was_visited);
    pthread_mutex_unlock(&checker->lock);
    if (checker->is_started)
        pthread_join(checker->thread, NULL);
    pthread_cond_destroy(&checker->was_visited);
    pthread_cond_destroy(&checker->was_checked);
    pthread_mutex_destroy(&checker->lock);
}

/* Waits until the frame at `offset` has been looked at, and tells up to where frames are known to be intact:
 * no farther than `offset` when that frame is for the caller to check. */
static size_t find_checked(struct checker *checker, size_t offset)
{
    pthread_mutex_lock(&checker->lock);
    checker->visited = offset;
    pthread_cond_signal(&checker->was_visited);
    while (!checker->has_ended && checker->checked <= offset)
        pthread_cond_wait(&checker->was_checked, &checker->lock);
    size_t checked = checker->checked;
    pthread_mutex_unlock(&checker->lock);
    return checked;
}

/* ---------------------------------------------------------------- visiting */

static size_t find_intact_frame(const struct record_scan *scan, size_t offset)
{
    while (offset < scan->bytes &&
           !record_frame_is_intact(frame_at(scan->base, offset), scan->bytes - offset))
        offset += RECORD_FRAME_ALIGNMENT;
    return offset < scan->bytes ? offset : scan->bytes;
}

static int visit_all(struct record_scan *scan, struct checker *checker, record_visitor visitor, void *context)
{
    size_t window_end = 0;
    size_t checked = scan->end;
    for (size_t offset = scan->end; offset < scan->bytes;) {
        slide_window(scan->base, scan->bytes, offset, &window_end);
        const struct record_frame *frame = frame_at(scan->base, offset);
        if (offset >= checked)
            checked = find_checked(checker, offset);
        if (offset >= checked && !record_frame_is_intact(frame, scan->bytes - offset)) {
            offset = find_intact_frame(scan, offset + RECORD_FRAME_ALIGNMENT);
            scan->damaged += offset < scan->bytes;
            continue;
        }
        int error =
            frame->kind == RECORD_FRAME_IDLE ? 0 : visitor(context, frame->kind, frame->payload, frame->len);
        if (error != 0)
            return error;
        offset += record_frame_bytes(frame->len);
        scan->end = offset;
    }
    return 0;
}

int record_scan_run(struct record_scan *scan, record_visitor visitor, void *context)
{
    struct checker checker;
    start_checker(&checker, scan);
    int error = visit_all(scan, &checker, visitor, context);
    stop_checker(&checker);
    return error;
}
