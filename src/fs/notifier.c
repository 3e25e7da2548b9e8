/* SPDX-License-Identifier: MIT */
#include "fs/notifier.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

enum {
    /* Number of queued invalidations that are compared with a new one: emails that appear at once need one
     * invalidation of their folder. */
    SAME_SEARCH_MAX = 16,
    /* The thread pauses after notifications, so that the kernel is notified of the next changes together:
     * each wake-up may take the CPU from the thread that makes the changes. */
    PAUSE_US = 2 * 1000,
};

/* Replaces an inode number if the readers of `events` must be woken. */
static const uint64_t events_stream = 0;

struct invalidation {
    uint64_t ino; /* an inode number, or events_stream */
    char name[];  /* an entry of the folder `ino`; or "" for attributes, content and listing of `ino` */
};

void notifier_init(struct notifier *notifier, struct fuse_session *fuse, struct stream_readers *readers,
                   struct watch_helper *watch_helper, struct watch_helper *message_helper)
{
    *notifier = (struct notifier){
        .fuse = fuse, .readers = readers, .watch_helper = watch_helper, .message_helper = message_helper};
    pthread_mutex_init(&notifier->lock, NULL);
    clock_condition_init(&notifier->changed);
}

/* Ignores errors: the kernel has forgotten the inode, or the mount has ended. */
static void carry_out(const struct notifier *notifier, const struct invalidation *invalidation)
{
    if (invalidation->ino == events_stream)
        stream_readers_wake(notifier->readers);
    else if (invalidation->name[0] != '\0')
        fuse_lowlevel_notify_inval_entry(notifier->fuse, invalidation->ino, invalidation->name,
                                         strlen(invalidation->name));
    else
        fuse_lowlevel_notify_inval_inode(notifier->fuse, invalidation->ino, 0, 0);
}

static void *run_notifier(void *argument)
{
    struct notifier *notifier = argument;
    bool must_pause = false; /* an invalidation was carried out since the last pause */
    pthread_mutex_lock(&notifier->lock);
    while (!notifier->is_ending) {
        struct invalidation *invalidation = g_queue_pop_head(&notifier->queue);
        if (invalidation == NULL && !must_pause) {
            pthread_cond_wait(&notifier->changed, &notifier->lock);
            continue;
        }
        pthread_mutex_unlock(&notifier->lock);
        if (invalidation != NULL)
            carry_out(notifier, invalidation);
        else
            g_usleep(PAUSE_US);
        pthread_mutex_lock(&notifier->lock);
        must_pause = invalidation != NULL;
        notifier->done += invalidation != NULL;
        pthread_cond_broadcast(&notifier->changed);
        free(invalidation);
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

static void queue_invalidation(struct notifier *notifier, uint64_t ino, const char *name)
{
    size_t name_size = strlen(name) + 1;
    LOCK_GUARD(&notifier->lock);
    const GList *link = notifier->queue.head;
    for (int i = 0; i < SAME_SEARCH_MAX && link != NULL; i++, link = link->next) {
        const struct invalidation *queued = link->data;
        if (queued->ino == ino && strcmp(queued->name, name) == 0)
            return;
    }
    if (notifier->is_ending)
        return;
    struct invalidation *invalidation = g_malloc(sizeof(*invalidation) + name_size);
    invalidation->ino = ino;
    memcpy(invalidation->name, name, name_size);
    g_queue_push_tail(&notifier->queue, invalidation);
    notifier->queued++;
    pthread_cond_broadcast(&notifier->changed);
}

static void changed(void *context, uint64_t ino, const char *gone_name)
{
    queue_invalidation(context, ino, gone_name != NULL ? gone_name : "");
}

void notifier_invalidate_content(struct notifier *notifier, uint64_t ino)
{
    queue_invalidation(notifier, ino, "");
}

static void stream_grew(void *context)
{
    queue_invalidation(context, events_stream, "");
}

static void appeared(void *context, const char *path, uint64_t ino)
{
    const struct notifier *notifier = context;
    watch_helper_announce(path != NULL ? notifier->watch_helper : notifier->message_helper, path, ino);
}

struct tree_listener notifier_listener(struct notifier *notifier)
{
    return (struct tree_listener){
        .changed = changed,
        .stream_grew = stream_grew,
        .appeared = appeared,
        .context = notifier,
    };
}
