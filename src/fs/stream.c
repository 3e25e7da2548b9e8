/* SPDX-License-Identifier: MIT */
/*
 * One libfuse poll handle is kept for each open file that is polled. One is enough, since the kernel uses the
 * same number for all polls of the file. A handle for each poll would take more and more memory if a program
 * polls with a time-out for days without an event.
 */
#include "fs/stream.h"

#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/lock.h"

static void destroy_poll(gpointer poll)
{
    fuse_pollhandle_destroy(poll);
}

void stream_readers_init(struct stream_readers *readers)
{
    *readers = (struct stream_readers){.polls = g_hash_table_new_full(NULL, NULL, NULL, destroy_poll)};
    pthread_mutex_init(&readers->lock, NULL);
    clock_condition_init(&readers->grew);
}

void stream_readers_release(struct stream_readers *readers)
{
    g_hash_table_unref(readers->polls);
    pthread_cond_destroy(&readers->grew);
    pthread_mutex_destroy(&readers->lock);
}

int stream_read(struct stream_readers *readers, struct tree_handle *handle, size_t size, off_t offset,
                struct cancel *cancel, struct tree_data *ret)
{
    int waited = 0;
    LOCK_GUARD(&readers->lock);
    for (;;) {
        int error = tree_read(handle, size, offset, ret);
        if (error != 0 || ret->len > 0 || size == 0 || readers->is_closed)
            return error;
        tree_data_release(ret);
        if (waited != 0 || cancel == NULL)
            return waited != 0 ? waited : -EAGAIN;
        waited = wait_until(clock_system(), &readers->grew, &readers->lock, CLOCK_FOREVER, cancel);
    }
}

void stream_poll(struct stream_readers *readers, fuse_req_t request, struct tree_handle *handle,
                 struct fuse_pollhandle *poll)
{
    pthread_mutex_lock(&readers->lock);
    bool is_readable = readers->is_closed || tree_is_readable(handle);
    if (poll != NULL && !is_readable)
        g_hash_table_insert(readers->polls, handle, poll);
    else if (poll != NULL)
        fuse_pollhandle_destroy(poll);
    pthread_mutex_unlock(&readers->lock);
    fuse_reply_poll(request, is_readable ? POLLIN | POLLRDNORM : 0);
}

/* Unlike other notifications, this one waits for no request: the kernel only wakes those who poll. So the
 * lock may be held, and any thread may call. */
static gboolean notify_poll(gpointer handle, gpointer poll, gpointer nothing)
{
    fuse_lowlevel_notify_poll(poll);
    return TRUE; /* the table destroys it */
}

void stream_readers_wake(struct stream_readers *readers)
{
    LOCK_GUARD(&readers->lock);
    pthread_cond_broadcast(&readers->grew);
    g_hash_table_foreach_remove(readers->polls, notify_poll, NULL);
}

void stream_readers_close(struct stream_readers *readers)
{
    pthread_mutex_lock(&readers->lock);
    readers->is_closed = true;
    pthread_mutex_unlock(&readers->lock);
    stream_readers_wake(readers);
}

void stream_drop_poll(struct stream_readers *readers, const struct tree_handle *handle)
{
    LOCK_GUARD(&readers->lock);
    g_hash_table_remove(readers->polls, handle);
}
