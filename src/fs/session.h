/* SPDX-License-Identifier: MIT */
/*
 * The tree, mounted: a libfuse session, the threads that carry out the kernel's requests, and the notifier
 * that tells the kernel what changed. Signals are the daemon's business: all threads
 * here have them blocked, and fs_session_stop() is what a signal leads to.
 *
 *     fs_session_new()  →  _mount()  →  _start()  →  …  →  _stop()  →  _free()
 */
#ifndef INBOXFS_FS_SESSION_H
#define INBOXFS_FS_SESSION_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "fs/watch_helper.h"
#include "tree/tree.h"

struct fs_session;

struct fs_session_config {
    struct tree *tree; /* borrowed */
    struct watch_helper
        *watch_helper;         /* initialised; borrowed until fs_session_free(), then to be released */
    const char *mountpoint;    /* copied */
    const char *source;        /* what mount(8) and df(1) show as the device; copied */
    const char *mount_options; /* as after -o: "allow_other,ro", or NULL; libfuse and the kernel check them */
    bool is_debug;             /* print every request (-d) */
    /* The mount ended by itself (fusermount3 -u, umount, or the device failed): called once, from a thread of
     * the session, not after fs_session_stop() began. It only wakes the main thread, which then calls
     * fs_session_stop(). */
    void (*ended)(void *context);
    void *context;
};

/* 0, -EINVAL (an unknown option), -ENOMEM. *ret_reason in words (caller frees). */
int fs_session_new(const struct fs_session_config *config, struct fs_session **ret_session,
                   char **ret_reason);

/* Words for why /dev/fuse cannot be used (caller frees), NULL when it can. */
char *fs_device_trouble(void);

/* Mounts. Requests wait from now on, until fs_session_start(). 0 or -errno; *ret_reason in words (caller
 * frees). A program that goes into the background forks before this. */
int fs_session_mount(struct fs_session *session, char **ret_reason);

/* Starts the threads. When it returns 0 the mount answers. 0 or -errno. */
int fs_session_start(struct fs_session *session);

/* Unmounts (lazily where it is in use), ends all threads and waits for the requests under way, whose waits
 * are cut short. Then the store and the outbox can be stopped. Idempotent. */
void fs_session_stop(struct fs_session *session);

/* The device number of the mount, as st_dev of its files; once it is mounted. */
dev_t fs_session_device(const struct fs_session *session);

/* NULL-safe. Stops first when that was not done. */
void fs_session_free(struct fs_session *session);

/* _is_dead() returns true if the path is the mount point of a FUSE daemon that died ("Transport endpoint is
 * not connected"); _detach() takes such a mount away: 0 or -errno. */
bool fs_mountpoint_is_dead(const char *mountpoint);
int fs_mountpoint_detach(const char *mountpoint);

/* Unmounts in good order, once the kernel has written out what was changed. 0; -EBUSY: it is in use, or this
 * user may not; or -errno. */
int fs_mountpoint_unmount(const char *mountpoint);

DEFINE_CLEANUP_FREE(fs_session)

#endif
