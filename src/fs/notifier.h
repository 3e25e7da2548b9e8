/* SPDX-License-Identifier: MIT */
/*
 * The tree's listener. When something changes that the kernel may have cached, the listener queues a
 * *notification* of an inode or of a name in a folder, and a thread notifies the kernel. A notification may
 * wait for requests under way, so this thread alone makes notifications, with no lock held (operations.c and
 * stream.c have one exception each). The thread also wakes the readers of `events`, and passes new files to
 * the watch helper, after the notification of their folder. The thread first finds the path of a message in a
 * Maildir, which may wait for the disk.
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
    NOTIFIER_WAIT_MS = 2 * 1000
};

struct notifier {
    struct fuse_session *fuse;           /* borrowed */
    struct tree *tree;                   /* borrowed */
    struct stream_readers *readers;      /* borrowed */
    struct watch_helper *watch_helper;   /* borrowed */
    struct watch_helper *message_helper; /* borrowed; for messages of Maildirs */
    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    GQueue queue;    /* struct notification; protected by `lock`, like all below */
    uint64_t queued; /* number of notifications queued so far */
    uint64_t done;   /* number of notifications carried out so far */
    bool is_ending;
};

/* `fuse` may be NULL if the notifier is never started. */
void notifier_init(struct notifier *notifier, struct fuse_session *fuse, struct tree *tree,
                   struct stream_readers *readers, struct watch_helper *watch_helper,
                   struct watch_helper *message_helper);
/* Starts the thread. Return: 0 or -errno. */
int notifier_start(struct notifier *notifier);
/* Drops the queue, ends the thread and waits for it. Idempotent. */
void notifier_stop(struct notifier *notifier);
void notifier_release(struct notifier *notifier);

/* Queues a notification that the file's content and attributes changed. Does not wait. */
void notifier_invalidate_content(struct notifier *notifier, uint64_t ino);

/* Waits until all notifications are carried out that are queued now; at most NOTIFIER_WAIT_MS, since a
 * notification may wait for a request that waits for the caller's request. Must not be called while the
 * kernel has locked a folder for the caller's request, except outbox/ and attachments/, of which there are no
 * notifications. */
void notifier_wait(struct notifier *notifier, struct cancel *cancel);

struct tree_listener notifier_listener(struct notifier *notifier);

#endif
