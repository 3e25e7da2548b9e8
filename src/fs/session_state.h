/* SPDX-License-Identifier: MIT */
/*
 * What struct fs_session is made of; for the files of this layer alone.
 */
#ifndef INBOXFS_FS_SESSION_STATE_H
#define INBOXFS_FS_SESSION_STATE_H

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/thread.h"
#include "fs/notifier.h"
#include "fs/request_loop.h"
#include "fs/session.h"
#include "fs/stream.h"
#include "fs/waiting.h"
#include "fs/watch_helper.h"

struct fs_session {
    struct tree *tree; /* borrowed */
    char *mountpoint;
    bool is_single_threaded;
    void (*ended)(void *context);
    void *context;
    struct fuse_session *fuse;
    unsigned int max_read; /* bytes a READ asks for at most (-o max_read); 0: the kernel decides */
    bool is_mounted;
    bool is_started;
    bool is_stopped;
    atomic_bool is_gone; /* unmount_is_complete(): all files are closed */
    struct request_loop loop;
    struct waiting_room waiting;
    struct stream_readers readers;
    struct notifier notifier;
    struct announcer announcer;
    dev_t device;          /* of the mount */
    atomic_flag is_giving; /* first_content.h */
};

static inline struct fs_session *session_of(fuse_req_t request)
{
    return fuse_req_userdata(request);
}

#endif
