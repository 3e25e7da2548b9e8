/* SPDX-License-Identifier: MIT */
/*
 * Parked reads. libfuse calls `interrupted` with the request's own lock held, and so does setting it: the
 * order is that lock, then ours. With ours held no function of libfuse is called but
 * fuse_req_interrupted(), which takes the session's lock alone.
 */
#include "fs/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "fs/request.h"

struct parked_read {
    struct stream_readers *readers;
    fuse_req_t request;
    struct tree_handle *handle;
    size_t size;
    off_t offset;
    struct tree_data data; /* the answer, once there is one */
    int error;
    bool is_parked;           /* protected by the readers' lock: in their list */
    struct parked_read *next; /* protected by the readers' lock */
};

struct parked_poll {
    const struct tree_handle *handle;
    struct fuse_pollhandle *poll;
    struct parked_poll *next; /* protected by the readers' lock */
};

void stream_readers_init(struct stream_readers *readers)
{
    *readers = (struct stream_readers){.reads = NULL};
    pthread_mutex_init(&readers->lock, NULL);
}

void stream_readers_release(struct stream_readers *readers)
{
    pthread_mutex_destroy(&readers->lock);
}

static bool unpark_locked(struct parked_read *read)
{
    struct parked_read **link = &read->readers->reads;
    while (*link != NULL && *link != read)
        link = &(*link)->next;
    if (*link == NULL)
        return false;
    *link = read->next;
    read->is_parked = false;
    return true;
}

/* One that is not parked (yet, or any more) belongs to somebody who answers it. */
static void interrupted(fuse_req_t request, void *context)
{
    struct parked_read *read = context;
    pthread_mutex_lock(&read->readers->lock);
    bool is_ours = read->is_parked && unpark_locked(read);
    pthread_mutex_unlock(&read->readers->lock);
    if (is_ours) {
        reply_status(request, -EINTR);
        free(read);
    }
}

/* Returns true if the read can be answered now; `is_closed` counts as an answer. */
static bool try_read(struct parked_read *read, bool is_closed)
{
    read->error = tree_read(read->handle, read->size, read->offset, &read->data);
    return read->error != 0 || read->data.len > 0 || is_closed;
}

static void answer(struct parked_read *read)
{
    /* Waits until an interrupt that is being delivered has been. */
    fuse_req_interrupt_func(read->request, NULL, NULL);
    reply_data(read->request, read->error, &read->data);
    free(read);
}

void stream_read(struct stream_readers *readers, fuse_req_t request, struct tree_handle *handle, size_t size,
                 off_t offset, int flags)
{
    struct parked_read *read = calloc(1, sizeof(*read));
    if (read == NULL) {
        reply_status(request, -ENOMEM);
        return;
    }
    *read = (struct parked_read){
        .readers = readers, .request = request, .handle = handle, .size = size, .offset = offset};
    fuse_req_interrupt_func(request, interrupted, read);

    pthread_mutex_lock(&readers->lock);
    bool is_done = try_read(read, readers->is_closed || size == 0);
    if (!is_done) {
        tree_data_release(&read->data);
        read->error = fuse_req_interrupted(request) ? -EINTR : -EAGAIN;
        is_done = read->error == -EINTR || (flags & O_NONBLOCK) != 0;
    }
    if (!is_done) {
        read->is_parked = true;
        read->next = readers->reads;
        readers->reads = read;
    }
    pthread_mutex_unlock(&readers->lock);
    if (is_done)
        answer(read);
}

static bool is_polled_locked(const struct stream_readers *readers, const struct tree_handle *handle)
{
    for (const struct parked_poll *poll = readers->polls; poll != NULL; poll = poll->next)
        if (poll->handle == handle)
            return true;
    return false;
}

/* One for each open file is enough: the kernel knows it by the same number in all of its polls, and a program
 * that polls with a time-out goes on for days without an event. */
void stream_poll(struct stream_readers *readers, fuse_req_t request, struct tree_handle *handle,
                 struct fuse_pollhandle *poll)
{
    struct parked_poll *parked = poll != NULL ? malloc(sizeof(*parked)) : NULL;

    pthread_mutex_lock(&readers->lock);
    bool is_readable = readers->is_closed || tree_is_readable(handle);
    bool is_kept = !is_readable && parked != NULL && !is_polled_locked(readers, handle);
    if (is_kept) {
        *parked = (struct parked_poll){.handle = handle, .poll = poll, .next = readers->polls};
        readers->polls = parked;
    }
    pthread_mutex_unlock(&readers->lock);
    if (!is_kept) {
        free(parked);
        if (poll != NULL)
            fuse_pollhandle_destroy(poll);
    }
    fuse_reply_poll(request, is_readable ? POLLIN | POLLRDNORM : 0);
}

static void notify_polls(struct parked_poll *polls, bool is_notified)
{
    while (polls != NULL) {
        struct parked_poll *next = polls->next;
        if (is_notified)
            fuse_lowlevel_notify_poll(polls->poll);
        fuse_pollhandle_destroy(polls->poll);
        free(polls);
        polls = next;
    }
}

void stream_readers_answer(struct stream_readers *readers)
{
    struct parked_read *answered = NULL;

    pthread_mutex_lock(&readers->lock);
    for (struct parked_read **link = &readers->reads; *link != NULL;) {
        struct parked_read *read = *link;
        if (try_read(read, readers->is_closed)) {
            *link = read->next;
            read->is_parked = false;
            read->next = answered;
            answered = read;
        } else {
            tree_data_release(&read->data);
            link = &read->next;
        }
    }
    struct parked_poll *polls = readers->polls;
    readers->polls = NULL;
    pthread_mutex_unlock(&readers->lock);

    while (answered != NULL) {
        struct parked_read *next = answered->next;
        answer(answered);
        answered = next;
    }
    notify_polls(polls, true);
}

void stream_readers_close(struct stream_readers *readers)
{
    pthread_mutex_lock(&readers->lock);
    readers->is_closed = true;
    pthread_mutex_unlock(&readers->lock);
    stream_readers_answer(readers);
}

void stream_forget(struct stream_readers *readers, const struct tree_handle *handle)
{
    struct parked_poll *forgotten = NULL;
    pthread_mutex_lock(&readers->lock);
    for (struct parked_poll **link = &readers->polls; *link != NULL;) {
        struct parked_poll *poll = *link;
        if (poll->handle == handle) {
            *link = poll->next;
            poll->next = forgotten;
            forgotten = poll;
        } else {
            link = &poll->next;
        }
    }
    pthread_mutex_unlock(&readers->lock);
    notify_polls(forgotten, false);
}
