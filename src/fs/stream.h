/* SPDX-License-Identifier: MIT */
/*
 * Readers of a stream: a read that finds nothing waits until there is something, the reader is interrupted,
 * or the session ends.
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
    GHashTable *polls; /* protected by lock, like all below: by handle, libfuse's of its poll (owned) */
    bool is_closed;
};

void stream_readers_init(struct stream_readers *readers);
void stream_readers_release(struct stream_readers *readers);

/* The arguments of a read. */
struct stream_part {
    size_t size;
    off_t offset;
    bool may_wait; /* the file was not opened with O_NONBLOCK */
};

/* tree_read() of a stream, which waits for something. 0 with no bytes: the end, for the session ends; -EINTR:
 * cancelled; -EAGAIN: there is nothing, and it may not wait; -errno. */
int stream_read(struct stream_readers *readers, struct tree_handle *handle, const struct stream_part *part,
                struct cancel *cancel, struct tree_data *ret);

/* Answers the POLL of a stream, and notifies the kernel later where there is nothing. Does not wait. */
void stream_poll(struct stream_readers *readers, fuse_req_t request, struct tree_handle *handle,
                 struct fuse_pollhandle *poll);

/* Wakes all readers, and notifies the kernel of all polls. Not from within a request. */
void stream_readers_answer(struct stream_readers *readers);

/* From now on everybody reads the end of the file at once. */
void stream_readers_close(struct stream_readers *readers);

/* The handle is about to be released. */
void stream_forget(struct stream_readers *readers, const struct tree_handle *handle);

#endif
