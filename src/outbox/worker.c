/* SPDX-License-Identifier: MIT */
/*
 * Workers: senders and uploaders. One slow message keeps one thread busy, the others go on; when all of a
 * kind are busy, one more is started.
 */
#include "outbox/worker.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/thread.h"
#include "outbox/change.h"
#include "outbox/content_type.h"
#include "outbox/core.h"
#include "outbox/sender.h"
#include "outbox/uploader.h"

enum {
    KINDS = 2,
    AT_START = 4, /* of each kind */
    AT_MOST = 16,
    STOP_GRACE_MS = 3000,
    MIDNIGHT_CHECK_MS =
        60 * 1000, /* the machine's clock may be set while one waits for the turn of the day */
};

struct worker {
    struct worker_set *set;
    pthread_t thread;
    struct cancel cancel;
    struct sleeper sleeper;
    enum envelope_kind kind; /* of items that it works on */
    uint64_t probe;          /* of the gate, which it entered */
    struct content_type content_type;
};

struct worker_set {
    struct outbox *outbox;
    struct worker workers[KINDS * AT_MOST];
    size_t started; /* protected by outbox->lock, like all below; fixed once outbox->is_stopping */
    size_t running;
    unsigned int count[KINDS]; /* by kind of items: those that were started, */
    unsigned int busy[KINDS];  /* and of them, those that have one */
};

/* ---------------------------------------------------------------- starting */

static void *work(void *argument);

static int start_locked(struct worker_set *set, enum envelope_kind kind)
{
    struct worker *worker = &set->workers[set->started];
    *worker = (struct worker){.set = set, .kind = kind};
    cancel_init(&worker->cancel);
    sleeper_init(&worker->sleeper);
    int error = thread_start(&worker->thread, kind == ENVELOPE_MESSAGE ? "sender" : "uploader", work, worker);
    if (error != 0) {
        cancel_release(&worker->cancel);
        sleeper_release(&worker->sleeper);
        return error;
    }
    set->started++;
    set->running++;
    set->count[kind]++;
    return 0;
}

/* Without a thread for it, those that there are go on. */
static void start_another_locked(const struct worker *worker)
{
    struct worker_set *set = worker->set;
    enum envelope_kind kind = worker->kind;
    if (set->busy[kind] == set->count[kind] && set->count[kind] < AT_MOST)
        start_locked(set, kind);
}

/* ---------------------------------------------------------------- working */

static void bring_forward(int64_t *until_ms, int64_t time_ms)
{
    if (time_ms < *until_ms)
        *until_ms = time_ms;
}

/* The gate comes last: who enters it must ask. */
static struct item *take_message_locked(struct worker *worker, int64_t now, int64_t *until_ms)
{
    struct outbox *outbox = worker->set->outbox;
    struct gate *gate = &outbox->gates[ENVELOPE_MESSAGE];
    struct item *item = send_queue_find_message(&outbox->queue, now, until_ms);
    if (item == NULL)
        return NULL;
    int64_t gate_ms = gate_until_ms(gate);
    if (gate->reason != GATE_OPEN && (gate->is_probing || gate_ms > now)) {
        bring_forward(until_ms, gate_ms);
        return NULL;
    }
    int64_t realtime = core_realtime_ms(outbox);
    if (!quota_enter(&outbox->quota, realtime)) {
        int64_t wait = quota_wait_ms(realtime);
        bring_forward(until_ms, now + (wait < MIDNIGHT_CHECK_MS ? wait : MIDNIGHT_CHECK_MS));
        return NULL;
    }
    gate_enter(gate, now, &worker->probe);
    item->is_woken = false;
    return core_claim_locked(outbox, item, CLAIM_SERVICE) == 0 ? item : NULL;
}

static struct item *take_upload_locked(struct worker *worker, int64_t now, int64_t *until_ms)
{
    struct outbox *outbox = worker->set->outbox;
    struct gate *gate = &outbox->gates[ENVELOPE_ATTACHMENT];
    struct item *item = send_queue_find_upload(&outbox->queue, now, until_ms);
    if (item == NULL)
        return NULL;
    if (!gate_enter(gate, now, &worker->probe)) {
        bring_forward(until_ms, gate_until_ms(gate));
        return NULL;
    }
    item->is_woken = false;
    if (core_claim_locked(outbox, item, CLAIM_SERVICE) != 0)
        return NULL;
    cancel_release(&worker->cancel); /* the last upload may have been called off */
    cancel_init(&worker->cancel);
    item->upload = &worker->cancel;
    return item;
}

