/* SPDX-License-Identifier: MIT */
/*
 * What is to be shown to inotify watchers, on its way to the watch helper: a queue, and a thread that hands
 * it over, so that nobody who brings news waits. The news itself needs none of this to be seen: a name that
 * is dropped here (too many at once, no helper) is in every listing.
 */
#ifndef INBOXFS_FS_ANNOUNCER_H
#define INBOXFS_FS_ANNOUNCER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cancel.h"
#include "fs/watch_helper.h"

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
