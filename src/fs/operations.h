/* SPDX-License-Identifier: MIT */
/*
 * The kernel's requests: one function each, which asks the tree and answers. What is not among them (extended
 * attributes, locks, ioctl) is answered ENOSYS once and then left to the kernel.
 *
 * Each runs on the thread of the request loop that read the request, and may wait there. Three things are
 * done beside the tree: reads of a stream wait for something to read, what the watch helper creates
 * is answered for it alone, and those who asked for news (`ctl`, fsync of outbox/) are answered when the
 * kernel and the watchers know of it.
 */
#ifndef INBOXFS_FS_OPERATIONS_H
#define INBOXFS_FS_OPERATIONS_H

#include <fuse_lowlevel.h>
#include <stdatomic.h>

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
    unsigned int max_read;         /* bytes a READ asks for at most (-o max_read); 0: the kernel decides */
    atomic_flag is_giving_content; /* see give_first_content() */
};

const struct fuse_lowlevel_ops *operations_table(void);

#endif
