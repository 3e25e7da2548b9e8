/* SPDX-License-Identifier: MIT */
/*
 * The kernel's requests: for each kind one function, which calls the tree and answers. Requests without a
 * function (extended attributes, locks, ioctl) are answered ENOSYS once; the kernel then stops sending them.
 *
 * A function runs on the thread of the request loop that read the request, and may wait there. This unit does
 * three things that the tree does not do: reads of a stream wait until there is something to read; files that
 * the watch helper creates are answered differently from those of other processes; a write to `ctl` and an
 * fsync of outbox/ are answered when the kernel and the watchers know of new files.
 */
#ifndef INBOXFS_FS_OPERATIONS_H
#define INBOXFS_FS_OPERATIONS_H

#include <fuse_lowlevel.h>

#include "fs/notifier.h"
#include "fs/request.h"
#include "fs/stream.h"
#include "fs/watch_helper.h"

/* The state that requests share; the `userdata` of the libfuse session. All pointers are borrowed. */
struct operations {
    struct fuse_session *fuse;
    struct tree *tree;
    struct request_list *requests;
    struct stream_readers *readers;
    struct notifier *notifier;
    unsigned int max_read; /* bytes of one READ at most (-o max_read); 0: the kernel decides */
};

const struct fuse_lowlevel_ops *operations_table(void);

#endif
