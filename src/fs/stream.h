/* SPDX-License-Identifier: MIT */
/*
 * Readers of a stream: a read that finds nothing waits until there is something to read, the reader is
 * interrupted, or the session ends.
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
    GHashTable *polls; /* tree_handle → fuse_pollhandle (owned); protected by lock, like all below */
    bool is_closed;
};

void stream_readers_init(struct stream_readers *readers);
void stream_readers_release(struct stream_readers *readers);

/* Reads a stream (tree_read()), and waits until there is something to read; if `cancel` is NULL, it does not
 * wait. Return: 0 (with no bytes when the session ends); -EINTR when cancelled; -EAGAIN when there is nothing
 * and the read may not wait; another -errno of tree_read(). */
int stream_read(struct stream_readers *readers, struct tree_handle *handle, size_t size, off_t offset,
                struct cancel *cancel, struct tree_data *ret);

/* Answers a POLL; if there is nothing to read, the kernel is notified later. Does not wait. Takes `poll`
 * (may be NULL). */
void stream_poll(struct stream_readers *readers, fuse_req_t request, struct tree_handle *handle,
                 struct fuse_pollhandle *poll);

/* Wakes all readers, and notifies the kernel of all polls. Must not be called from within a request. */
void stream_readers_wake(struct stream_readers *readers);

/* From now on, makes all reads that find nothing return the end of the file at once. */
void stream_readers_close(struct stream_readers *readers);

/* Drops the handle's poll. To be called before the handle is released. */
void stream_drop_poll(struct stream_readers *readers, const struct tree_handle *handle);

#endif