static void run(struct worker *worker, struct item *item)
{
    struct outbox *outbox = worker->set->outbox;
    if (worker->kind == ENVELOPE_ATTACHMENT)
        uploader_run(outbox, item, &worker->content_type, &worker->cancel);
    else
        sender_run(outbox, item, &worker->cancel);
    pthread_mutex_lock(&outbox->lock);
    gate_leave(&outbox->gates[item->envelope.kind], worker->probe);
    core_unclaim_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
    binding_collect(outbox);
}

static bool collect_locked(struct outbox *outbox, int64_t now, int64_t *until_ms)
{
    if (!binding_must_collect_locked(outbox, now, until_ms))
        return false;
    pthread_mutex_unlock(&outbox->lock);
    binding_collect(outbox);
    pthread_mutex_lock(&outbox->lock);
    return true;
}

static bool fail_lost_locked(struct outbox *outbox)
{
    struct item *item = binding_find_failing_locked(outbox);
    if (item == NULL || core_claim_locked(outbox, item, CLAIM_DISK) != 0)
        return false;
    pthread_mutex_unlock(&outbox->lock);
    sender_fail_lost(outbox, item);
    core_unclaim(outbox, item);
    binding_collect(outbox);
    pthread_mutex_lock(&outbox->lock);
    return true;
}

static bool must_save_locked(struct outbox *outbox, const struct worker *worker, int64_t now,
                             int64_t *until_ms)
{
    if (worker->kind != ENVELOPE_MESSAGE || outbox->unsaved == 0)
        return false;
    bring_forward(until_ms, outbox->save_again_ms);
    return outbox->save_again_ms <= now;
}

static void turn_locked(struct worker *worker)
{
    struct outbox *outbox = worker->set->outbox;
    int64_t now = core_monotonic_ms(outbox);
    int64_t until_ms = CLOCK_FOREVER;
    if (must_save_locked(outbox, worker, now, &until_ms)) {
        pthread_mutex_unlock(&outbox->lock);
        change_save_again(outbox);
        pthread_mutex_lock(&outbox->lock);
        return;
    }
    if (collect_locked(outbox, now, &until_ms) || fail_lost_locked(outbox))
        return;
    struct item *item = worker->kind == ENVELOPE_ATTACHMENT ? take_upload_locked(worker, now, &until_ms)
                                                            : take_message_locked(worker, now, &until_ms);
    if (item == NULL) {
        sleepers_wait(&outbox->idlers[worker->kind], &worker->sleeper, outbox->config.clock, &outbox->lock,
                      until_ms);
        return;
    }
    worker->set->busy[worker->kind]++;
    start_another_locked(worker);
    pthread_mutex_unlock(&outbox->lock);
    run(worker, item);
    pthread_mutex_lock(&outbox->lock);
    worker->set->busy[worker->kind]--;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct outbox *outbox = worker->set->outbox;
    pthread_mutex_lock(&outbox->lock);
    while (!outbox->is_stopping)
        turn_locked(worker);
    worker->set->running--;
    core_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
    return NULL;
}

/* ---------------------------------------------------------------- all of them */

int worker_set_start(struct outbox *outbox, struct worker_set **ret_set)
{
    struct worker_set *set = calloc(1, sizeof(*set));
    if (set == NULL)
        return -ENOMEM;
    set->outbox = outbox;
    *ret_set = set; /* whatever was started must be stopped */
    int error = 0;
    pthread_mutex_lock(&outbox->lock);
    for (unsigned int i = 0; i < KINDS * AT_START && error == 0; i++)
        error = start_locked(set, i % KINDS == 0 ? ENVELOPE_MESSAGE : ENVELOPE_ATTACHMENT);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* By the machine's clock: a test's clock may stand still. */
static void wait_for_end(struct worker_set *set)
{
    struct clock *clock = clock_system();
    int64_t until = clock_monotonic_ms(clock) + STOP_GRACE_MS;
    pthread_mutex_lock(&set->outbox->lock);
    while (set->running > 0 && clock_monotonic_ms(clock) < until)
        clock_wait(clock, &set->outbox->changed, &set->outbox->lock, until);
    pthread_mutex_unlock(&set->outbox->lock);
}

void worker_set_stop(struct worker_set *set)
{
    if (set == NULL)
        return;
    wait_for_end(set);
    for (size_t i = 0; i < set->started; i++)
        cancel_set(&set->workers[i].cancel);
    for (size_t i = 0; i < set->started; i++) {
        pthread_join(set->workers[i].thread, NULL);
        cancel_release(&set->workers[i].cancel);
        sleeper_release(&set->workers[i].sleeper);
        content_type_release(&set->workers[i].content_type);
    }
    free(set);
}
