/* SPDX-License-Identifier: MIT */
/*
 * Claims, changes, and the settling of items. After the start only this file changes an item's row.
 */
#include "outbox/change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crash_point.h"
#include "base/lock.h"
#include "base/log.h"
#include "mail/receipt.h"

enum {
    SAVE_AGAIN_MS = 10 * 1000, /* from a failed save of a row to the next try */
};

/* ================================================================ claims */

bool claim_would_wait_locked(struct item *item)
{
    if (item->upload != NULL)
        cancel_set(item->upload);
    return item->linking > 0 || item->claim == CLAIM_DISK || item->upload != NULL;
}

int claim_take_locked(struct outbox *outbox, struct item *item, enum item_claim claim)
{
    item_ref(item);
    while (claim == CLAIM_DISK && claim_would_wait_locked(item))
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    int error = item->claim == CLAIM_SERVICE ? -EBUSY : item->row.state == ITEM_GONE ? -ENOENT : 0;
    if (error != 0) {
        item_unref(item);
        return error;
    }
    item->claim = claim;
    if (claim == CLAIM_DISK && item->row.state == ITEM_UPLOADING) /* this thread may have cancelled it */
        send_queue_make_due(&outbox->queue, item);
    return 0;
}

void claim_release_locked(struct outbox *outbox, struct item *item)
{
    item->claim = CLAIM_NONE;
    item->upload = NULL;
    if (item->schedule.list != NULL)
        pthread_cond_broadcast(&outbox->queue.work_arrived);
    pthread_cond_broadcast(&outbox->changed);
    item_unref(item);
}

void claim_release(struct outbox *outbox, struct item *item)
{
    if (item == NULL)
        return;
    LOCK_GUARD(&outbox->lock);
    claim_release_locked(outbox, item);
}

/* ================================================================ changes */

void change_begin(struct change *change, struct item *item, enum item_state state)
{
    *change = (struct change){.item = item, .reserved = OUTBOX_FOLDER_NONE};
    row_copy(&item->row, &change->next);
    change->next.state = state;
}

static void unreserve_locked(struct outbox *outbox, struct change *change)
{
    if (change->reserved == OUTBOX_FOLDER_NONE)
        return;
    item_table_unreserve(&outbox->table, change->reserved, change->next.name);
    change->reserved = OUTBOX_FOLDER_NONE;
    pthread_cond_broadcast(&outbox->changed); /* a rename may wait for the name */
}

void change_release(struct outbox *outbox, struct change *change)
{
    if (change->item == NULL)
        return;
    pthread_mutex_lock(&outbox->lock);
    unreserve_locked(outbox, change);
    pthread_mutex_unlock(&outbox->lock);
    if (!change->is_unsaved) /* an outdated row on the disk would still refer to the pieces */
        spool_remove_pieces(outbox->spool, &change->next, &change->item->row);
    row_release(&change->next);
    change->item = NULL;
}

static bool is_removed_along(const struct change *changes, size_t len, const struct item *item)
{
    for (size_t i = 0; i < len; i++)
        if (changes[i].item == item && changes[i].next.state == ITEM_GONE)
            return true;
    return false;
}

static int reserve_locked(struct outbox *outbox, struct change *changes, size_t len, size_t at)
{
    struct change *change = &changes[at];
    enum outbox_folder folder = item_state_folder(change->next.state, change->next.kind);
    const char *old_name = change->item->row.name;
    bool is_new = change->item->row.state == ITEM_GONE;
    if (!item_state_may_follow(change->item->row.state, change->next.state)) {
        log_error("an item of the spool cannot go from one state to the other (%d to %d)",
                  change->item->row.state, change->next.state);
        return -EPERM;
    }
    if (folder == OUTBOX_FOLDER_NONE ||
        (!is_new && folder == item_folder(change->item) && strcmp(change->next.name, old_name) == 0))
        return 0;
    bool is_new_answer = is_new && change->next.reply_template != NULL;
    if (folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED || is_new_answer) {
        char *name = item_table_choose_name(&outbox->table, folder, change->next.name);
        free(change->next.name);
        change->next.name = name;
    }
    if (item_table_is_taken(&outbox->table, folder, change->next.name)) {
        const struct item *shown = item_table_find(&outbox->table, folder, change->next.name);
        return shown != NULL && is_removed_along(changes, len, shown) ? 0 : -EEXIST;
    }
    item_table_reserve(&outbox->table, folder, change->next.name);
    change->reserved = folder;
    return 0;
}

static int reserve_names(struct outbox *outbox, struct change *changes, size_t len)
{
    LOCK_GUARD(&outbox->lock);
    int error = 0;
    for (size_t i = 0; i < len && error == 0; i++)
        error = reserve_locked(outbox, changes, len, i);
    for (size_t i = 0; i < len && error != 0; i++)
        unreserve_locked(outbox, &changes[i]);
    return error;
}

