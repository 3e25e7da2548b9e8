/* SPDX-License-Identifier: MIT */
/*
 * The process through which inotify watchers see what the service did. The kernel raises events for what
 * processes do, never for what a filesystem's daemon tells it; so a process of our own creates each new file
 * on our own mount, in earnest, and closes it: IN_CREATE, IN_OPEN, IN_CLOSE_WRITE.
 *
 * It cannot be a thread: one that waits for the daemon that it belongs to keeps a killed daemon from dying,
 * and the mount hangs for ever. For the same reason the process holds nothing of the daemon's: no FUSE
 * device, no lock, nothing but the pipe through which it is given paths. It dies with the daemon.
 *
 * The daemon's side is a queue of paths, and a thread that writes them into the pipe, so that nobody who
 * announces something waits. It starts the process anew when that has died. What is new needs none of this to
 * be seen: a path that is dropped here (too many at once, no process) is in every listing.
 *
 * There are two. The second is for messages of Maildirs, and has no process before the first of them. Their
 * names are found by its thread, which waits for the disk; and its process may have to wait for a folder that
 * the kernel locks while somebody's lookup fetches a message. Nothing else that is announced waits for that.
 */
#ifndef INBOXFS_FS_WATCH_HELPER_H
#define INBOXFS_FS_WATCH_HELPER_H

#include <glib.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/wait.h"

/* Finds the path below the mount point of what has this inode number; may wait for the disk. 0, or -errno: it
 * has none any more. */
typedef int (*watch_helper_find_path)(void *context, uint64_t ino, char *ret_path, size_t size);

/* Memory that the daemon shares with the processes. */
struct watch_helper_shared {
    /* How many of the paths taken the processes are done with (closed, and nothing of the mount open), or
     * lost. */
    atomic_ulong done;
    dev_t device; /* of the mount; set before the first path, as is: */
    char mountpoint[PATH_MAX];
};

struct watch_helper {
    atomic_int pid; /* of the process; 0: there is none */
    int fd;         /* the pipe to it, non-blocking; -1: none. The thread's while it runs, like all below */
    struct watch_helper_shared *shared; /* NULL: there is none, and there can be no process */
    unsigned long taken;                /* paths, ever, from the queue: handed over or lost */
    watch_helper_find_path find_path;   /* NULL: paths are announced, not inode numbers */
    void *context;                      /* of find_path; borrowed */
    int64_t started_ms; /* when the process was started, monotonic; 0: by watch_helper_init() */
    pthread_t thread;
    bool is_running; /* the thread */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    GQueue queue;         /* struct announcement; protected by lock, like all below */
    unsigned long queued; /* paths, ever */
    bool is_ending;
};

/* Forks the process: before there are threads, locks and the mount. The thread that calls this must live on,
 * for the process dies with it. 0 or -errno: watchers see nothing until watch_helper_start() had more luck.
 * To be released in any case. */
int watch_helper_init(struct watch_helper *helper);
/* The same of one without a process, which the thread starts when there is something to announce. */
int watch_helper_init_without_process(struct watch_helper *helper, watch_helper_find_path find_path,
                                      void *context);
/* Starts the thread. `device`: of the mount, as st_dev; what is not on it is left alone. 0 or -errno. */
int watch_helper_start(struct watch_helper *helper, dev_t device, const char *mountpoint);
/* Ends the thread, and tells the process to end; does not wait for it, since it may be waiting for an answer
 * of the mount. Idempotent. */
void watch_helper_stop(struct watch_helper *helper);
/* Stops, and waits for the process to end: only when the mount answers, or is gone. */
void watch_helper_release(struct watch_helper *helper);

/* A file has appeared at this path below the mount point. From any thread; does not wait. */
void watch_helper_announce(struct watch_helper *helper, const char *path);
/* The same by its inode number, of which find_path makes a path. */
void watch_helper_announce_inode(struct watch_helper *helper, uint64_t ino);

/* Waits until watchers have seen all that was announced, at most so long. Then the process has nothing open,
 * and an unmount is not held up by it. Never while a folder in which it creates is locked. */
void watch_helper_wait(struct watch_helper *helper, int64_t at_most_ms, struct cancel *cancel);

/* Returns true if a request comes from the process. */
bool watch_helper_is(const struct watch_helper *helper, pid_t pid);

#endif
