/* SPDX-License-Identifier: MIT */
/*
 * Mounts a tree: a libfuse session, the threads that carry out the kernel's requests, and the notifier of
 * changes. All these threads block signals; the daemon's main thread receives a signal, and calls
 * fs_session_stop(). If another program ends the mount, as umount(8) does, a thread of the session sends
 * SIGTERM to the process.
 *
 *     fs_session_new()  →  _mount()  →  …  →  _stop()  →  _free()
 */
#ifndef INBOXFS_FS_SESSION_H
#define INBOXFS_FS_SESSION_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "fs/watch_helper.h"
#include "tree/tree.h"

struct fs_session;

struct fs_session_config {
    struct tree *tree;                 /* borrowed */
    struct watch_helper *watch_helper; /* initialised; borrowed until fs_session_free() */
    const char *mountpoint;            /* copied */
    const char *source;                /* what mount(8) and df(1) show as the device; copied */
    const char *mount_options; /* text after -o ("allow_other,ro"), or NULL; checked by libfuse and kernel */
    bool is_debug;             /* print every request (-d) */
};

/* Return: 0; -EINVAL if libfuse refuses an option; another -errno. *ret_reason (caller frees) may be set on
 * failure. */
int fs_session_new(const struct fs_session_config *config, struct fs_session **ret_session,
                   char **ret_reason);

/* Returns the reason why /dev/fuse cannot be opened (caller frees), or NULL if it can. */
char *fs_find_device_problem(void);

/* Mounts, and starts the threads, which answer requests. Return: 0 or -errno; *ret_reason (caller frees) may
 * be set on failure. A program that goes into the background must fork before this call. */
int fs_session_mount(struct fs_session *session, char **ret_reason);

/* Cancels the requests under way, waits for them, ends all threads, and unmounts, lazily if the mount is in
 * use. The store and the outbox must be stopped later. Idempotent. */
void fs_session_stop(struct fs_session *session);

/* NULL-safe. Calls fs_session_stop() first. */
void fs_session_free(struct fs_session *session);

/* Returns true if the path is the mount point of a FUSE daemon that died ("Transport endpoint is not
 * connected"). */
bool fs_mountpoint_is_dead(const char *mountpoint);

/* Unless the unmount is lazy, waits until the kernel has written out changed pages. Return: 0; -EBUSY if
 * fusermount3 fails: the mount is in use, or this user may not unmount it; another -errno if fusermount3
 * cannot be run. */
int fs_mountpoint_unmount(const char *mountpoint, bool is_lazy);

DEFINE_CLEANUP_FREE(fs_session)

#endif
