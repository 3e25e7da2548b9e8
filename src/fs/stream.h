/* SPDX-License-Identifier: MIT */
/*
 * Readers of a stream: reads that find nothing are parked, without a thread, until there is something, the
 * reader is interrupted, or the session ends.
 */
#ifndef INBOXFS_FS_STREAM_H
#define INBOXFS_FS_STREAM_H

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdbool.h>

#include "tree/tree.h"

struct parked_read;
struct parked_poll;

struct stream_readers {
    pthread_mutex_t lock;
    struct parked_read *reads; /* protected by lock, like all below */
    struct parked_poll *polls;
    bool is_closed;
};

void stream_readers_init(struct stream_readers *readers);
void stream_readers_release(struct stream_readers *readers);

/* Answer READ and POLL of a stream, at once or later. `flags`: of the open file; with O_NONBLOCK a read does
 * not wait. */
void stream_read(struct stream_readers *readers, fuse_req_t request, struct tree_handle *handle, size_t size,
                 off_t offset, int flags);
void stream_poll(struct stream_readers *readers, fuse_req_t request, struct tree_handle *handle,
                 struct fuse_pollhandle *poll);

/* Answers all who now find something. Not from within a request. */
void stream_readers_answer(struct stream_readers *readers);

/* From now on everybody reads the end of the file at once. */
void stream_readers_close(struct stream_readers *readers);

/* The handle is about to be released. */
void stream_forget(struct stream_readers *readers, const struct tree_handle *handle);

#endif
