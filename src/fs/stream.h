/* SPDX-License-Identifier: MIT */
/*
 * Readers of a stream (the file `events`). A read that finds nothing waits until there is something to read,
 * the reader is interrupted, or the session ends.
 */
#ifndef INBOXFS_FS_STREAM_H
#define INBOXFS_FS_STREAM_H

#include <fuse_lowlevel.h>
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/wait.h"
#include "tree/tree.h"

struct stream_readers {
    pthread_mutex_t lock;
    pthread_cond_t grew;
    GHashTable *polls; /* tree_handle → fuse_pollhandle (owned); protected by `lock`, like all below */
    bool is_closed;
};

void stream_readers_init(struct stream_readers *readers);
void stream_readers_release(struct stream_readers *readers);

/* Waits until there is something to read, and reads it as tree_read() does. Return: 0 (with no bytes if the
 * session ends); -EINTR if cancelled; -EAGAIN if `cancel` is NULL and there is nothing to read; another
 * -errno of tree_read(). */
int stream_read(struct stream_readers *readers, struct tree_handle *handle, size_t size, off_t offset,
                struct cancel *cancel, struct tree_data *ret);

/* Answers a POLL. If there is nothing to read, stream_readers_wake() notifies the kernel later. Takes
 * ownership of `poll`, which may be NULL. */
void stream_poll(struct stream_readers *readers, fuse_req_t request, struct tree_handle *handle,
                 struct fuse_pollhandle *poll);

/* Wakes all readers, and notifies the kernel for all polls. Must not be called from within a request. */
void stream_readers_wake(struct stream_readers *readers);

/* Ends the waiting reads. From now on a read that finds nothing returns the end of the file. */
void stream_readers_close(struct stream_readers *readers);

/* Must be called before the handle is released. */
void stream_drop_poll(struct stream_readers *readers, const struct tree_handle *handle);

#endif
