/* SPDX-License-Identifier: MIT */
/*
 * The threads that hand in messages after their quiet time, send messages, upload attachments, and save rows
 * again after a failure of the disk. Each thread does one of these tasks at a time. Up to 16 messages and 16
 * uploads are under way at a time, so that slow uploads leave threads for messages.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/wait.h"
#include "outbox/accept.h"
#include "outbox/change.h"
#include "outbox/send.h"

enum {
    AT_START = 4,      /* threads at the start; more start while all are busy */
    HAND_INS_MAX = 32, /* messages handed in by one transaction */
    STOP_GRACE_MS = 3000,
};

struct worker {
    struct worker_threads *threads;
    pthread_t thread;
    struct cancel cancel;
};

struct worker_threads {
    struct outbox *outbox;
    struct worker workers[ITEM_KINDS * TRIES_MAX + 1]; /* + 1: one hands in while all others work */
    unsigned int started; /* threads, fixed once is_stopping; protected by outbox->lock, like all below */
    unsigned int running;
};

static void *work(void *argument);

static int start_worker_locked(struct worker_threads *threads)
{
    struct worker *worker = &threads->workers[threads->started];
    *worker = (struct worker){.threads = threads};
    cancel_init(&worker->cancel);
    int error = thread_start(&worker->thread, "sender", work, worker);
    if (error != 0) {
        cancel_release(&worker->cancel);
        return error;
    }
    threads->started++;
    threads->running++;
    return 0;
}

/* Begins a try of the next item of this kind, and claims the item. Returns NULL if none may be tried now, and
 * lowers *until_ms to the time when one may be. */
static struct item *take_item_locked(struct worker *worker, enum item_kind kind, int64_t *until_ms)
{
    struct outbox *outbox = worker->threads->outbox;
    struct item *item = send_queue_begin_try(&outbox->queue, &outbox->table, kind, until_ms);
    if (item == NULL)
        return NULL;
    claim_take_locked(outbox, item, CLAIM_SERVICE); /* the queue finds only unclaimed items */
    cancel_release(&worker->cancel);                /* the worker's last upload may have been cancelled */
    cancel_init(&worker->cancel);
    item->upload = kind == ITEM_ATTACHMENT ? &worker->cancel : NULL;
    return item;
}

static void try_item(struct worker *worker, struct item *item)
{
    struct outbox *outbox = worker->threads->outbox;
    if (item->row.kind == ITEM_ATTACHMENT)
        send_attachment(outbox, item, &worker->cancel);
    else
        send_message(outbox, item, &worker->cancel);
    LOCK_GUARD(&outbox->lock);
    send_queue_end_try(&outbox->queue, item);
    claim_release_locked(outbox, item);
}

/* Tries the hand-in again later, after a failure of the disk or of the memory. */
static void put_off_hand_in(struct outbox *outbox, struct item *item, int error)
{
    log_warning("outbox/%s cannot be handed in now (%s); trying again", item->row.name, strerror(-error));
    LOCK_GUARD(&outbox->lock);
    send_queue_put_off(&outbox->queue, item);
}

/* Checks a waiting message. Returns true if it passed and the caller is to commit *ret_change; false if the
 * message failed, or continues to wait for an attachment or the disk. */
static bool check_waiting_message(struct outbox *outbox, struct item *item, struct change *ret_change)
{
    _cleanup_free_ char *reason = NULL;
    int error = accept_prepare(outbox, item, item->row.name, ret_change, &reason);
    if (error == 0 && ret_change->awaits == 0)
        return true;
    uint64_t awaits = ret_change->awaits;
    change_release(outbox, ret_change);
    if (error == 0) {
        LOCK_GUARD(&outbox->lock);
        item->schedule.awaits = outbox_is_being_written_locked(outbox, awaits) ? awaits : 0;
    } else if (reason != NULL || error == -EMSGSIZE || error == -ENOENT) {
        /* The message was refused, became too large or is gone from the spool. */
        settle_item(outbox, item, ITEM_FAILED, 0, reason != NULL ? reason : strerror(-error));
    } else {
        put_off_hand_in(outbox, item, error);
    }
    return false;
}

/* Accepts all messages in one transaction. */
static void hand_in(struct outbox *outbox, struct item *const *items, size_t len)
{
    struct change changes[HAND_INS_MAX];
    size_t accepted = 0;
    for (size_t i = 0; i < len; i++)
        accepted += check_waiting_message(outbox, items[i], &changes[accepted]);
    crash_point("checked");
    int error = accepted == 0 ? 0 : change_commit(outbox, changes, accepted);
    crash_point("accepted");
    for (size_t i = 0; i < accepted; i++) {
        struct item *item = changes[i].item;
        change_release(outbox, &changes[i]);
        if (error != 0)
            put_off_hand_in(outbox, item, error);
    }
}

