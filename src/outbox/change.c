/* SPDX-License-Identifier: MIT */
/*
 * Changes of items.
 */
#include "outbox/change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crash_point.h"
#include "base/log.h"
#include "mail/receipt.h"
#include "outbox/core.h"
#include "outbox/numbered_name.h"

int change_begin(struct outbox *outbox, const struct item *item, enum item_state state,
                 struct change *ret_change)
{
    struct change change = {.outbox = outbox, .state = state, .reserved_folder = -1};
    int error = envelope_copy(&item->envelope, &change.next);
    *ret_change = change;
    return error;
}

int change_begin_settled(struct outbox *outbox, const struct item *item, struct change *ret_change)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    if (item->is_unsaved) /* then memory has all of it */
        return change_begin(outbox, item, item->state, ret_change);
    *ret_change = (struct change){.outbox = outbox, .state = item->state, .reserved_folder = -1};
    int error = spool_read_envelope(outbox->spool, item->number, &text, &len);
    return error != 0 ? error : envelope_parse(text, len, &ret_change->next);
}

static int folder_after(const struct change *change)
{
    return change->next.is_hidden ? -1 : item_state_folder(change->state, change->next.kind);
}

static void unreserve_locked(struct change *change)
{
    if (change->reserved_folder >= 0)
        item_table_unreserve(&change->outbox->table, (enum outbox_folder)change->reserved_folder,
                             change->next.name);
    change->reserved_folder = -1;
    send_queue_close_lane(&change->outbox->queue, change->lane);
    change->lane = NULL;
}

void change_release(struct change *change)
{
    if (change->outbox == NULL)
        return;
    pthread_mutex_lock(&change->outbox->lock);
    unreserve_locked(change);
    binding_unpin_locked(change->outbox, &change->binding);
    pthread_mutex_unlock(&change->outbox->lock);
    envelope_release(&change->next);
}

/* ---------------------------------------------------------------- reserving */

static int reserve_name_locked(struct change *change, const struct item *item)
{
    struct outbox *outbox = change->outbox;
    int folder = folder_after(change);
    if (folder < 0)
        return 0;
    if (folder == item_folder(item) && strcmp(change->next.name, item->envelope.name) == 0)
        return 0;
    if (folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED) {
        char *name = numbered_name_find(&outbox->table, (enum outbox_folder)folder, change->next.name);
        if (name == NULL)
            return -ENOMEM;
        free(change->next.name);
        change->next.name = name;
    } else if (item_table_is_taken(&outbox->table, (enum outbox_folder)folder, change->next.name)) {
        const struct item *shown =
            item_table_find(&outbox->table, (enum outbox_folder)folder, change->next.name);
        return shown != NULL && shown == change->replaced ? 0 : -EEXIST;
    }
    int error = item_table_reserve(&outbox->table, (enum outbox_folder)folder, change->next.name);
    if (error == 0)
        change->reserved_folder = folder;
    return error;
}

int change_reserve_locked(struct change *change, const struct item *item)
{
    if (!item_state_may_follow(item->state, change->state)) {
        log_error("an item of the spool cannot go from one state to the other (%d to %d)", item->state,
                  change->state);
        return -EPERM;
    }
    bool is_queued_message =
        change->next.kind == ENVELOPE_MESSAGE && item_state_is_unsettled(change->state) && !item->is_queued;
    int error = reserve_name_locked(change, item);
    if (error == 0 && is_queued_message)
        error = send_queue_open_lane(&change->outbox->queue, change->next.lane, &change->lane);
    return error;
}

/* ---------------------------------------------------------------- saving */

static int format_receipt_size(const struct change *change, size_t *ret_bytes)
{
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    if (!item_state_has_receipt(change->state) || change->next.is_hidden) {
        *ret_bytes = 0;
        return 0;
    }
    int error = receipt_format(&change->next, &receipt);
    *ret_bytes = receipt.len;
    return error;
}

void change_stamp(struct change *change)
{
    snprintf(change->next.state, sizeof(change->next.state), "%s", item_state_name(change->state));
}

int change_save(struct change *change, struct item *item)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    change_stamp(change);
    int error = format_receipt_size(change, &change->receipt_bytes);
    error = error != 0 ? error : envelope_format(&change->next, &text);
    error =
        error != 0 ? error : spool_write_envelope(change->outbox->spool, item->number, text.data, text.len);
    if (error == 0 || !change->is_forced)
        return error;
    log_error("the spool cannot record what became of a message (%s); trying again", strerror(-error));
    change->is_unsaved = true;
    return 0;
}

