/* SPDX-License-Identifier: MIT */
/*
 * The notifier: a queue, and the thread that works it off.
 */
#include "fs/notifier.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"

enum {
    /* How many of the queue are looked through for the same notice: many emails at once make one for their
     * folder. */
    SAME_SEARCH_MAX = 16
};

/* name[0] == '\0': the inode's attributes, content or listing; else an entry of the folder `ino`. */
struct notice {
    struct notice *next;
    uint64_t ino;
    char name[];
};

void notifier_init(struct notifier *notifier, struct fuse_session *fuse, struct stream_readers *readers,
                   struct watch_helper *watch_helper)
{
    *notifier = (struct notifier){.fuse = fuse, .readers = readers, .watch_helper = watch_helper};
    notifier->end = &notifier->first;
    pthread_mutex_init(&notifier->lock, NULL);
    clock_condition_init(&notifier->changed);
    clock_condition_init(&notifier->rested);
}

static void tell_kernel(const struct notifier *notifier, const struct notice *notice)
{
    /* Errors say that the kernel does not know the inode or is gone: nothing is out of date then. */
    if (notice->name[0] != '\0')
        fuse_lowlevel_notify_inval_entry(notifier->fuse, notice->ino, notice->name, strlen(notice->name));
    else
        fuse_lowlevel_notify_inval_inode(notifier->fuse, notice->ino, 0, 0);
}

static struct notice *pop_locked(struct notifier *notifier)
{
    struct notice *notice = notifier->first;
    if (notice == NULL)
        return NULL;
    notifier->first = notice->next;
    if (notifier->first == NULL)
        notifier->end = &notifier->first;
    return notice;
}

/* Changes come in swarms, several notices each: the first is told of at once, the others together, rather
 * than that each pushes whoever brought it off its CPU. */
static void rest_locked(struct notifier *notifier)
{
    struct clock *clock = clock_system();
    int64_t until_ms = clock_monotonic_ms(clock) + NOTIFIER_REST_MS;
    while (!notifier->is_ending && !notifier->must_answer_readers && notifier->waiting == 0 &&
           clock_monotonic_ms(clock) < until_ms)
        clock_wait(clock, &notifier->rested, &notifier->lock, until_ms);
}

static void *work(void *argument)
{
    struct notifier *notifier = argument;
    bool must_rest = false;
    pthread_mutex_lock(&notifier->lock);
    while (!notifier->is_ending) {
        struct notice *notice = pop_locked(notifier);
        bool must_answer_readers = notifier->must_answer_readers;
        notifier->must_answer_readers = false;
        if (notice == NULL && !must_answer_readers) {
            if (must_rest)
                rest_locked(notifier);
            else
                pthread_cond_wait(&notifier->changed, &notifier->lock);
            must_rest = false;
            continue;
        }
        pthread_mutex_unlock(&notifier->lock);
        if (must_answer_readers)
            stream_readers_answer(notifier->readers);
        if (notice != NULL)
            tell_kernel(notifier, notice);
        pthread_mutex_lock(&notifier->lock);
        if (notice != NULL) {
            notifier->told++;
            must_rest = true;
            pthread_cond_broadcast(&notifier->changed);
        }
        free(notice);
    }
    pthread_mutex_unlock(&notifier->lock);
    return NULL;
}

void notifier_wait(struct notifier *notifier, struct cancel *cancel)
{
    struct clock *clock = clock_system();
    int64_t until_ms = clock_monotonic_ms(clock) + NOTIFIER_WAIT_MS;
    int error = 0;
    pthread_mutex_lock(&notifier->lock);
    uint64_t queued = notifier->queued;
    notifier->waiting++;
    pthread_cond_signal(&notifier->rested);
    while (notifier->told < queued && !notifier->is_ending && error == 0)
        error = wait_until(clock, &notifier->changed, &notifier->lock, until_ms, cancel);
    notifier->waiting--;
    pthread_mutex_unlock(&notifier->lock);
}

int notifier_start(struct notifier *notifier)
{
    int error = thread_start(&notifier->thread, "fs-notifier", work, notifier);
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
    pthread_cond_signal(&notifier->rested);
    pthread_mutex_unlock(&notifier->lock);
    pthread_join(notifier->thread, NULL);
    notifier->is_running = false;
}

void notifier_release(struct notifier *notifier)
{
    struct notice *notice;
    while ((notice = pop_locked(notifier)) != NULL)
        free(notice);
    pthread_cond_destroy(&notifier->rested);
    pthread_cond_destroy(&notifier->changed);
    pthread_mutex_destroy(&notifier->lock);
}

/* One that waits in the queue has not been carried out, so it serves for this change too. */
static bool is_queued_locked(const struct notifier *notifier, uint64_t ino, const char *name)
{
    const struct notice *notice = notifier->first;
    for (int i = 0; i < SAME_SEARCH_MAX && notice != NULL; i++, notice = notice->next)
        if (notice->ino == ino && strcmp(notice->name, name) == 0)
            return true;
    return false;
}

/* Without memory the kernel goes on believing the old until its time-out: better than failing a sync. */
static void push(struct notifier *notifier, uint64_t ino, const char *name)
{
    size_t name_size = strlen(name) + 1;
    pthread_mutex_lock(&notifier->lock);
    struct notice *notice = NULL;
    if (!notifier->is_ending && !is_queued_locked(notifier, ino, name))
        notice = malloc(sizeof(*notice) + name_size);
    if (notice != NULL) {
        notice->next = NULL;
        notice->ino = ino;
        memcpy(notice->name, name, name_size);
        *notifier->end = notice;
        notifier->end = &notice->next;
        notifier->queued++;
    }
    pthread_mutex_unlock(&notifier->lock);
    if (notice != NULL)
        pthread_cond_broadcast(&notifier->changed);
}

static void inode_changed(void *context, uint64_t ino)
{
    push(context, ino, "");
}

void notifier_forget_content(struct notifier *notifier, uint64_t ino)
{
    push(notifier, ino, "");
}

static void entry_gone(void *context, uint64_t folder_ino, const char *name)
{
    push(context, folder_ino, name);
}

static void stream_grew(void *context)
{
    struct notifier *notifier = context;
    pthread_mutex_lock(&notifier->lock);
    notifier->must_answer_readers = true;
    pthread_mutex_unlock(&notifier->lock);
    pthread_cond_broadcast(&notifier->changed);
    pthread_cond_signal(&notifier->rested);
}

static void appeared(void *context, const char *path)
{
    const struct notifier *notifier = context;
    watch_helper_announce(notifier->watch_helper, path);
}

struct tree_listener notifier_listener(struct notifier *notifier)
{
    return (struct tree_listener){
        .folder_changed = inode_changed,
        .entry_gone = entry_gone,
        .file_changed = inode_changed,
        .stream_grew = stream_grew,
        .appeared = appeared,
        .context = notifier,
    };
}
