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

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cancel.h"

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

/*
 * The announcer: what is to be shown to inotify watchers, on its way to the watch helper. A queue, and a
 * thread that hands it over, so that nobody who brings news waits. The news itself needs none of this to be
 * seen: a name that is dropped here (too many at once, no helper) is in every listing.
 */
enum {
    ANNOUNCER_WAIT_MS = 2 * 1000
};

struct announcement;

struct announcer {
    struct watch_helper *helper; /* borrowed; the thread's while it runs; may be NULL */
    char *greeting;              /* what each helper is told first; owned */
    size_t greeting_len;
    int64_t
        started_ms; /* when the helper was started, monotonic; 0: before the announcer was; the thread's */
    unsigned long taken; /* paths, ever, from the queue: handed over or lost; the thread's */
    pthread_t thread;
    bool is_running;
    atomic_int helper_pid; /* 0: there is none */
    atomic_ulong *done; /* of the paths taken: those that the helpers are done with, or lost; may be NULL */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct announcement *first; /* protected by lock, like all below */
    struct announcement **end;
    size_t len;
    unsigned long pushed; /* paths, ever */
    bool is_ending;
};

/* `helper`: borrowed until announcer_stop(); NULL: nobody is told. */
void announcer_init(struct announcer *announcer, struct watch_helper *helper);
/* `device`: of the mount, as st_dev. 0 or -errno. */
int announcer_start(struct announcer *announcer, dev_t device, const char *mountpoint);
/* Ends the thread and tells the helper to end. */
void announcer_stop(struct announcer *announcer);
void announcer_release(struct announcer *announcer);

/* A file has appeared at this path below the mount point. From any thread; does not wait. */
void announcer_push(struct announcer *announcer, const char *path);

/* Waits until watchers were told of all that is queued now, at most ANNOUNCER_WAIT_MS: then the helper has
 * nothing open, and an unmount is not held up by it. Never while a folder in which it creates is locked. */
void announcer_wait(struct announcer *announcer, struct cancel *cancel);

/* Whether a request comes from the helper. */
bool announcer_is_helper(struct announcer *announcer, pid_t pid);

#endif
