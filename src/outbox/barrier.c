/* SPDX-License-Identifier: MIT */
/*
 * fsync(2) of outbox/ and attachments/ hands in the waiting items, and waits until all items are settled and
 * their events are published.
 */
#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "outbox/outbox_private.h"
#include "outbox/writer_fate.h"

enum {
    SETTLE_WAIT_MS = 10 * 1000, /* the longest wait of a barrier */
    RELEASE_WAIT_MS = 2 * 1000, /* the longest wait from a close(2) to the kernel's report of the release: a
                                   shell may have closed only a duplicate */
};

struct barrier {
    struct outbox *outbox;
    enum item_kind kind;
    pid_t session;          /* the session of the program that waits */
    uint64_t last_position; /* items of a greater position are ignored */
    uint64_t failures;      /* outbox->failures when the barrier began */
};

static bool is_awaited(const struct barrier *barrier, const struct item *item)
{
    return item->row.kind == barrier->kind && item->row.position <= barrier->last_position;
}

/* Returns until when to wait for the releases of files that were closed before `began_ms`, or 0 if none is
 * awaited any more. Ignores files that are closed later: each program that a shell starts closes the shell's
 * open file, so the wait would never end. */
static int64_t find_release_deadline_locked(struct outbox *outbox, enum outbox_folder folder,
                                            const char *name, int64_t began_ms)
{
    int64_t now = outbox_monotonic_ms(outbox);
    int64_t until_ms = 0;
    GHashTableIter position;
    const struct item *item;
    g_hash_table_iter_init(&position, outbox->table.folders[folder].names);
    while ((item = item_table_next(&position)) != NULL) {
        int64_t closed_ms = item->file.closed_ms;
        bool is_closed = item->row.state == ITEM_WRITING && closed_ms != 0 && closed_ms <= began_ms;
        if (is_closed && closed_ms + RELEASE_WAIT_MS > now &&
            (name == NULL || strcmp(item->row.name, name) == 0))
            until_ms = MAX(until_ms, closed_ms + RELEASE_WAIT_MS);
    }
    return until_ms;
}

/* `name`: waits for the release of this file alone; NULL: of all files in the folder. */
static int await_releases_locked(struct outbox *outbox, enum outbox_folder folder, const char *name,
                                 struct cancel *cancel)
{
    int64_t began_ms = outbox_monotonic_ms(outbox);
    int64_t until_ms;
    int error = 0;
    while (error != -EINTR && !outbox->is_stopping &&
           (until_ms = find_release_deadline_locked(outbox, folder, name, began_ms)) != 0)
        error = wait_until(outbox->config.clock, &outbox->changed, &outbox->lock, until_ms, cancel);
    return error == -EINTR ? error : 0;
}

void outbox_await_release(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    LOCK_GUARD(&outbox->lock);
    (void)await_releases_locked(outbox, folder, name, NULL);
}

/* Returns 0 if all items are settled; -EAGAIN if an item has to wait; else -EINPROGRESS, for example because
 * a program still writes an attachment. */
static int check_settled_locked(const struct barrier *barrier)
{
    struct outbox *outbox = barrier->outbox;
    const struct send_queue *queue = &outbox->queue;
    int state = 0;
    for (const GList *link = queue->waiting.head; link != NULL; link = link->next) {
        const struct item *item = link->data;
        if (!is_awaited(barrier, item) || item->file.writers > 0)
            continue;
        if (send_queue_has_to_wait(queue, item)) /* a program touched the message, or the disk failed */
            return -EAGAIN;
        state = -EINPROGRESS;
    }
    for (const GList *link = queue->handed_in[barrier->kind].head; link != NULL; link = link->next) {
        const struct item *item = link->data;
        if (!is_awaited(barrier, item))
            continue;
        const struct item *upload = send_queue_find_upload(&outbox->table, item);
        if (send_queue_has_to_wait(queue, item) || (upload != NULL && send_queue_has_to_wait(queue, upload)))
            return -EAGAIN;
        state = -EINPROGRESS;
    }
    /* A program that waits here reads `events` next. */
    return state == 0 && outbox->events_due > 0 ? -EINPROGRESS : state;
}

