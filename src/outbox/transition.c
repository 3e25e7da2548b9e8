/* SPDX-License-Identifier: MIT */
/*
 * Claims, pins, transitions, and the named ends of an item (sent, failed, uploaded, interrupted, waiting
 * again). This is the only file that changes an item's state or envelope after it was loaded.
 */
#include "outbox/transition.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/log.h"
#include "mail/envelope.h"
#include "outbox/item.h"

enum {
    FORMER_NAME_MS = 10 * 1000, /* how long a former name is still found */
    SAVE_AGAIN_MS = 10 * 1000,  /* until an envelope that could not be written is tried again */
};

int64_t outbox_monotonic_ms(const struct outbox *outbox)
{
    return clock_monotonic_ms(outbox->config.clock);
}

int64_t outbox_realtime_ms(const struct outbox *outbox)
{
    return clock_realtime_ms(outbox->config.clock);
}

bool outbox_trusts_keys(const struct outbox *outbox)
{
    struct mail_service *service = outbox->config.service;
    struct service_capabilities capabilities;
    if (!outbox->config.trusts_idempotency)
        return false;
    service->ops->get_capabilities(service, &capabilities);
    return capabilities.idempotency_key != CAPABILITY_ABSENT;
}

void outbox_broadcast_locked(struct outbox *outbox)
{
    pthread_cond_broadcast(&outbox->changed);
}

/* Wakes one worker that waits for something to do. */
void outbox_wake_worker_locked(struct outbox *outbox)
{
    sleepers_wake_one(&outbox->idle_workers);
}

void outbox_wake_workers_locked(struct outbox *outbox)
{
    sleepers_wake_all(&outbox->idle_workers);
}

/* ---------------------------------------------------------------- claims */

bool claim_would_wait_locked(struct item *item)
{
    if (item->claim == CLAIM_SERVICE && item->envelope.kind == ENVELOPE_ATTACHMENT && !item->is_called_off) {
        item->is_called_off = true;
        cancel_set(item->upload);
    }
    return item->claim == CLAIM_DISK || (item->claim == CLAIM_SERVICE && item->is_called_off);
}

/* Its upload was called off for a change that is done now: it is due at once. */
static void resume_locked(struct item *item)
{
    if (!item->is_called_off)
        return;
    item->is_called_off = false;
    item->next_attempt_ms = 0;
    backoff_reset(&item->backoff);
}

int claim_take_locked(struct outbox *outbox, struct item *item, enum item_claim claim)
{
    item_ref(item);
    while (claim_would_wait_locked(item))
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    int error = item->claim == CLAIM_SERVICE ? -EBUSY : item->state == ITEM_GONE ? -ENOENT : 0;
    if (error != 0) {
        item_unref(item);
        return error;
    }
    item->claim = claim;
    resume_locked(item);
    return 0;
}

void claim_undo_locked(struct outbox *outbox, struct item *item)
{
    item->claim = CLAIM_NONE;
    item->upload = NULL;
    binding_check_locked(outbox, item);
    if (item->is_queued)
        outbox_wake_worker_locked(outbox);
    item_unref(item);
}

void claim_release_locked(struct outbox *outbox, struct item *item)
{
    claim_undo_locked(outbox, item);
    outbox_broadcast_locked(outbox);
}

void claim_release(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    claim_release_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
}

void claim_lend(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    item->lending = LENDING_LENT;
    outbox_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
}

void claim_take_back(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    while (item->lending == LENDING_BORROWED)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    item->lending = LENDING_NONE;
    pthread_mutex_unlock(&outbox->lock);
}

int claim_borrow_locked(struct item *item)
{
    if (item->lending != LENDING_LENT)
        return -EAGAIN;
    item->lending = LENDING_BORROWED;
    item_ref(item);
    return 0;
}

void claim_undo_borrowing_locked(struct item *item)
{
    item->lending = LENDING_LENT;
    item_unref(item);
}

void claim_give_back_locked(struct outbox *outbox, struct item *item)
{
    claim_undo_borrowing_locked(item);
    outbox_broadcast_locked(outbox);
}

void outbox_add_former_name_locked(struct outbox *outbox, enum outbox_folder folder, const char *name,
                                   const struct item *item)
{
    int64_t now_ms = outbox_monotonic_ms(outbox);
    item_table_add_former_name(&outbox->table, folder, name, item, now_ms, now_ms + FORMER_NAME_MS);
}

char *outbox_choose_name(struct outbox *outbox, const char *name)
{
    pthread_mutex_lock(&outbox->lock);
    char *free_name = item_table_choose_name(&outbox->table, OUTBOX_FOLDER_OUTBOX, name);
    pthread_mutex_unlock(&outbox->lock);
    return free_name;
}