/* ---------------------------------------------------------------- applying */

static void touch_folder_locked(struct outbox *outbox, int folder)
{
    if (folder >= 0)
        outbox->table.folders[folder].changed_ms = core_realtime_ms(outbox);
}

static void hide_name_locked(struct outbox *outbox, struct item *item)
{
    int folder = item_folder(item);
    if (folder >= 0 && item->envelope.name != NULL)
        item_table_hide(&outbox->table, (enum outbox_folder)folder, item);
}

static void mark_unsaved_locked(struct outbox *outbox, struct item *item, bool is_unsaved)
{
    if (item->is_unsaved == is_unsaved)
        return;
    item->is_unsaved = is_unsaved;
    outbox->unsaved += is_unsaved ? 1U : -1U;
    if (is_unsaved)
        outbox->save_again_ms = core_monotonic_ms(outbox) + SAVE_AGAIN_MS;
    core_wake_worker_locked(outbox, ENVELOPE_MESSAGE);
}

/* For those who wait for the item, for messages that bind it, and for those behind it in its lane. */
static void wake_locked(struct outbox *outbox, const struct item *item, bool was_queued)
{
    core_broadcast_locked(outbox);
    if (item->users > 0)
        core_wake_workers_locked(outbox, ENVELOPE_MESSAGE);
    if (item->is_queued || was_queued)
        core_wake_worker_locked(outbox, item->envelope.kind);
}

/* Its name is about to be the new item's. */
static void hide_replaced_locked(const struct change *change)
{
    if (change->replaced != NULL)
        change->replaced->envelope.is_hidden = true;
}

/* A settled message needs neither its attachments nor, in memory, its request. */
static void settle_locked(struct outbox *outbox, struct item *item)
{
    if (item_state_is_unsettled(item->state))
        return;
    binding_unpin_item_locked(outbox, item);
    if (!item->is_unsaved) {
        free(item->envelope.request);
        item->envelope.request = NULL;
    }
    item->next_attempt_ms = 0;
    backoff_reset(&item->backoff);
}

static void show_name_locked(struct change *change, struct item *item)
{
    struct item_table *table = &change->outbox->table;
    int to = item_folder(item);
    if (to >= 0)
        item_table_show(table, (enum outbox_folder)to, item);
    else if (change->reserved_folder >= 0)
        item_table_unreserve(table, (enum outbox_folder)change->reserved_folder, item->envelope.name);
    change->reserved_folder = -1;
    touch_folder_locked(change->outbox, to);
}

static void move_in_queue_locked(struct change *change, struct item *item)
{
    struct send_queue *queue = &change->outbox->queue;
    bool is_unsettled = item_state_is_unsettled(item->state);
    if (is_unsettled && !item->is_queued) {
        binding_move_locked(&change->binding, item);
        item->lane = TAKE_PTR(change->lane);
        send_queue_add(queue, item);
    } else if (!is_unsettled) {
        settle_locked(change->outbox, item);
    }
}

void change_apply_locked(struct change *change, struct item *item)
{
    struct outbox *outbox = change->outbox;
    int from = item_folder(item);
    bool was_unsettled = item_state_is_unsettled(item->state);
    bool is_news = item->state != change->state;

    hide_replaced_locked(change);
    hide_name_locked(outbox, item);
    if (item->is_queued && !item_state_is_unsettled(change->state))
        send_queue_remove(&outbox->queue, item);
    if (change->is_own_doing && from >= 0 && from != folder_after(change))
        core_leave_ghost_locked(outbox, (enum outbox_folder)from, item->envelope.name, item);

    envelope_release(&item->envelope);
    item->envelope = change->next;
    change->next = (struct envelope){0};
    item->state = change->state;
    if (item->state == ITEM_DRAFTED)
        outbox->memories++;
    item->receipt_bytes = change->receipt_bytes;
    item->is_durable = true;
    if (is_news)
        item->failure = item_state_is_failure(item->state) ? ++outbox->failures : 0;
    mark_unsaved_locked(outbox, item, change->is_unsaved);

    if (item->envelope.order > outbox->last_order)
        outbox->last_order = item->envelope.order;
    if (change->is_own_doing && was_unsettled && !item_state_is_unsettled(item->state)) {
        item->is_untold = true;
        outbox->untold++;
    }
    touch_folder_locked(outbox, from);
    show_name_locked(change, item);
    move_in_queue_locked(change, item);
    wake_locked(outbox, item, was_unsettled);
}

