/* SPDX-License-Identifier: MIT */
/*
 * The process through which inotify watchers see what the service did. The kernel raises events for what
 * processes do, never for what a filesystem's daemon tells it; so a process of our own creates each new file
 * on our own mount, in earnest, and closes it: IN_CREATE, IN_OPEN, IN_CLOSE_WRITE.
 *
 * It cannot be a thread: one that waits for the daemon that it belongs to keeps a killed daemon from dying,
 * and the mount hangs for ever. For the same reason the process holds nothing of the daemon's: no FUSE
 * device, no lock, nothing but the pipe that it is told by. It dies with the daemon.
 */
#ifndef INBOXFS_FS_WATCH_HELPER_H
#define INBOXFS_FS_WATCH_HELPER_H

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

struct watch_helper {
    pid_t pid; /* 0: there is none */
    int fd;    /* the pipe to it, non-blocking; -1: none */
    /* How many paths it is done with: closed, and nothing of the mount open. In memory that it shares, and
     * each one that follows it; NULL before the first. */
    atomic_ulong *done;
};

#define WATCH_HELPER_NONE ((struct watch_helper){.fd = -1})

enum {
    /* Of all strings handed over at once: they go into the pipe whole, or not at all. */
    WATCH_HELPER_MAX_BYTES = 4096,
};

/* Forks it. Best before there are threads, locks and the mount; also later. The thread that calls this must
 * live on: the process dies with it. A dead one may be started anew. 0 or -errno. */
int watch_helper_start(struct watch_helper *helper);

/* Hands over NUL-terminated strings. The first two of all are the device number of the mount in decimal, and
 * the mount point; each that follows is the path of a new file below it. What is not on that device is left
 * alone. 0; -EAGAIN: the pipe is full; -EPIPE: it died. */
int watch_helper_send(const struct watch_helper *helper, const char *strings, size_t len);

/* Tells it to end. Does not wait: it may be waiting for an answer of the mount. */
void watch_helper_end(struct watch_helper *helper);
/* Waits for its end. Only when the mount answers, or is gone. */
void watch_helper_reap(struct watch_helper *helper);
/* When it was reaped, for good. */
void watch_helper_release(struct watch_helper *helper);

#endif
