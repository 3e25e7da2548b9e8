/* SPDX-License-Identifier: MIT */
/*
 * The queue to the watch helper.
 */
#include "fs/announcer.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

enum {
    QUEUE_MAX = 20 * 1000,
    FULL_PIPE_MS = 20, /* how long its end can go unnoticed while the helper is behind */
    DONE_INTERVAL_MS = 1,
    RESTART_MS =
        1000, /* from one start of a helper to the next: one that cannot live takes no machine's time */
};

struct announcement {
    struct announcement *next;
    size_t len; /* with the NUL */
    char path[];
};

void announcer_init(struct announcer *announcer, struct watch_helper *helper)
{
    *announcer = (struct announcer){.helper = helper};
    announcer->end = &announcer->first;
    pthread_mutex_init(&announcer->lock, NULL);
    clock_condition_init(&announcer->changed);
}

void announcer_release(struct announcer *announcer)
{
    while (announcer->first != NULL) {
        struct announcement *next = announcer->first->next;
        free(announcer->first);
        announcer->first = next;
    }
    free(announcer->greeting);
    pthread_cond_destroy(&announcer->changed);
    pthread_mutex_destroy(&announcer->lock);
}

/* ---------------------------------------------------------------- the helper */

static bool is_ending(struct announcer *announcer)
{
    pthread_mutex_lock(&announcer->lock);
    bool is_it = announcer->is_ending;
    pthread_mutex_unlock(&announcer->lock);
    return is_it;
}

/* 0; -EPIPE: the helper died; -ECANCELED: this is the end. */
static int send_whole(struct announcer *announcer, const char *strings, size_t len)
{
    int error;
    while ((error = watch_helper_send(announcer->helper, strings, len)) == -EAGAIN) {
        struct pollfd room = {.fd = announcer->helper->fd, .events = POLLOUT};
        if (is_ending(announcer))
            return -ECANCELED;
        /* A pipe with some room counts as writable before these bytes fit: then this waits by the clock. */
        if (poll(&room, 1, FULL_PIPE_MS) > 0 && (room.revents & POLLOUT) != 0)
            poll(NULL, 0, 1);
    }
    return error;
}

/* Whatever was taken so far is told of or lost. */
static void set_all_done(struct announcer *announcer)
{
    if (announcer->done != NULL)
        *announcer->done = announcer->taken;
}

static void lose_helper(struct announcer *announcer)
{
    announcer->helper_pid = 0;
    watch_helper_end(announcer->helper);
    watch_helper_reap(announcer->helper);
    set_all_done(announcer);
}

static int start_helper(struct announcer *announcer)
{
    announcer->started_ms = clock_monotonic_ms(clock_system());
    int error = watch_helper_start(announcer->helper);
    if (error == 0) {
        announcer->helper_pid = announcer->helper->pid;
        error = send_whole(announcer, announcer->greeting, announcer->greeting_len);
    }
    return error;
}

static int restart_helper(struct announcer *announcer)
{
    int64_t until_ms = announcer->started_ms + RESTART_MS;
    lose_helper(announcer);
    pthread_mutex_lock(&announcer->lock);
    while (!announcer->is_ending && clock_monotonic_ms(clock_system()) < until_ms)
        clock_wait(clock_system(), &announcer->changed, &announcer->lock, until_ms);
    bool is_end = announcer->is_ending;
    pthread_mutex_unlock(&announcer->lock);
    return is_end ? -ECANCELED : start_helper(announcer);
}

static void hand_over(struct announcer *announcer, const char *strings, size_t len, unsigned long paths)
{
    int error = send_whole(announcer, strings, len);
    while (error == -EPIPE)
        error = restart_helper(announcer) == 0 ? send_whole(announcer, strings, len) : -ECANCELED;
    announcer->taken += paths;
    if (error != 0)
        set_all_done(announcer);
}

/* ---------------------------------------------------------------- the thread */

