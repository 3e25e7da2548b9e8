/* SPDX-License-Identifier: MIT */
/*
 * The listener of the tree, on the kernel's side. When something changes that the kernel may have cached, an
 * *invalidation* is queued, of an inode or of a name in a folder, and one thread works the queue off. A
 * notification can wait in the kernel for requests that are under way: so it is made by this thread alone,
 * never from within a request, and with no lock held. The same thread answers the readers of `events`, and
 * what appeared is handed to the watch helper.
 */
#ifndef INBOXFS_FS_NOTIFIER_H
#define INBOXFS_FS_NOTIFIER_H

#include <fuse_lowlevel.h>
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/wait.h"
#include "fs/stream.h"
#include "fs/watch_helper.h"
#include "tree/tree.h"

enum {
    NOTIFIER_WAIT_MS = 2 * 1000,
    NOTIFIER_PAUSE_MS = 2, /* after a notification, unless somebody waits for the next */
};

struct notifier {
    struct fuse_session *fuse;           /* borrowed */
    struct stream_readers *readers;      /* borrowed */
    struct watch_helper *watch_helper;   /* borrowed */
    struct watch_helper *message_helper; /* borrowed; for messages of Maildirs */
    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_cond_t pause_ended; /* the thread alone waits on this */
    GQueue queue;               /* struct invalidation; protected by lock, like all below */
    uint64_t queued;            /* ever */
    uint64_t done;              /* of them, in order: those that the kernel was notified of */
    unsigned int waiting;       /* in notifier_wait() */
    bool must_answer_readers;
    bool is_ending;
};

/* `fuse` may be NULL, if it is never started. */
void notifier_init(struct notifier *notifier, struct fuse_session *fuse, struct stream_readers *readers,
                   struct watch_helper *watch_helper, struct watch_helper *message_helper);
/* 0 or -errno. */
int notifier_start(struct notifier *notifier);
/* Drops what is queued and ends the thread. */
void notifier_stop(struct notifier *notifier);
void notifier_release(struct notifier *notifier);

/* Queues an invalidation of this file's content and attributes. */
void notifier_forget_content(struct notifier *notifier, uint64_t ino);

/* Waits until the kernel was notified of all that is queued now, at most NOTIFIER_WAIT_MS, since that can
 * wait for requests that wait for this one. Never while the kernel has locked a folder for this request. */
void notifier_wait(struct notifier *notifier, struct cancel *cancel);

/* For tree_set_listener(). */
struct tree_listener notifier_listener(struct notifier *notifier);

#endif