/* ---------------------------------------------------------------- events */

void outbox_notify_path(struct outbox *outbox, enum event_kind kind, const char *path, const char *id,
                        const char *error)
{
    const struct event_listener *listener = &outbox->config.events;
    if (listener->notify == NULL)
        return;
    struct event event = {
        .time_ms = outbox_realtime_ms(outbox),
        .kind = kind,
        .path = path,
        .id = id,
        .error = error,
    };
    listener->notify(listener->context, &event);
}

void outbox_notify(struct outbox *outbox, enum event_kind kind, enum outbox_folder folder, const char *name,
                   const char *id, const char *error)
{
    static const char *const folders[OUTBOX_FOLDERS] = {
        [OUTBOX_FOLDER_OUTBOX] = "outbox",
        [OUTBOX_FOLDER_SENT] = "sent",
        [OUTBOX_FOLDER_FAILED] = "failed",
        [OUTBOX_FOLDER_ATTACHMENTS] = "attachments",
    };
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folders[folder], name);
    outbox_notify_path(outbox, kind, path, id, error);
}

/* The event of the item's end is published: barriers may return. */
static void record_published(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    if (item->is_event_due)
        outbox->events_due--;
    item->is_event_due = false;
    outbox_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
}

/* ================================================================ bindings in memory */

/* ---------------------------------------------------------------- loose ends */

static bool fails_messages(const struct item *item)
{
    return item->users > 0 && item_attachment_state(item) == BINDING_LOST;
}

bool binding_is_needed(struct outbox *outbox, const struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    bool is_needed = item->users > 0;
    pthread_mutex_unlock(&outbox->lock);
    return is_needed;
}

static void add_loose_end(struct outbox *outbox, struct item *item)
{
    item->is_loose = true;
    item->next_loose = outbox->loose_ends;
    outbox->loose_ends = item_ref(item);
}

static void remove_loose_end(struct outbox *outbox, struct item *item)
{
    struct item **at = &outbox->loose_ends;
    while (*at != item)
        at = &(*at)->next_loose;
    *at = TAKE_PTR(item->next_loose);
    item->is_loose = false;
    item_unref(item);
}

void binding_check_locked(struct outbox *outbox, struct item *item)
{
    bool is_unneeded = item_is_unneeded(item);
    bool is_loose = is_unneeded || fails_messages(item);
    if (is_loose && !item->is_loose)
        add_loose_end(outbox, item);
    else if (!is_loose && item->is_loose)
        remove_loose_end(outbox, item);
    if (is_loose)
        outbox_wake_worker_locked(outbox);
}

void binding_forget_loose_ends(struct outbox *outbox)
{
    while (outbox->loose_ends != NULL)
        remove_loose_end(outbox, outbox->loose_ends);
}

bool binding_must_collect_locked(const struct outbox *outbox, int64_t now_ms, int64_t *ret_until_ms)
{
    for (const struct item *item = outbox->loose_ends; item != NULL; item = item->next_loose) {
        if (!item_is_unneeded(item) || item->claim != CLAIM_NONE)
            continue;
        if (item->remove_again_ms <= now_ms)
            return true;
        if (item->remove_again_ms < *ret_until_ms)
            *ret_until_ms = item->remove_again_ms;
    }
    return false;
}

struct item *binding_find_failing_locked(const struct outbox *outbox)
{
    const struct item *lost = outbox->loose_ends;
    while (lost != NULL && !fails_messages(lost))
        lost = lost->next_loose;
    if (lost == NULL)
        return NULL;
    struct item *message = send_queue_next(&outbox->queue, NULL);
    while (message != NULL && (message->state != ITEM_QUEUED || message->claim != CLAIM_NONE ||
                               item_binding_state(message) != BINDING_LOST))
        message = send_queue_next(&outbox->queue, message);
    return message;
}

/* ---------------------------------------------------------------- pins */

static void pin(struct item **slot, struct item *attachment)
{
    *slot = item_ref(attachment);
    attachment->users++;
}

static void unpin(struct outbox *outbox, struct item *attachment)
{
    if (attachment == NULL)
        return;
    attachment->users--;
    binding_check_locked(outbox, attachment);
    item_unref(attachment);
}

/* Unpins what was not moved into an item. */
static void binding_unpin_locked(struct outbox *outbox, struct binding *binding)
{
    for (size_t i = 0; i < binding->len; i++)
        unpin(outbox, binding->items[i]);
    if (binding->len > 0)
        outbox_broadcast_locked(outbox);
    free(binding->items);
    *binding = (struct binding){NULL, 0};
}