/* ---------------------------------------------------------------- all of it */

struct move {
    int from;
    char *old_name;
    int to;
    char *new_name;
};

static void note_move_locked(struct move *move, const struct item *item, int from, const char *old_name)
{
    move->from = from;
    move->old_name = old_name == NULL ? NULL : strdup(old_name);
    move->to = item_folder(item);
    move->new_name = strdup(item->envelope.name);
}

/* The listener knows one name: where the new one is another, it hears of the old one first. */
static void tell_move(struct outbox *outbox, struct move *move)
{
    const struct outbox_listener *listener = &outbox->config.listener;
    bool is_known = listener->item_moved != NULL && move->new_name != NULL && move->old_name != NULL;
    if (is_known && move->from >= 0 && move->to >= 0) {
        if (strcmp(move->old_name, move->new_name) != 0)
            listener->item_moved(listener->context, move->old_name, (enum outbox_folder)move->from,
                                 (enum outbox_folder)move->from);
        listener->item_moved(listener->context, move->new_name, (enum outbox_folder)move->from,
                             (enum outbox_folder)move->to);
    }
    free(move->old_name);
    free(move->new_name);
}

int change_commit(struct change *change, struct item *item)
{
    struct outbox *outbox = change->outbox;
    struct move move = {.from = -1};
    pthread_mutex_lock(&outbox->lock);
    int error = change_reserve_locked(change, item);
    pthread_mutex_unlock(&outbox->lock);
    if (error != 0)
        return error;
    error = change_save(change, item);
    if (error != 0)
        return error;
    pthread_mutex_lock(&outbox->lock);
    char *old_name = change->is_own_doing ? strdup(item->envelope.name) : NULL;
    int from = item_folder(item);
    change_apply_locked(change, item);
    if (change->is_own_doing)
        note_move_locked(&move, item, from, old_name);
    pthread_mutex_unlock(&outbox->lock);
    free(old_name);
    if (change->is_own_doing)
        tell_move(outbox, &move);
    return 0;
}

void change_forget_locked(struct outbox *outbox, struct item *item)
{
    int folder = item_folder(item);
    bool was_queued = item->is_queued;
    hide_name_locked(outbox, item);
    if (was_queued)
        send_queue_remove(&outbox->queue, item);
    binding_unpin_item_locked(outbox, item);
    mark_unsaved_locked(outbox, item, false);
    if (item->state == ITEM_DRAFTED)
        outbox->memories--;
    item->state = ITEM_GONE;
    touch_folder_locked(outbox, folder);
    wake_locked(outbox, item, was_queued);
    item_table_remove(&outbox->table, item);
    item_unref(item);
}

int change_remove(struct outbox *outbox, struct item *item)
{
    if (!item_state_may_follow(item->state, ITEM_GONE))
        return -EBUSY;
    int error = spool_remove(outbox->spool, item->number);
    if (error != 0)
        return error;
    pthread_mutex_lock(&outbox->lock);
    change_forget_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
    return 0;
}

/* ---------------------------------------------------------------- once more */

static struct item *claim_unsaved_locked(struct outbox *outbox)
{
    size_t position = 0;
    struct item *item;
    while ((item = map_next(&outbox->table.by_number, &position)) != NULL)
        if (item->is_unsaved && item->claim == CLAIM_NONE && core_claim_locked(outbox, item, CLAIM_DISK) == 0)
            return item;
    return NULL;
}

void change_save_again(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    outbox->save_again_ms = core_monotonic_ms(outbox) + SAVE_AGAIN_MS;
    struct item *item = claim_unsaved_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
    if (item == NULL)
        return;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    int error = envelope_format(&item->envelope, &text);
    if (error == 0)
        error = spool_write_envelope(outbox->spool, item->number, text.data, text.len);
    pthread_mutex_lock(&outbox->lock);
    if (error == 0) {
        mark_unsaved_locked(outbox, item, false);
        settle_locked(outbox, item);
        outbox->save_again_ms = 0; /* the disk works: go on with the next at once */
    }
    core_unclaim_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
}
