/* SPDX-License-Identifier: MIT */
/*
 * Readers wait on a condition, each in the thread of its request. Polls are kept in a list: libfuse's handle
 * of a poll is how the kernel is notified later.
 */
#include "fs/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"

struct parked_poll {
    const struct tree_handle *handle;
    struct fuse_pollhandle *poll;
    struct parked_poll *next; /* protected by the readers' lock */
};

void stream_readers_init(struct stream_readers *readers)
{
    *readers = (struct stream_readers){.polls = NULL};
    pthread_mutex_init(&readers->lock, NULL);
    clock_condition_init(&readers->grew);
}

void stream_readers_release(struct stream_readers *readers)
{
    pthread_cond_destroy(&readers->grew);
    pthread_mutex_destroy(&readers->lock);
}

int stream_read(struct stream_readers *readers, struct tree_handle *handle, const struct stream_part *part,
                struct cancel *cancel, struct tree_data *ret)
{
    int waited = 0;
    LOCK_GUARD(&readers->lock);
    for (;;) {
        int error = tree_read(handle, part->size, part->offset, ret);
        if (error != 0 || ret->len > 0 || part->size == 0 || readers->is_closed)
            return error;
        tree_data_release(ret);
        if (waited != 0 || !part->may_wait)
            return waited != 0 ? waited : -EAGAIN;
        waited = wait_until(clock_system(), &readers->grew, &readers->lock, CLOCK_FOREVER, cancel);
    }
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
    pthread_mutex_lock(&readers->lock);
    pthread_cond_broadcast(&readers->grew);
    struct parked_poll *polls = readers->polls;
    readers->polls = NULL;
    pthread_mutex_unlock(&readers->lock);
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