int outbox_format_receipt(struct outbox *outbox, const struct row *row, struct strbuf *out)
{
    _cleanup_free_ char *request = NULL;
    if (row->kind == ITEM_MESSAGE && row->attempts > 0) {
        int error = spool_read_request(outbox->spool, row->number, &request);
        if (error != 0)
            return error;
    }
    return row_format_receipt(row, request, out);
}

int outbox_measure_receipt(struct outbox *outbox, struct row *row)
{
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(RECEIPT_MAX_BYTES);
    int error = item_states[row->state].has_receipt ? outbox_format_receipt(outbox, row, &receipt) : 0;
    row->receipt_bytes = receipt.len;
    return error;
}

/* A message that may have been sent counts once, for the day of its first such attempt. */
static bool is_counted(const struct change *change)
{
    return change->item->row.quota_day == 0 && change->next.quota_day != 0;
}

static int save_change(struct connection *turn, const struct change *change)
{
    const struct row *row = &change->next;
    if (row->state == ITEM_GONE)
        return spool_remove_row(turn, change->item->number);
    int error = spool_save_row(turn, row);
    if (error == 0 && row->state == ITEM_SENDING)
        error = spool_save_request(turn, row->number, change->request);
    if (error == 0 && is_counted(change))
        error = spool_count_sent(turn, row->quota_day);
    if (error == 0 && change->pooled != NULL)
        error = spool_save_pool_id(turn, change->pooled);
    return error;
}

static int save_changes(struct outbox *outbox, struct change *changes, size_t len)
{
    struct connection *turn;
    int error = 0;
    for (size_t i = 0; i < len && error == 0; i++)
        error = outbox_measure_receipt(outbox, &changes[i].next);
    error = error != 0 ? error : spool_begin(outbox->spool, &turn);
    if (error == 0) {
        for (size_t i = 0; i < len && error == 0; i++)
            error = save_change(turn, &changes[i]);
        error = spool_end(outbox->spool, turn, error);
    }
    if (error == 0 || !changes->is_forced)
        return error;
    log_error("the spool cannot record what became of a message (%s); trying again", strerror(-error));
    changes->is_unsaved = true;
    return 0;
}

static void touch_folder_locked(struct outbox *outbox, enum outbox_folder folder)
{
    if (folder != OUTBOX_FOLDER_NONE)
        outbox->table.folders[folder].changed_ms = outbox_realtime_ms(outbox);
}

static void mark_unsaved_locked(struct outbox *outbox, struct item *item, bool is_unsaved)
{
    if (item->is_unsaved == is_unsaved)
        return;
    item->is_unsaved = is_unsaved;
    outbox->unsaved += is_unsaved ? 1U : -1U;
    if (is_unsaved)
        outbox->save_again_ms = outbox_monotonic_ms(outbox) + SAVE_AGAIN_MS;
    pthread_cond_broadcast(&outbox->queue.work_arrived);
}

static void hide_locked(struct outbox *outbox, struct item *item)
{
    enum outbox_folder folder = item_folder(item);
    if (folder != OUTBOX_FOLDER_NONE)
        item_table_hide(&outbox->table, folder, item);
    touch_folder_locked(outbox, folder);
}

/* Lets the workers check again the messages that wait until the attachment is written. */
static void end_awaiting_locked(struct outbox *outbox, const struct item *attachment)
{
    for (const GList *link = outbox->queue.waiting.head; link != NULL; link = link->next) {
        struct schedule *schedule = &((struct item *)link->data)->schedule;
        if (schedule->awaits == attachment->number)
            schedule->awaits = 0;
    }
    pthread_cond_broadcast(&outbox->queue.work_arrived);
}

static void remove_item_locked(struct outbox *outbox, struct change *change)
{
    struct item *item = change->item;
    hide_locked(outbox, item);
    if (item->row.kind == ITEM_ATTACHMENT)
        end_awaiting_locked(outbox, item);
    mark_unsaved_locked(outbox, item, false);
    item->row.state = ITEM_GONE;
    send_queue_place(&outbox->queue, item);
    item_table_remove(&outbox->table, item);
    item_unref(item);
}

static bool is_settled(enum item_state state)
{
    return item_states[state].has_receipt && !item_states[state].is_unsettled;
}