/* The message is queued: the pins move into it. */
static void binding_move_locked(struct binding *binding, struct item *message)
{
    message->bound = TAKE_PTR(binding->items);
    message->bound_len = binding->len;
    binding->len = 0;
}

void binding_unpin_item_locked(struct outbox *outbox, struct item *message)
{
    for (size_t i = 0; i < message->bound_len; i++)
        unpin(outbox, message->bound[i]);
    free(message->bound);
    message->bound = NULL;
    message->bound_len = 0;
}

/* In a spool of an older version two items may have one content: the hidden one is meant to serve. */
static struct item *find_content(struct outbox *outbox, uint64_t content)
{
    struct item *found = NULL;
    size_t position = 0;
    struct item *item;
    while ((item = map_next(&outbox->table.by_number, &position)) != NULL) {
        bool is_it = item->envelope.kind == ENVELOPE_ATTACHMENT && item->envelope.content == content;
        if (is_it && (found == NULL || item->envelope.is_hidden))
            found = item;
    }
    return found;
}

int binding_recover_locked(struct outbox *outbox, struct item *message)
{
    size_t len = message->envelope.attachments_len;
    if (len == 0)
        return 0;
    message->bound = calloc(len, sizeof(struct item *));
    if (message->bound == NULL)
        return -ENOMEM;
    message->bound_len = len;
    for (size_t i = 0; i < len; i++) {
        struct item *item = find_content(outbox, message->envelope.attachments[i].content);
        if (item != NULL)
            pin(&message->bound[i], item);
    }
    return 0;
}

/* ================================================================ transitions */

int transition_begin(struct outbox *outbox, const struct item *item, enum item_state state,
                     struct transition *ret_transition)
{
    struct transition transition = {.outbox = outbox, .state = state, .reserved_folder = OUTBOX_FOLDER_NONE};
    int error = envelope_copy(&item->envelope, &transition.next);
    *ret_transition = transition;
    return error;
}

int transition_begin_settled(struct outbox *outbox, const struct item *item,
                             struct transition *ret_transition)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    if (item->is_unsaved) /* then memory has all of it */
        return transition_begin(outbox, item, item->state, ret_transition);
    *ret_transition =
        (struct transition){.outbox = outbox, .state = item->state, .reserved_folder = OUTBOX_FOLDER_NONE};
    int error = spool_read_envelope(outbox->spool, item->number, &text, &len);
    return error != 0 ? error : envelope_parse(text, len, &ret_transition->next);
}

static enum outbox_folder folder_after(const struct transition *transition)
{
    return transition->next.is_hidden ? OUTBOX_FOLDER_NONE
                                      : item_state_folder(transition->state, transition->next.kind);
}

static void unreserve_locked(struct transition *transition)
{
    if (transition->reserved_folder != OUTBOX_FOLDER_NONE)
        item_table_unreserve(&transition->outbox->table, transition->reserved_folder, transition->next.name);
    transition->reserved_folder = OUTBOX_FOLDER_NONE;
    send_queue_close_sequence(&transition->outbox->queue, transition->sequence);
    transition->sequence = NULL;
}

void transition_release(struct transition *transition)
{
    if (transition->outbox == NULL)
        return;
    pthread_mutex_lock(&transition->outbox->lock);
    unreserve_locked(transition);
    binding_unpin_locked(transition->outbox, &transition->binding);
    pthread_mutex_unlock(&transition->outbox->lock);
    envelope_release(&transition->next);
}

/* ---------------------------------------------------------------- reserving */

static int reserve_name_locked(struct transition *transition, const struct item *item)
{
    struct outbox *outbox = transition->outbox;
    enum outbox_folder folder = folder_after(transition);
    if (folder == OUTBOX_FOLDER_NONE)
        return 0;
    if (folder == item_folder(item) && strcmp(transition->next.name, item->envelope.name) == 0)
        return 0;
    if (folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED) {
        char *name = item_table_choose_name(&outbox->table, folder, transition->next.name);
        if (name == NULL)
            return -ENOMEM;
        free(transition->next.name);
        transition->next.name = name;
    } else if (item_table_is_taken(&outbox->table, folder, transition->next.name)) {
        const struct item *shown = item_table_find(&outbox->table, folder, transition->next.name);
        return shown != NULL && shown == transition->replaced ? 0 : -EEXIST;
    }
    int error = item_table_reserve(&outbox->table, folder, transition->next.name);
    if (error == 0)
        transition->reserved_folder = folder;
    return error;
}