/* Hands in the messages whose quiet time is over. One thread at a time does so, to keep the order. */
static bool hand_in_quiet_locked(struct outbox *outbox, int64_t *until_ms)
{
    struct item *items[HAND_INS_MAX];
    size_t len = 0;
    struct item *item = NULL;
    if (outbox->is_handing_in)
        return false;
    while (len < HAND_INS_MAX && (item = send_queue_find_quiet(&outbox->queue, item, until_ms)) != NULL) {
        claim_take_locked(outbox, item, CLAIM_DISK); /* does not wait: the item is unclaimed */
        items[len++] = item;
    }
    if (len == 0)
        return false;
    outbox->is_handing_in = true;
    pthread_mutex_unlock(&outbox->lock);
    hand_in(outbox, items, len);
    pthread_mutex_lock(&outbox->lock);
    outbox->is_handing_in = false;
    for (size_t i = 0; i < len; i++)
        claim_release_locked(outbox, items[i]);
    return true;
}

static void work_once_locked(struct worker *worker)
{
    struct worker_threads *threads = worker->threads;
    struct outbox *outbox = threads->outbox;
    int64_t until_ms = outbox->unsaved > 0 ? outbox->save_again_ms : CLOCK_FOREVER;
    if (until_ms <= outbox_monotonic_ms(outbox)) {
        pthread_mutex_unlock(&outbox->lock);
        change_save_again(outbox);
        pthread_mutex_lock(&outbox->lock);
        return;
    }
    if (hand_in_quiet_locked(outbox, &until_ms))
        return;
    struct item *item = take_item_locked(worker, ITEM_MESSAGE, &until_ms);
    if (item == NULL)
        item = take_item_locked(worker, ITEM_ATTACHMENT, &until_ms);
    if (item == NULL) {
        clock_wait(outbox->config.clock, &outbox->queue.work_arrived, &outbox->lock, until_ms);
        return;
    }
    const unsigned int *tries = outbox->queue.tries;
    if (tries[ITEM_MESSAGE] + tries[ITEM_ATTACHMENT] == threads->started &&
        threads->started < ARRAY_LEN(threads->workers))
        start_worker_locked(threads); /* after an error the other threads do the work */
    /* This thread may have been the only one that waited until the next item is due. */
    pthread_cond_broadcast(&outbox->queue.work_arrived);
    pthread_mutex_unlock(&outbox->lock);
    try_item(worker, item);
    pthread_mutex_lock(&outbox->lock);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct outbox *outbox = worker->threads->outbox;
    pthread_mutex_lock(&outbox->lock);
    while (!outbox->is_stopping)
        work_once_locked(worker);
    worker->threads->running--;
    pthread_cond_broadcast(&outbox->changed);
    pthread_mutex_unlock(&outbox->lock);
    return NULL;
}

int outbox_start(struct outbox *outbox)
{
    struct worker_threads *threads = g_new0(struct worker_threads, 1);
    int error = 0;
    threads->outbox = outbox;
    LOCK_GUARD(&outbox->lock);
    outbox->threads = threads; /* outbox_stop() stops them even after an error */
    for (unsigned int i = 0; i < AT_START && error == 0; i++)
        error = start_worker_locked(threads);
    return error;
}

void outbox_stop(struct outbox *outbox)
{
    struct worker_threads *threads = TAKE_PTR(outbox->threads);
    struct clock *clock = clock_system(); /* the clock of a test may never advance */
    int64_t until_ms = clock_monotonic_ms(clock) + STOP_GRACE_MS;
    int error = 0;
    pthread_mutex_lock(&outbox->lock);
    outbox->is_stopping = true;
    pthread_cond_broadcast(&outbox->changed);
    pthread_cond_broadcast(&outbox->queue.work_arrived);
    while (threads != NULL && threads->running > 0 && error == 0)
        error = wait_until(clock, &outbox->changed, &outbox->lock, until_ms, NULL);
    pthread_mutex_unlock(&outbox->lock);
    unsigned int started = threads == NULL ? 0 : threads->started;
    for (unsigned int i = 0; i < started; i++)
        cancel_set(&threads->workers[i].cancel);
    for (unsigned int i = 0; i < started; i++) {
        struct worker *worker = &threads->workers[i];
        pthread_join(worker->thread, NULL);
        cancel_release(&worker->cancel);
    }
    free(threads);
    while (change_save_again(outbox)) /* else the next start would read the older rows */
        continue;
}
