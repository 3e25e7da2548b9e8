/* SPDX-License-Identifier: MIT */
/*
 * The process through which inotify watchers see new files of the service. The kernel raises events only for
 * actions of processes, never for notifications by a filesystem's daemon. So a process of our own creates
 * each new file on our own mount, and closes it: IN_CREATE, IN_OPEN, IN_CLOSE_WRITE.
 *
 * The helper cannot be a thread: a thread that waits for its own daemon keeps a killed daemon from dying, and
 * the mount hangs for ever. For the same reason the process has no FUSE device and no lock of the daemon,
 * only the pipe through which it receives paths. It dies with the daemon.
 *
 * The daemon writes paths into the pipe, which never waits. It starts another process when one has died, but
 * not at once when that happens often. A path may be dropped (the pipe is full, or there is no process):
 * listings show the new file all the same.
 *
 * There are two helpers. The second is for messages of Maildirs, and has no process before the first message.
 * Its process may have to wait for a folder that the kernel locks while a lookup fetches a message. Other new
 * files do not wait for the second helper.
 */
#ifndef INBOXFS_FS_WATCH_HELPER_H
#define INBOXFS_FS_WATCH_HELPER_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/wait.h"

/* Memory that the daemon shares with the processes. */
struct watch_helper_shared {
    atomic_ulong done; /* number of paths done so far: lost, or with a file that was created and closed */
    dev_t device;      /* st_dev of the mount; set before the first path, like `mountpoint` */
    char mountpoint[PATH_MAX];
};

struct watch_helper {
    atomic_int pid; /* id of the process; 0 if there is none */
    struct watch_helper_shared *shared;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    int fd;             /* non-blocking pipe to the process, or -1; protected by `lock`, like all below */
    int64_t started_ms; /* monotonic time of the last restart, or 0 */
    unsigned long announced; /* number of paths written so far */
    bool is_running;
};

/* Forks the process; must be called before there are threads, locks and the mount. The process dies with the
 * calling thread; then, as after a failure, watch_helper_announce() starts another. Return: 0 or
 * -errno. The caller releases the helper in any case. */
int watch_helper_init(struct watch_helper *helper);
/* The process starts when there is something to announce. */
void watch_helper_init_without_process(struct watch_helper *helper);
/* From now on files are announced. `device`: st_dev of the mount; the process creates nothing elsewhere. */
void watch_helper_start(struct watch_helper *helper, dev_t device, const char *mountpoint);
/* Kills the process, but does not wait for its end: the process may be waiting for the mount. Idempotent. */
void watch_helper_stop(struct watch_helper *helper);
/* Stops, and waits for the process to end. The mount must answer, or be gone. */
void watch_helper_release(struct watch_helper *helper);

/* Announces a new file by its path below the mount point. Does not wait. Always called by the same thread,
 * which must not end before watch_helper_stop(): a process dies with the thread that started it. */
void watch_helper_announce(struct watch_helper *helper, const char *path);

/* Waits until watchers have seen all files announced before, or the process has died, but not longer than
 * `at_most_ms`. The process then has nothing open that could prevent an unmount. Must not be called while the
 * kernel has locked a folder in which the process creates files. */
void watch_helper_wait(struct watch_helper *helper, int64_t at_most_ms, struct cancel *cancel);

bool watch_helper_has_pid(const struct watch_helper *helper, pid_t pid);

#endif