/* Reports each failure to all barriers that waited for the item, and once to the session that handed the item
 * in, as fsync(2) of a file reports errors. */
static int report_failures_locked(const struct barrier *barrier)
{
    GHashTableIter position;
    struct item *item;
    int error = 0;
    g_hash_table_iter_init(&position, barrier->outbox->table.folders[OUTBOX_FOLDER_FAILED].names);
    while ((item = item_table_next(&position)) != NULL) {
        bool is_own = item->session == barrier->session && !item->is_failure_reported;
        if (item->failure == 0 || !is_awaited(barrier, item) ||
            !(is_own || item->failure > barrier->failures))
            continue;
        item->is_failure_reported = item->is_failure_reported || is_own;
        error = -EIO;
    }
    return error;
}

/* Returns true if the session closed a message without a text, which waits for one, perhaps for ever. An
 * empty message of another session does not count: if it was forgotten, it would fail every barrier. */
static bool has_empty_message_locked(const struct barrier *barrier)
{
    GHashTableIter position;
    const struct item *item;
    g_hash_table_iter_init(&position, barrier->outbox->table.folders[OUTBOX_FOLDER_OUTBOX].names);
    while ((item = item_table_next(&position)) != NULL)
        if (is_awaited(barrier, item) && item->session == barrier->session &&
            item->row.state == ITEM_WAITING && item->size == 0 && item->file.writers == 0 &&
            !item_is_never_sent(ITEM_MESSAGE, item->row.name))
            return true;
    return false;
}

static int wait_settled_locked(struct barrier *barrier, struct cancel *cancel)
{
    struct outbox *outbox = barrier->outbox;
    int64_t until_ms = outbox_monotonic_ms(outbox) + SETTLE_WAIT_MS;
    int error = 0;
    int state;
    while ((state = check_settled_locked(barrier)) == -EINPROGRESS && error == 0 && !outbox->is_stopping)
        error = wait_until(outbox->config.clock, &outbox->changed, &outbox->lock, until_ms, cancel);
    if (state == -EINPROGRESS)
        return error == -EINTR ? error : -EAGAIN;
    if (state == 0)
        state = report_failures_locked(barrier);
    return state == 0 && has_empty_message_locked(barrier) ? -EAGAIN : state;
}

/* Returns true if a message is due for the hand-in and not handed in yet. */
static bool is_handing_in_locked(const struct barrier *barrier)
{
    for (const GList *link = barrier->outbox->queue.waiting.head; link != NULL; link = link->next) {
        const struct item *item = link->data;
        if (is_awaited(barrier, item) && !send_queue_has_to_wait(&barrier->outbox->queue, item) &&
            item->file.writers == 0 && item->schedule.awaits == 0)
            return true;
    }
    return false;
}

void outbox_hand_in_waiting(struct outbox *outbox)
{
    struct barrier barrier = {.outbox = outbox, .kind = ITEM_MESSAGE};
    LOCK_GUARD(&outbox->lock);
    (void)await_releases_locked(outbox, OUTBOX_FOLDER_OUTBOX, NULL, NULL);
    barrier.last_position = outbox->last_position;
    send_queue_end_quiet_times(&outbox->queue);
    while (is_handing_in_locked(&barrier) && !outbox->is_stopping)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
}

int outbox_wait_settled(struct outbox *outbox, enum outbox_folder folder, pid_t pid, struct cancel *cancel)
{
    struct barrier barrier = {
        .outbox = outbox,
        .session = writer_session(pid),
        .kind = folder == OUTBOX_FOLDER_OUTBOX ? ITEM_MESSAGE : ITEM_ATTACHMENT,
    };
    if (folder != OUTBOX_FOLDER_OUTBOX && folder != OUTBOX_FOLDER_ATTACHMENTS)
        return 0;
    LOCK_GUARD(&outbox->lock);
    barrier.failures = outbox->failures;
    int error = await_releases_locked(outbox, folder, NULL, cancel);
    if (error != 0)
        return error;
    barrier.last_position = outbox->last_position;
    if (barrier.kind == ITEM_MESSAGE)
        send_queue_end_quiet_times(&outbox->queue);
    return wait_settled_locked(&barrier, cancel);
}
