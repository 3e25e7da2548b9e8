/* SPDX-License-Identifier: MIT */
#include "fs/notifier.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

enum {
    /* Number of queued notifications that are compared with a new one: emails that appear at once need few
     * notifications of their folder. */
    SAME_SEARCH_MAX = 16,
    /* The thread pauses after notifications, so that the kernel is notified of the next changes together:
     * each wake-up may take the CPU from the thread that makes the changes. */
    PAUSE_US = 2 * 1000,
};

enum notification_kind {
    CHANGED,     /* the entry `name` of the folder `ino`; or attributes, content and listing of `ino` */
    NEW_FILE,    /* `name` is its path */
    NEW_MESSAGE, /* `ino` is a message of a Maildir */
};

struct notification {
    enum notification_kind kind;
    uint64_t ino;
    char name[]; /* "" if there is none */
};

void notifier_init(struct notifier *notifier, struct fuse_session *fuse, struct tree *tree,
                   struct stream_readers *readers, struct watch_helper *watch_helper,
                   struct watch_helper *message_helper)
{
    *notifier = (struct notifier){
        .fuse = fuse,
        .tree = tree,
        .readers = readers,
        .watch_helper = watch_helper,
        .message_helper = message_helper,
    };
    pthread_mutex_init(&notifier->lock, NULL);
    clock_condition_init(&notifier->changed);
}

static void announce_message(const struct notifier *notifier, uint64_t ino)
{
    char path[PATH_MAX];
    if (tree_find_announced(notifier->tree, ino, path, sizeof(path)) == 0)
        watch_helper_announce(notifier->message_helper, path);
}

/* Ignores errors: the kernel has forgotten the inode, or the mount has ended. */
static void carry_out(const struct notifier *notifier, const struct notification *notification)
{
    uint64_t ino = notification->ino;
    const char *name = notification->name;
    if (notification->kind == NEW_FILE)
        watch_helper_announce(notifier->watch_helper, name);
    else if (notification->kind == NEW_MESSAGE)
        announce_message(notifier, ino);
    else if (ino == TREE_EVENTS_INO)
        stream_readers_wake(notifier->readers);
    else if (name[0] != '\0')
        fuse_lowlevel_notify_inval_entry(notifier->fuse, ino, name, strlen(name));
    else
        fuse_lowlevel_notify_inval_inode(notifier->fuse, ino, 0, 0);
}

static void *run_notifier(void *argument)
{
    struct notifier *notifier = argument;
    bool must_pause = false; /* a notification was carried out since the last pause */
    pthread_mutex_lock(&notifier->lock);
    while (!notifier->is_ending) {
        struct notification *notification = g_queue_pop_head(&notifier->queue);
        if (notification == NULL && !must_pause) {
            pthread_cond_wait(&notifier->changed, &notifier->lock);
            continue;
        }
        pthread_mutex_unlock(&notifier->lock);
        if (notification != NULL)
            carry_out(notifier, notification);
        else
            g_usleep(PAUSE_US);
        pthread_mutex_lock(&notifier->lock);
        must_pause = notification != NULL;
        notifier->done += notification != NULL;
        pthread_cond_broadcast(&notifier->changed);
        free(notification);
    }
    pthread_mutex_unlock(&notifier->lock);
    return NULL;
}

void notifier_wait(struct notifier *notifier, struct cancel *cancel)
{
    struct clock *clock = clock_system();
    int64_t until_ms = clock_monotonic_ms(clock) + NOTIFIER_WAIT_MS;
    int error = 0;
    LOCK_GUARD(&notifier->lock);
    uint64_t queued = notifier->queued;
    while (notifier->done < queued && !notifier->is_ending && error == 0)
        error = wait_until(clock, &notifier->changed, &notifier->lock, until_ms, cancel);
}

int notifier_start(struct notifier *notifier)
{
    int error = thread_start(&notifier->thread, "fs-notifier", run_notifier, notifier);
    notifier->is_running = error == 0;
    return error;
}

void notifier_stop(struct notifier *notifier)
{
    if (!notifier->is_running)
        return;
    pthread_mutex_lock(&notifier->lock);
    notifier->is_ending = true;
    pthread_cond_broadcast(&notifier->changed);
    pthread_mutex_unlock(&notifier->lock);
    pthread_join(notifier->thread, NULL);
    notifier->is_running = false;
}

void notifier_release(struct notifier *notifier)
{
    g_queue_clear_full(&notifier->queue, free);
    pthread_cond_destroy(&notifier->changed);
    pthread_mutex_destroy(&notifier->lock);
}

static void queue_notification(struct notifier *notifier, enum notification_kind kind, uint64_t ino,
                               const char *name)
{
    size_t name_size = strlen(name) + 1;
    LOCK_GUARD(&notifier->lock);
    const GList *link = notifier->queue.head;
    for (int i = 0; i < SAME_SEARCH_MAX && link != NULL; i++, link = link->next) {
        const struct notification *queued = link->data;
        if (queued->kind == kind && queued->ino == ino && strcmp(queued->name, name) == 0)
            return;
    }
    if (notifier->is_ending)
        return;
    struct notification *notification = g_malloc(sizeof(*notification) + name_size);
    notification->kind = kind;
    notification->ino = ino;
    memcpy(notification->name, name, name_size);
    g_queue_push_tail(&notifier->queue, notification);
    notifier->queued++;
    pthread_cond_broadcast(&notifier->changed);
}

static void changed(void *context, uint64_t ino, const char *gone_name)
{
    queue_notification(context, CHANGED, ino, gone_name != NULL ? gone_name : "");
}

void notifier_invalidate_content(struct notifier *notifier, uint64_t ino)
{
    queue_notification(notifier, CHANGED, ino, "");
}

static void appeared(void *context, const char *path)
{
    queue_notification(context, NEW_FILE, 0, path);
}

static void message_appeared(void *context, uint64_t ino)
{
    queue_notification(context, NEW_MESSAGE, ino, "");
}

struct tree_listener notifier_listener(struct notifier *notifier)
{
    return (struct tree_listener){
        .changed = changed,
        .appeared = appeared,
        .message_appeared = message_appeared,
        .context = notifier,
    };
}