static void apply_change_locked(struct outbox *outbox, struct change *change)
{
    struct item *item = change->item;
    enum item_state from = item->row.state;
    if (from == ITEM_GONE)
        item_table_add(&outbox->table, item_ref(item));
    else
        hide_locked(outbox, item);
    if (is_counted(change))
        quota_count(&outbox->queue.quota, change->next.quota_day);
    struct row old = item->row;
    item->row = change->next;
    change->next = old; /* released with the change */
    mark_unsaved_locked(outbox, item, change->is_unsaved);
    if (item->row.position > outbox->last_position)
        outbox->last_position = item->row.position;
    enum outbox_folder to = item_folder(item);
    if (to != OUTBOX_FOLDER_NONE)
        item_table_show(&outbox->table, to, item);
    touch_folder_locked(outbox, to);
    change->reserved = OUTBOX_FOLDER_NONE;
    /* If the writer has closed the attachment since the check, no close will wake a worker. */
    item->schedule.awaits = outbox_is_being_written_locked(outbox, change->awaits) ? change->awaits : 0;
    send_queue_place(&outbox->queue, item); /* without a quiet time while it awaits the attachment */
    if (item->row.state != from) {
        item->failure = item_folder(item) == OUTBOX_FOLDER_FAILED ? ++outbox->failures : 0;
        item->is_failure_reported = false;
    }
    outbox->events_due += is_settled(item->row.state);
    if (item->row.kind == ITEM_ATTACHMENT && item->row.state != ITEM_WRITING)
        end_awaiting_locked(outbox, item);
}

/* Removes items first, because other changes take their names. */
static void apply_changes(struct outbox *outbox, struct change *changes, size_t len)
{
    pthread_mutex_lock(&outbox->lock);
    for (size_t i = 0; i < len; i++)
        if (changes[i].next.state == ITEM_GONE)
            remove_item_locked(outbox, &changes[i]);
    for (size_t i = 0; i < len; i++)
        if (changes[i].next.state != ITEM_GONE)
            apply_change_locked(outbox, &changes[i]);
    pthread_cond_broadcast(&outbox->changed);
    pthread_mutex_unlock(&outbox->lock);
    for (size_t i = 0; i < len; i++) {
        const struct item *item = changes[i].item;
        /* `next` is the old row now, and a new item (`place`) was ITEM_GONE. */
        if (changes[i].place != NULL || changes[i].next.state != ITEM_GONE)
            continue;
        crash_point("removed");
        spool_discard_content(outbox->spool, item->number);
        spool_remove_pieces(outbox->spool, &item->row, NULL);
    }
}

/* Removes the row of a new item whose content could not be placed. */
static void undo_new_row(struct outbox *outbox, uint64_t number)
{
    struct connection *turn;
    int error = spool_begin(outbox->spool, &turn);
    if (error == 0)
        error = spool_end(outbox->spool, turn, spool_remove_row(turn, number));
    if (error != 0) /* the next start drops the row, which has no content */
        log_error("the spool could not take back a hand-in that failed: %s", strerror(-error));
}

int change_commit(struct outbox *outbox, struct change *changes, size_t len)
{
    size_t first = changes->place != NULL ? 1 : len;
    int error = reserve_names(outbox, changes, len);
    error = error != 0 ? error : save_changes(outbox, changes, first);
    if (error == 0 && changes->place != NULL) {
        error = changes->place(changes->context);
        if (error != 0)
            undo_new_row(outbox, changes->item->number);
    }
    if (error != 0)
        return error;
    if (first < len && save_changes(outbox, changes + first, len - first) != 0)
        log_warning("the spool could not remove what was replaced, which the next start will do");
    apply_changes(outbox, changes, len);
    return 0;
}

/* If the row cannot be removed (full disk), removes the content: then the next start drops the row. An item
 * without content is removed also if the folder cannot be synced, which is an error all the same. */
int change_remove(struct outbox *outbox, struct item *item)
{
    struct change change;
    change_begin(&change, item, ITEM_GONE);
    int error = change_commit(outbox, &change, 1);
    if (error != 0) {
        struct stat status;
        int unlinked = spool_unlink_content(outbox->spool, item->number);
        change.is_forced = spool_stat_content(outbox->spool, item->number, &status) == -ENOENT;
        error = change_commit(outbox, &change, 1);
        if (error == 0 && unlinked != -ENOENT)
            error = unlinked;
    }
    change_release(outbox, &change);
    return error;
}