/* As many as go into the pipe at once. */
static size_t pop_locked(struct announcer *announcer, char ret_strings[WATCH_HELPER_MAX_BYTES],
                         unsigned long *ret_paths)
{
    size_t len = 0;
    *ret_paths = 0;
    struct announcement *announcement;
    while ((announcement = announcer->first) != NULL && len + announcement->len <= WATCH_HELPER_MAX_BYTES) {
        memcpy(ret_strings + len, announcement->path, announcement->len);
        len += announcement->len;
        announcer->first = announcement->next;
        announcer->len--;
        ++*ret_paths;
        free(announcement);
    }
    if (announcer->first == NULL)
        announcer->end = &announcer->first;
    return len;
}

static void *work(void *argument)
{
    struct announcer *announcer = argument;
    char strings[WATCH_HELPER_MAX_BYTES];
    if (announcer->helper->pid != 0)
        send_whole(announcer, announcer->greeting, announcer->greeting_len);
    pthread_mutex_lock(&announcer->lock);
    while (!announcer->is_ending) {
        unsigned long paths;
        size_t len = pop_locked(announcer, strings, &paths);
        if (len == 0) {
            pthread_cond_wait(&announcer->changed, &announcer->lock);
            continue;
        }
        pthread_mutex_unlock(&announcer->lock);
        hand_over(announcer, strings, len, paths);
        pthread_mutex_lock(&announcer->lock);
    }
    pthread_mutex_unlock(&announcer->lock);
    return NULL;
}

int announcer_start(struct announcer *announcer, dev_t device, const char *mountpoint)
{
    if (announcer->helper == NULL)
        return 0;
    int len = asprintf(&announcer->greeting, "%ju%c%s", (uintmax_t)device, '\0', mountpoint);
    if (len < 0) {
        announcer->greeting = NULL;
        return -ENOMEM;
    }
    announcer->greeting_len = (size_t)len + 1;
    if (announcer->greeting_len > WATCH_HELPER_MAX_BYTES)
        return -ENAMETOOLONG;
    announcer->helper_pid = announcer->helper->pid;
    announcer->done = announcer->helper->done;
    int error = thread_start(&announcer->thread, "fs-announcer", work, announcer);
    announcer->is_running = error == 0;
    return error;
}

void announcer_stop(struct announcer *announcer)
{
    if (!announcer->is_running)
        return;
    pthread_mutex_lock(&announcer->lock);
    announcer->is_ending = true;
    pthread_cond_broadcast(&announcer->changed);
    pthread_mutex_unlock(&announcer->lock);
    pthread_join(announcer->thread, NULL);
    announcer->is_running = false;
    watch_helper_end(announcer->helper);
}

void announcer_push(struct announcer *announcer, const char *path)
{
    size_t len = strlen(path) + 1;
    struct announcement *announcement = NULL;
    if (announcer->helper == NULL)
        return;
    pthread_mutex_lock(&announcer->lock);
    if (!announcer->is_ending && announcer->len < QUEUE_MAX && len <= WATCH_HELPER_MAX_BYTES)
        announcement = malloc(sizeof(*announcement) + len);
    if (announcement != NULL) {
        announcement->next = NULL;
        announcement->len = len;
        memcpy(announcement->path, path, len);
        *announcer->end = announcement;
        announcer->end = &announcement->next;
        announcer->len++;
        announcer->pushed++;
        pthread_cond_broadcast(&announcer->changed);
    }
    pthread_mutex_unlock(&announcer->lock);
}

void announcer_wait(struct announcer *announcer, struct cancel *cancel)
{
    struct clock *clock = clock_system();
    int64_t until_ms = clock_monotonic_ms(clock) + ANNOUNCER_WAIT_MS;
    if (announcer->done == NULL)
        return;
    cancel_bind(cancel, &announcer->changed, &announcer->lock);
    pthread_mutex_lock(&announcer->lock);
    unsigned long pushed = announcer->pushed;
    while (*announcer->done < pushed && !announcer->is_ending && !cancel_is_set(cancel) &&
           clock_monotonic_ms(clock) < until_ms)
        clock_wait(clock, &announcer->changed, &announcer->lock,
                   clock_monotonic_ms(clock) + DONE_INTERVAL_MS);
    pthread_mutex_unlock(&announcer->lock);
    cancel_unbind(cancel);
}

bool announcer_is_helper(struct announcer *announcer, pid_t pid)
{
    int helper = announcer->helper_pid;
    return helper > 0 && pid == helper;
}