int transition_reserve_locked(struct transition *transition, const struct item *item)
{
    if (!item_state_may_follow(item->state, transition->state)) {
        log_error("an item of the spool cannot go from one state to the other (%d to %d)", item->state,
                  transition->state);
        return -EPERM;
    }
    bool is_queued_message = transition->next.kind == ENVELOPE_MESSAGE &&
                             item_state_is_unsettled(transition->state) && !item->is_queued;
    int error = reserve_name_locked(transition, item);
    if (error == 0 && is_queued_message)
        error = send_queue_open_sequence(&transition->outbox->queue, transition->next.sequence,
                                         &transition->sequence);
    return error;
}

/* ---------------------------------------------------------------- saving */

static int format_receipt_size(const struct transition *transition, size_t *ret_bytes)
{
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    if (!item_state_has_receipt(transition->state) || transition->next.is_hidden) {
        *ret_bytes = 0;
        return 0;
    }
    int error = receipt_format(&transition->next, &receipt);
    *ret_bytes = receipt.len;
    return error;
}

void transition_stamp(struct transition *transition)
{
    snprintf(transition->next.state, sizeof(transition->next.state), "%s",
             item_state_name(transition->state));
}

int transition_save(struct transition *transition, struct item *item)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    transition_stamp(transition);
    int error = format_receipt_size(transition, &transition->receipt_bytes);
    error = error != 0 ? error : envelope_format(&transition->next, &text);
    error = error != 0 ? error
                       : spool_write_envelope(transition->outbox->spool, item->number, text.data, text.len);
    if (error == 0 || !transition->is_forced)
        return error;
    log_error("the spool cannot record what became of a message (%s); trying again", strerror(-error));
    transition->is_unsaved = true;
    return 0;
}

/* ---------------------------------------------------------------- applying */

static void touch_folder_locked(struct outbox *outbox, enum outbox_folder folder)
{
    if (folder != OUTBOX_FOLDER_NONE)
        outbox->table.folders[folder].changed_ms = outbox_realtime_ms(outbox);
}

static void hide_name_locked(struct outbox *outbox, struct item *item)
{
    enum outbox_folder folder = item_folder(item);
    if (folder != OUTBOX_FOLDER_NONE && item->envelope.name != NULL)
        item_table_hide(&outbox->table, folder, item);
}

static void mark_unsaved_locked(struct outbox *outbox, struct item *item, bool is_unsaved)
{
    if (item->is_unsaved == is_unsaved)
        return;
    item->is_unsaved = is_unsaved;
    outbox->unsaved += is_unsaved ? 1U : -1U;
    if (is_unsaved)
        outbox->save_again_ms = outbox_monotonic_ms(outbox) + SAVE_AGAIN_MS;
    outbox_wake_worker_locked(outbox);
}

/* For those who wait for the item, for messages that bind it, and for those behind it in its sequence. */
static void wake_locked(struct outbox *outbox, const struct item *item, bool was_queued)
{
    outbox_broadcast_locked(outbox);
    if (item->users > 0)
        outbox_wake_workers_locked(outbox);
    if (item->is_queued || was_queued)
        outbox_wake_worker_locked(outbox);
}

/* The new item takes its name. A message that is replaced is not sent any more; an attachment goes on being
 * uploaded for the messages that bind it. */
static void hide_replaced_locked(const struct transition *transition)
{
    struct item *replaced = transition->replaced;
    if (replaced == NULL)
        return;
    replaced->envelope.is_hidden = true;
    if (replaced->is_queued && replaced->envelope.kind == ENVELOPE_MESSAGE)
        send_queue_remove(&transition->outbox->queue, replaced);
}

/* A settled message needs neither its attachments nor, in memory, its request. */
static void release_settled_locked(struct outbox *outbox, struct item *item)
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

static void show_name_locked(struct transition *transition, struct item *item)
{
    struct item_table *table = &transition->outbox->table;
    enum outbox_folder to = item_folder(item);
    if (to != OUTBOX_FOLDER_NONE)
        item_table_show(table, to, item);
    else if (transition->reserved_folder != OUTBOX_FOLDER_NONE)
        item_table_unreserve(table, transition->reserved_folder, item->envelope.name);
    transition->reserved_folder = OUTBOX_FOLDER_NONE;
    touch_folder_locked(transition->outbox, to);
}

static void move_in_queue_locked(struct transition *transition, struct item *item)
{
    struct send_queue *queue = &transition->outbox->queue;
    bool is_unsettled = item_state_is_unsettled(item->state);
    if (is_unsettled && !item->is_queued) {
        binding_move_locked(&transition->binding, item);
        item->sequence = TAKE_PTR(transition->sequence);
        send_queue_add(queue, item);
    } else if (!is_unsettled) {
        release_settled_locked(transition->outbox, item);
    }
}

