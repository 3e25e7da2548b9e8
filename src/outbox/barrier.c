/* SPDX-License-Identifier: MIT */
/*
 * fsync(2) of outbox/ and attachments/: waits until what was handed in before is settled and its event is
 * published.
 */
#include <errno.h>

#include "outbox/handle.h"
#include "outbox/send_queue.h"
#include "outbox/transition.h"
#include "outbox/writer_fate.h"

enum {
    SETTLE_WAIT_MS = 10 * 1000, /* the longest barrier */
};

struct barrier {
    struct outbox *outbox;
    enum envelope_kind kind;
    pid_t session;        /* whose barrier it is */
    uint64_t up_to_order; /* what was handed in later does not count */
    uint64_t failures;    /* that happened before this barrier began */
};

static bool counts(const struct barrier *barrier, const struct item *item)
{
    return item->envelope.kind == barrier->kind && item->envelope.order <= barrier->up_to_order &&
           !item_is_unneeded(item);
}

/* Whether the item cannot go on now: it waits for a time, for the service, or for somebody to change the
 * key. */
static bool has_to_wait(struct outbox *outbox, const struct item *item)
{
    const struct suspension *suspension = &outbox->suspensions[item->envelope.kind];
    int64_t now = outbox_monotonic_ms(outbox);
    if (!item_state_is_unsettled(item->state))
        return false;
    if (item->next_attempt_ms > now)
        return true;
    if (item->claim == CLAIM_SERVICE || item->state == ITEM_SENDING)
        return false;
    if (suspension->reason != SUSPENSION_NONE && (suspension->is_probing || suspension->until_ms > now))
        return true;
    if (item->envelope.kind == ENVELOPE_MESSAGE &&
        quota_is_used_up(&outbox->quota, outbox_realtime_ms(outbox)))
        return true;
    for (size_t i = 0; i < item->bound_len; i++)
        if (item->bound[i] != NULL && has_to_wait(outbox, item->bound[i]))
            return true;
    return false;
}

/* Who waits here reads `events` next, so the barrier waits for the events too. */
static bool has_event_due_locked(const struct barrier *barrier)
{
    size_t position = 0;
    const struct item *item;
    if (barrier->outbox->events_due == 0)
        return false;
    while ((item = map_next(&barrier->outbox->table.by_number, &position)) != NULL)
        if (item->is_event_due && counts(barrier, item))
            return true;
    return false;
}

/* 0: all is settled; -EINPROGRESS: not yet; -EAGAIN: something has to wait. */
static int check_locked(const struct barrier *barrier)
{
    struct outbox *outbox = barrier->outbox;
    int state = 0;
    for (const struct item *item = send_queue_next(&outbox->queue, NULL); item != NULL;
         item = send_queue_next(&outbox->queue, item)) {
        if (!counts(barrier, item))
            continue;
        if (has_to_wait(outbox, item))
            return -EAGAIN;
        state = -EINPROGRESS;
    }
    return state == 0 && has_event_due_locked(barrier) ? -EINPROGRESS : state;
}

/* Each failure is reported once to the session that handed the item in, as fsync(2) of a file reports errors;
 * and to all that waited for it. An item handed in later that failed all the same is left to the next
 * barrier. */
static int report_locked(const struct barrier *barrier)
{
    size_t position = 0;
    struct item *item;
    int error = 0;
    while ((item = item_table_next(&barrier->outbox->table, OUTBOX_FOLDER_FAILED, &position)) != NULL) {
        bool is_own = item->session == barrier->session && !item->is_failure_reported;
        if (item->failure == 0 || !counts(barrier, item) || !(is_own || item->failure > barrier->failures))
            continue;
        item->is_failure_reported = item->is_failure_reported || is_own;
        error = -EIO;
    }
    return error;
}

static int wait_locked(struct barrier *barrier, struct cancel *cancel)
{
    struct outbox *outbox = barrier->outbox;
    int64_t until_ms = outbox_monotonic_ms(outbox) + SETTLE_WAIT_MS;
    int error = 0;
    int state;
    while ((state = check_locked(barrier)) == -EINPROGRESS && error == 0 && !outbox->is_stopping)
        error = wait_until(outbox->config.clock, &outbox->changed, &outbox->lock, until_ms, cancel);
    if (state == -EINPROGRESS)
        return error == -EINTR ? error : -EAGAIN;
    return state != 0 ? state : report_locked(barrier);
}

int outbox_wait_settled(struct outbox *outbox, enum outbox_folder folder, pid_t pid, struct cancel *cancel)
{
    struct barrier barrier = {
        .outbox = outbox,
        .session = writer_session(pid),
        .kind = folder == OUTBOX_FOLDER_OUTBOX ? ENVELOPE_MESSAGE : ENVELOPE_ATTACHMENT,
    };
    if (folder != OUTBOX_FOLDER_OUTBOX && folder != OUTBOX_FOLDER_ATTACHMENTS)
        return 0;
    pthread_mutex_lock(&outbox->lock);
    barrier.failures = outbox->failures;
    pthread_mutex_unlock(&outbox->lock);
    int error = release_wait(outbox, barrier.kind, cancel);
    if (error != 0)
        return error;
    pthread_mutex_lock(&outbox->lock);
    barrier.up_to_order = outbox->last_order;
    error = wait_locked(&barrier, cancel);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}
