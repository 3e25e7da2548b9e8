/* SPDX-License-Identifier: MIT */
/*
 * Tells the kernel what is no longer true, from a thread of its own: a notification can wait for requests
 * that are under way, so it is never made from within one, nor with a lock held that one could need.
 */
#ifndef INBOXFS_FS_NOTIFIER_H
#define INBOXFS_FS_NOTIFIER_H

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/cancel.h"
#include "fs/stream.h"
#include "fs/watch_helper.h"
#include "tree/tree.h"

enum {
    NOTIFIER_WAIT_MS = 2 * 1000,
    NOTIFIER_REST_MS = 2, /* after it told something, and unless somebody waits for what is told next */
};

struct notice;

struct notifier {
    struct fuse_session *fuse;         /* borrowed */
    struct stream_readers *readers;    /* borrowed */
    struct watch_helper *watch_helper; /* borrowed */
    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_cond_t rested; /* the thread alone waits for this */
    struct notice *first;  /* protected by lock, like all below */
    struct notice **end;
    uint64_t queued;      /* notices, ever */
    uint64_t told;        /* of them, in order: those that are done with */
    unsigned int waiting; /* in notifier_wait() */
    bool must_answer_readers;
    bool is_ending;
};

void notifier_init(struct notifier *notifier, struct fuse_session *fuse, struct stream_readers *readers,
                   struct watch_helper *watch_helper);
int notifier_start(struct notifier *notifier);
/* Drops what is queued and ends the thread. */
void notifier_stop(struct notifier *notifier);
void notifier_release(struct notifier *notifier);

/* What the kernel keeps of this file's content is out of date. */
void notifier_forget_content(struct notifier *notifier, uint64_t ino);

/* Waits until the kernel was told of all that is queued now, at most NOTIFIER_WAIT_MS, for telling can wait
 * for requests that wait for their turn behind this one. Never while a folder is locked by this request. */
void notifier_wait(struct notifier *notifier, struct cancel *cancel);

/* For tree_set_listener(). */
struct tree_listener notifier_listener(struct notifier *notifier);

#endif