static void apply_locked(struct transition *transition, struct item *item)
{
    struct outbox *outbox = transition->outbox;
    enum outbox_folder from = item_folder(item);
    bool was_unsettled = item_state_is_unsettled(item->state);
    bool is_news = item->state != transition->state;
    bool is_moved = item->envelope.order != transition->next.order;

    hide_replaced_locked(transition);
    hide_name_locked(outbox, item);
    if (item->is_queued && !item_state_is_unsettled(transition->state))
        send_queue_remove(&outbox->queue, item);
    if (transition->is_own_doing && from != OUTBOX_FOLDER_NONE && from != folder_after(transition))
        outbox_add_former_name_locked(outbox, from, item->envelope.name, item);

    outbox->memories -= item_remembers_key(item);
    envelope_release(&item->envelope);
    item->envelope = transition->next;
    transition->next = (struct envelope){0};
    item->state = transition->state;
    outbox->memories += item_remembers_key(item);
    item->receipt_bytes = transition->receipt_bytes;
    item->is_durable = true;
    if (is_news) {
        item->failure = item_state_is_failure(item->state) ? ++outbox->failures : 0;
        item->is_failure_reported = false;
    }
    mark_unsaved_locked(outbox, item, transition->is_unsaved);

    if (item->envelope.order > outbox->last_order)
        outbox->last_order = item->envelope.order;
    if (transition->is_own_doing && was_unsettled && !item_state_is_unsettled(item->state)) {
        item->is_event_due = true;
        outbox->events_due++;
    }
    touch_folder_locked(outbox, from);
    show_name_locked(transition, item);
    move_in_queue_locked(transition, item);
    if (is_moved && item->is_queued)
        send_queue_move(&outbox->queue, item);
    wake_locked(outbox, item, was_unsettled);
}

int transition_add_locked(struct transition *transition, struct item *item)
{
    int error = item_table_add(&transition->outbox->table, item);
    if (error == 0)
        apply_locked(transition, item_ref(item));
    return error;
}

/* ---------------------------------------------------------------- all of it */

struct move {
    enum outbox_folder from;
    char *old_name;
    enum outbox_folder to;
    char *new_name;
};

static void record_move_locked(struct move *move, const struct item *item, enum outbox_folder from,
                               const char *old_name)
{
    move->from = from;
    move->old_name = old_name == NULL ? NULL : strdup(old_name);
    move->to = item_folder(item);
    move->new_name = strdup(item->envelope.name);
}

/* The listener knows one name: where the new one is another, it hears of the old one first. */
static void notify_move(struct outbox *outbox, struct move *move)
{
    const struct outbox_listener *listener = &outbox->config.listener;
    bool is_known = listener->item_moved != NULL && move->new_name != NULL && move->old_name != NULL;
    if (is_known && move->from != OUTBOX_FOLDER_NONE && move->to != OUTBOX_FOLDER_NONE) {
        if (strcmp(move->old_name, move->new_name) != 0)
            listener->item_moved(listener->context, move->old_name, move->from, move->from);
        listener->item_moved(listener->context, move->new_name, move->from, move->to);
    }
    free(move->old_name);
    free(move->new_name);
}

int transition_commit(struct transition *transition, struct item *item)
{
    struct outbox *outbox = transition->outbox;
    struct move move = {.from = OUTBOX_FOLDER_NONE};
    pthread_mutex_lock(&outbox->lock);
    int error = transition_reserve_locked(transition, item);
    pthread_mutex_unlock(&outbox->lock);
    if (error != 0)
        return error;
    error = transition_save(transition, item);
    if (error != 0)
        return error;
    pthread_mutex_lock(&outbox->lock);
    char *old_name = transition->is_own_doing ? strdup(item->envelope.name) : NULL;
    enum outbox_folder from = item_folder(item);
    apply_locked(transition, item);
    if (transition->is_own_doing)
        record_move_locked(&move, item, from, old_name);
    pthread_mutex_unlock(&outbox->lock);
    free(old_name);
    if (transition->is_own_doing)
        notify_move(outbox, &move);
    return 0;
}

/* The same from memory alone: its files are gone. */
static void transition_forget_locked(struct outbox *outbox, struct item *item)
{
    enum outbox_folder folder = item_folder(item);
    bool was_queued = item->is_queued;
    hide_name_locked(outbox, item);
    if (was_queued)
        send_queue_remove(&outbox->queue, item);
    binding_unpin_item_locked(outbox, item);
    mark_unsaved_locked(outbox, item, false);
    outbox->memories -= item_remembers_key(item);
    item->state = ITEM_GONE;
    touch_folder_locked(outbox, folder);
    wake_locked(outbox, item, was_queued);
    item_table_remove(&outbox->table, item);
    item_unref(item);
}