bool change_save_again(struct outbox *outbox)
{
    struct connection *turn;
    GHashTableIter position;
    struct item *item;
    pthread_mutex_lock(&outbox->lock);
    outbox->save_again_ms = outbox_monotonic_ms(outbox) + SAVE_AGAIN_MS;
    g_hash_table_iter_init(&position, outbox->table.by_number);
    do {
        item = item_table_next(&position);
    } while (item != NULL && (!item->is_unsaved || item->claim != CLAIM_NONE || item->linking > 0));
    if (item != NULL)
        claim_take_locked(outbox, item, CLAIM_DISK); /* does not wait: the item is unclaimed */
    pthread_mutex_unlock(&outbox->lock);
    if (item == NULL)
        return false;
    struct row row;
    row_copy(&item->row, &row);
    int error = outbox_measure_receipt(outbox, &row); /* the disk may have failed to read the request */
    error = error != 0 ? error : spool_begin(outbox->spool, &turn);
    if (error == 0)
        error = spool_end(outbox->spool, turn, spool_save_row(turn, &row));
    size_t receipt_bytes = row.receipt_bytes;
    row_release(&row);
    LOCK_GUARD(&outbox->lock);
    if (error == 0) {
        item->row.receipt_bytes = receipt_bytes;
        mark_unsaved_locked(outbox, item, false);
        outbox->save_again_ms = 0; /* the disk works: save the next row at once */
    }
    claim_release_locked(outbox, item);
    return error == 0;
}

/* ================================================================ settling */

void change_begin_settling(struct change *change, struct item *item, enum item_state state, int http_status,
                           const char *reason)
{
    change_begin(change, item, state);
    change->is_forced = true;
    change->next.http_status = http_status;
    row_set_string(&change->next.error, reason);
}

static void count_sent(struct outbox *outbox, struct row *next)
{
    if (next->quota_day == 0)
        next->quota_day = quota_day_of(outbox_realtime_ms(outbox));
}

/* Commits the change, and publishes the event if the change settles the item. */
static void commit_settling(struct outbox *outbox, struct change *change)
{
    struct item *item = change->item;
    enum item_state state = change->next.state;
    if (is_settled(state)) {
        change->next.finished_ms = outbox_realtime_ms(outbox);
        for (size_t i = 0; i < change->next.pieces_len; i++)
            change->next.pieces[i].content = 0; /* a settled message does not need its attachments */
    }
    bool has_event = change_commit(outbox, change, 1) == 0 && is_settled(state);
    if (has_event) {
        const struct row *row = &item->row; /* no other thread changes the row during the claim */
        enum event_kind event = state == ITEM_SENT       ? EVENT_SENT
                                : state == ITEM_UPLOADED ? EVENT_UPLOADED
                                                         : EVENT_FAILED;
        outbox_notify(outbox, event, item_folder(item), row->name, row->id, row->error);
    }
    change_release(outbox, change);
    LOCK_GUARD(&outbox->lock);
    outbox->events_due -= has_event;
    pthread_cond_broadcast(&outbox->changed);
}

/* An interrupted file of a never-sent name stays in its folder: its program may need it, as vim needs its
 * swap file. The row keeps the reason, so that the file does not become a message under another name. */
void settle_item(struct outbox *outbox, struct item *item, enum item_state state, int http_status,
                 const char *reason)
{
    struct change change;
    if (state == ITEM_INTERRUPTED && item_is_never_sent(item->row.kind, item->row.name))
        state = ITEM_WAITING;
    if (state == ITEM_FAILED && item_may_have_been_sent(item))
        state = ITEM_UNKNOWN;
    change_begin_settling(&change, item, state, http_status, reason);
    change.next.attempts += state == ITEM_UPLOADING;
    commit_settling(outbox, &change);
}

void settle_accepted(struct outbox *outbox, struct item *item, int http_status, const char *id)
{
    struct change change;
    struct piece piece = {.name = item->row.name};
    bool is_message = item->row.kind == ITEM_MESSAGE;
    change_begin_settling(&change, item, is_message ? ITEM_SENT : ITEM_UPLOADED, http_status, NULL);
    row_set_string(&change.next.id, id);
    if (is_message) {
        count_sent(outbox, &change.next);
    } else {
        change.next.attempts++;
        memcpy(piece.digest, item->row.digest, sizeof(piece.digest));
        piece.pool_id = change.next.id;
        change.pooled = &piece;
    }
    commit_settling(outbox, &change);
}

void settle_unknown(struct outbox *outbox, struct item *item, int http_status, const char *detail)
{
    struct change change;
    char reason[512];
    bool is_repeated = outbox_trusts_keys(outbox);
    snprintf(reason, sizeof(reason), "unknown outcome: the message may have been sent, or not%s%s",
             detail == NULL ? "" : ": ", detail == NULL ? "" : detail);
    change_begin_settling(&change, item, is_repeated ? ITEM_QUEUED : ITEM_UNKNOWN, http_status,
                          is_repeated ? detail : reason);
    change.next.may_have_been_sent = change.next.may_have_been_sent || is_repeated;
    count_sent(outbox, &change.next);
    commit_settling(outbox, &change);
}
