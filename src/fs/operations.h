/* SPDX-License-Identifier: MIT */
/*
 * The kernel's requests: for each kind one function, which calls the tree and answers. A request without a
 * function, such as for an extended attribute, is answered ENOSYS; the kernel then sends no other of its
 * kind.
 *
 * A function runs on the thread that read the request, and may wait there. This unit does three things that
 * the tree does not do: a read of a stream waits until there is something to read; lookups and creations of
 * the watch helper get answers of their own; a write to `ctl` and an fsync of outbox/ wait until the kernel
 * and the inotify watchers know of new files.
 */
#ifndef INBOXFS_FS_OPERATIONS_H
#define INBOXFS_FS_OPERATIONS_H

#include <fuse_lowlevel.h>

#include "fs/notifier.h"
#include "fs/request.h"
#include "fs/stream.h"
#include "fs/watch_helper.h"

/* The state that requests share; the `userdata` of the libfuse session. */
struct operations {
    struct fuse_session *fuse;
    struct tree *tree; /* borrowed */
    struct request_list requests;
    struct stream_readers readers;
    struct notifier notifier;
    unsigned int max_read; /* size of the largest READ (-o max_read); 0: the kernel decides */
};

const struct fuse_lowlevel_ops *operations_table(void);

#endif