int transition_remove_superseded(struct outbox *outbox, const struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    const struct item *superseded = item_table_get(&outbox->table, item->envelope.supersedes);
    uint64_t number = superseded != NULL && superseded->envelope.is_hidden ? superseded->number : 0;
    pthread_mutex_unlock(&outbox->lock);
    return number == 0 ? 0 : spool_remove(outbox->spool, number);
}

/* Else it is put away already, or stands for a key alone. */
static bool can_be_put_away(const struct item *item)
{
    return !item->envelope.is_hidden && item_state_may_follow(item->state, ITEM_ON_HOLD);
}

/* It is told as removed, and of its files some are there still: from now on nobody sees it, it is not sent,
 * and the same content does not take over its key. As an unneeded item it is removed later. */
static int put_away(struct outbox *outbox, struct item *item)
{
    _cleanup_transition_ struct transition transition;
    int error = transition_begin(outbox, item, ITEM_ON_HOLD, &transition);
    transition.next.is_hidden = true;
    transition.next.key[0] = '\0';
    transition.next.digest[0] = '\0';
    transition.is_forced = true;
    return error != 0 ? error : transition_commit(&transition, item);
}

int transition_remove(struct outbox *outbox, struct item *item)
{
    if (!item_state_may_follow(item->state, ITEM_GONE))
        return -EBUSY;
    int error = transition_remove_superseded(outbox, item);
    if (error == 0)
        error = spool_remove(outbox->spool, item->number);
    if (error != 0 && can_be_put_away(item) && !spool_has_data(outbox->spool, item->number))
        return put_away(outbox, item);
    if (error != 0)
        return error;
    pthread_mutex_lock(&outbox->lock);
    transition_forget_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
    return 0;
}

int transition_discard(struct outbox *outbox, struct item *item)
{
    int error = transition_remove(outbox, item);
    return error != 0 ? put_away(outbox, item) : 0;
}

/* ---------------------------------------------------------------- envelopes that the disk did not take */

static struct item *claim_unsaved_locked(struct outbox *outbox)
{
    size_t position = 0;
    struct item *item;
    while ((item = map_next(&outbox->table.by_number, &position)) != NULL)
        if (item->is_unsaved && item->claim == CLAIM_NONE && claim_take_locked(outbox, item, CLAIM_DISK) == 0)
            return item;
    return NULL;
}

bool transition_save_again(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    outbox->save_again_ms = outbox_monotonic_ms(outbox) + SAVE_AGAIN_MS;
    struct item *item = claim_unsaved_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
    if (item == NULL)
        return false;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    int error = envelope_format(&item->envelope, &text);
    if (error == 0)
        error = spool_write_envelope(outbox->spool, item->number, text.data, text.len);
    pthread_mutex_lock(&outbox->lock);
    if (error == 0) {
        mark_unsaved_locked(outbox, item, false);
        release_settled_locked(outbox, item);
        outbox->save_again_ms = 0; /* the disk works: go on with the next at once */
    }
    claim_release_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
    return error == 0;
}

/* ================================================================ bindings on disk */

/* ---------------------------------------------------------------- copies */

int transition_hide(struct outbox *outbox, struct item *item)
{
    _cleanup_transition_ struct transition transition;
    int error = transition_begin(outbox, item, item->state, &transition);
    transition.next.is_hidden = true;
    return error != 0 ? error : transition_commit(&transition, item);
}

void transition_hide_replaced(struct outbox *outbox, struct item *item)
{
    int error = transition_hide(outbox, item);
    if (error != 0)
        log_warning("the spool could not record that a file was replaced: %s", strerror(-error));
}

/* The content comes last: recovery removes an envelope without content. */
static int save_copy(struct transition *transition, const struct item *item, struct item *copy)
{
    int error = transition_save(transition, copy);
    crash_point("copied_envelope");
    return error != 0 ? error : spool_copy_data(transition->outbox->spool, item->number, copy->number);
}

static int show_copy(struct transition *transition, struct item *copy)
{
    struct outbox *outbox = transition->outbox;
    pthread_mutex_lock(&outbox->lock);
    int error = transition_add_locked(transition, copy);
    if (error == 0) {
        copy->is_awaited = !copy->envelope.is_hidden;
        copy->users = copy->envelope.is_hidden ? 1 : 0; /* set with the lock held: nobody finds it unneeded */
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

static int fill_copy(struct transition *transition, const struct item *item, struct item *copy)
{
    struct outbox *outbox = transition->outbox;
    transition->next.number = copy->number;
    transition->next.order = copy->number;
    transition->next.content = copy->number;
    pthread_mutex_lock(&outbox->lock);
    copy->size = item->size;
    copy->mtime = item->mtime;
    int error = transition_reserve_locked(transition, copy);
    pthread_mutex_unlock(&outbox->lock);
    error = error != 0 ? error : save_copy(transition, item, copy);
    error = error != 0 ? error : show_copy(transition, copy);
    if (error != 0)
        spool_remove(outbox->spool, copy->number);
    return error;
}

/* A copy of an attachment, in its state: `replaced` is that attachment, whose name the copy takes; NULL: the
 * copy is hidden, and pinned once. *ret_copy is referenced. */
static int make_copy(struct outbox *outbox, const struct item *item, struct item *replaced,
                     struct item **ret_copy)
{
    _cleanup_transition_ struct transition transition = {.outbox = NULL};
    uint64_t number;
    int error = spool_take_number(outbox->spool, &number);
    error = error != 0 ? error : transition_begin(outbox, item, item->state, &transition);
    if (error != 0)
        return error;
    transition.replaced = replaced;
    transition.next.is_hidden = replaced == NULL;
    struct item *copy = item_new(number);
    if (copy == NULL)
        return -ENOMEM;
    error = fill_copy(&transition, item, copy);
    if (error == 0) {
        *ret_copy = copy;
        return 0;
    }
    pthread_mutex_lock(&outbox->lock);
    item_unref(copy);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

int binding_leave_name(struct outbox *outbox, struct item *item)
{
    struct item *copy;
    int error = make_copy(outbox, item, item, &copy);
    if (error != 0)
        return error;
    crash_point("replaced");
    transition_hide_replaced(outbox, item);
    pthread_mutex_lock(&outbox->lock);
    item_unref(copy);
    pthread_mutex_unlock(&outbox->lock);
    return -ESTALE;
}

/* ---------------------------------------------------------------- pinning by name */

/* A file that is on hold (empty, or of a never-sent name) is no attachment. One that is just changing is
 * waited for. */
static struct item *find_attachment_locked(struct outbox *outbox, const char *name)
{
    struct item *item;
    while ((item = item_table_find(&outbox->table, OUTBOX_FOLDER_ATTACHMENTS, name)) != NULL &&
           item->claim == CLAIM_DISK)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    return item_attachment_state(item) == BINDING_LOST ? NULL : item;
}

/* Whether somebody has it open for writing, or is about to, and has written nothing since it was handed in.
 * The message gets a copy of what is there, and whoever writes does not have to care. */
static bool must_be_copied(const struct item *attachment)
{
    return (attachment->writers > 0 || attachment->is_awaited) && attachment->state != ITEM_WRITING;
}

static int pin_copy_locked(struct outbox *outbox, struct item *item, struct item **ret_item)
{
    if (claim_take_locked(outbox, item, CLAIM_DISK) != 0)
        return -EAGAIN;
    bool is_copied = item_folder(item) == OUTBOX_FOLDER_ATTACHMENTS &&
                     item_attachment_state(item) != BINDING_LOST && must_be_copied(item);
    pthread_mutex_unlock(&outbox->lock);
    int error = is_copied ? make_copy(outbox, item, NULL, ret_item) : -EAGAIN;
    pthread_mutex_lock(&outbox->lock);
    claim_release_locked(outbox, item);
    return error;
}

/* -EAGAIN: it changed while its claim was waited for. */
static int pin_by_name_locked(struct outbox *outbox, const char *name, struct item **ret_item)
{
    struct item *item = find_attachment_locked(outbox, name);
    if (item == NULL)
        return -ENODATA;
    if (must_be_copied(item))
        return pin_copy_locked(outbox, item, ret_item);
    pin(ret_item, item);
    return 0;
}

static int pin_next(struct outbox *outbox, const char *name, struct binding *binding,
                    struct envelope_attachment *ret_attachment, int64_t *ret_bytes)
{
    struct item *item = NULL;
    int error;
    pthread_mutex_lock(&outbox->lock);
    while ((error = pin_by_name_locked(outbox, name, &item)) == -EAGAIN)
        continue;
    if (error == 0) {
        binding->items[binding->len++] = item;
        ret_attachment->content = item->envelope.content;
        *ret_bytes += item->size;
    }
    pthread_mutex_unlock(&outbox->lock);
    ret_attachment->name = strdup(name);
    return error == 0 && ret_attachment->name == NULL ? -ENOMEM : error;
}

int binding_pin(struct outbox *outbox, char *const *names, size_t len, struct envelope *envelope,
                struct binding *ret, int64_t *ret_bytes, const char **ret_missing)
{
    if (len == 0)
        return 0;
    ret->items = calloc(len, sizeof(struct item *));
    envelope->attachments = calloc(len, sizeof(*envelope->attachments));
    if (ret->items == NULL || envelope->attachments == NULL)
        return -ENOMEM;
    envelope->attachments_len = len;
    int error = 0;
    for (size_t i = 0; i < len && error == 0; i++) {
        error = pin_next(outbox, names[i], ret, &envelope->attachments[i], ret_bytes);
        *ret_missing = names[i];
    }
    return error;
}

/* ================================================================ named ends */

static void set_text(char **text, const char *value)
{
    free(*text);
    *text = value == NULL ? NULL : strdup(value);
}

/* Begins a forced change. Without memory for it nothing is changed: the item stays as it is until the next
 * start. */
static int begin(struct outbox *outbox, const struct item *item, enum item_state state,
                 struct transition *transition)
{
    int error = transition_begin(outbox, item, state, transition);
    if (error != 0)
        log_error("no memory to record what became of an item of the spool");
    transition->is_forced = true;
    transition->is_own_doing = true;
    return error;
}

void settle_into_failed(struct outbox *outbox, struct item *item, enum item_state state, int http_status,
                        const char *words)
{
    _cleanup_transition_ struct transition transition;
    if (begin(outbox, item, state, &transition) != 0)
        return;
    transition.next.http_status = http_status;
    transition.next.finished_ms = outbox_realtime_ms(outbox);
    set_text(&transition.next.error, words);
    bool is_shown = !item->envelope.is_hidden;
    if (transition_commit(&transition, item) == 0 && is_shown)
        outbox_notify(outbox, EVENT_FAILED, OUTBOX_FOLDER_FAILED, item->envelope.name, NULL,
                      item->envelope.error);
    record_published(outbox, item);
}

/* A file that is never sent stays where it is: its program may want it back, as vim does its swap file. What
 * became of it is kept, so that no other name makes a message of it. */
void settle_interrupted(struct outbox *outbox, struct item *item, const char *words)
{
    _cleanup_transition_ struct transition transition = {.outbox = NULL};
    if (!item_is_never_sent(item->envelope.kind, item->envelope.name)) {
        settle_into_failed(outbox, item, ITEM_INTERRUPTED, 0, words);
        return;
    }
    if (begin(outbox, item, ITEM_ON_HOLD, &transition) != 0)
        return;
    set_text(&transition.next.error, words);
    transition_commit(&transition, item);
}

void settle_sent(struct outbox *outbox, struct item *item, int http_status, const char *id)
{
    _cleanup_transition_ struct transition transition;
    if (begin(outbox, item, ITEM_SENT, &transition) != 0)
        return;
    transition.next.http_status = http_status;
    transition.next.finished_ms = outbox_realtime_ms(outbox);
    set_text(&transition.next.error, NULL);
    set_text(&transition.next.id, id);
    if (transition_commit(&transition, item) == 0)
        outbox_notify(outbox, EVENT_SENT, OUTBOX_FOLDER_SENT, item->envelope.name, item->envelope.id, NULL);
    record_published(outbox, item);
}

void settle_uploaded(struct outbox *outbox, struct item *item, int http_status, const char *id)
{
    _cleanup_transition_ struct transition transition;
    if (begin(outbox, item, ITEM_UPLOADED, &transition) != 0)
        return;
    transition.next.attempts++;
    transition.next.http_status = http_status;
    transition.next.finished_ms = outbox_realtime_ms(outbox);
    set_text(&transition.next.error, NULL);
    set_text(&transition.next.id, id);
    bool is_shown = !item->envelope.is_hidden;
    if (transition_commit(&transition, item) == 0 && is_shown)
        outbox_notify(outbox, EVENT_UPLOADED, OUTBOX_FOLDER_ATTACHMENTS, item->envelope.name,
                      item->envelope.id, NULL);
    record_published(outbox, item);
}

void put_back_in_queue(struct outbox *outbox, struct item *item, int http_status, const char *words)
{
    _cleanup_transition_ struct transition transition;
    bool is_message = item->envelope.kind == ENVELOPE_MESSAGE;
    if (begin(outbox, item, is_message ? ITEM_QUEUED : ITEM_UPLOADING, &transition) != 0)
        return;
    if (is_message) { /* what was recorded as under way is not */
        set_text(&transition.next.request, NULL);
        transition.next.has_request = false;
    } else {
        transition.next.attempts++;
    }
    transition.next.http_status = http_status;
    set_text(&transition.next.error, words);
    transition_commit(&transition, item);
}
