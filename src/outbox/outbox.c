/* SPDX-License-Identifier: MIT */
/*
 * Frees the outbox, and answers its queries: files by name, listings, the status. Opening is in recovery.c,
 * starting and stopping in worker.c, files in file.c, renames in move.c, fsync of a folder in barrier.c.
 */
#include "outbox/outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "mail/receipt.h"
#include "outbox/outbox_private.h"
#include "outbox/writer_fate.h"

void outbox_free(struct outbox *outbox)
{
    if (outbox == NULL)
        return;
    item_table_release(&outbox->table);
    spool_free(outbox->spool);
    pthread_cond_destroy(&outbox->changed);
    send_queue_release(&outbox->queue);
    pthread_mutex_destroy(&outbox->lock);
    free(outbox);
}

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

bool outbox_is_being_written_locked(const struct outbox *outbox, uint64_t number)
{
    const struct item *attachment = item_table_get(&outbox->table, number);
    return attachment != NULL && attachment->row.state == ITEM_WRITING;
}

void outbox_notify_path(struct outbox *outbox, enum event_kind kind, const char *path, const char *id,
                        const char *error)
{
    const struct event_listener *listener = &outbox->config.events;
    const struct event event = {
        .time_ms = outbox_realtime_ms(outbox), .kind = kind, .path = path, .id = id, .error = error};
    if (listener->notify != NULL)
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

static bool stat_locked(const struct item *item, enum outbox_aspect aspect, struct outbox_stat *ret)
{
    if (item == NULL || (aspect == OUTBOX_RECEIPT && !item_states[item->row.state].has_receipt))
        return false;
    item_stat(item, aspect, ret);
    return true;
}

bool outbox_find(struct outbox *outbox, enum outbox_folder folder, const char *name, struct outbox_stat *ret)
{
    bool is_receipt = item_is_receipt_name(name);
    size_t len = strlen(name) - (is_receipt ? strlen(RECEIPT_SUFFIX) : 0);
    _cleanup_free_ char *base = g_strndup(name, len);
    LOCK_GUARD(&outbox->lock);
    return stat_locked(item_table_find(&outbox->table, folder, base),
                       is_receipt ? OUTBOX_RECEIPT : OUTBOX_CONTENT, ret);
}

bool outbox_get(struct outbox *outbox, uint64_t number, enum outbox_aspect aspect, struct outbox_stat *ret)
{
    LOCK_GUARD(&outbox->lock);
    return stat_locked(item_table_get(&outbox->table, number), aspect, ret);
}

char *outbox_copy_id(struct outbox *outbox, uint64_t number)
{
    LOCK_GUARD(&outbox->lock);
    const struct item *item = item_table_get(&outbox->table, number);
    return item == NULL ? NULL : g_strdup(item->row.id);
}

bool outbox_has_id(struct outbox *outbox, enum outbox_folder folder, const char *id)
{
    LOCK_GUARD(&outbox->lock);
    return item_table_has_id(&outbox->table, folder, id);
}

int64_t outbox_folder_changed_ms(struct outbox *outbox, enum outbox_folder folder)
{
    LOCK_GUARD(&outbox->lock);
    return outbox->table.folders[folder].changed_ms;
}

static int compare_entries(const void *one, const void *other)
{
    const struct outbox_entry *a = one;
    const struct outbox_entry *b = other;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    return (int)a->stat.aspect - (int)b->stat.aspect;
}

static void add_entry(struct outbox_listing *listing, const struct item *item, enum outbox_aspect aspect)
{
    struct outbox_entry *entry = &listing->entries[listing->len++];
    entry->order = item->row.position;
    item_stat(item, aspect, &entry->stat);
    entry->name = g_strconcat(item->row.name, aspect == OUTBOX_RECEIPT ? RECEIPT_SUFFIX : NULL, NULL);
}

void outbox_list(struct outbox *outbox, enum outbox_folder folder, struct outbox_listing *ret)
{
    GHashTable *names = outbox->table.folders[folder].names;
    GHashTableIter position;
    const struct item *item;
    pthread_mutex_lock(&outbox->lock);
    ret->len = 0;
    ret->entries = g_new(struct outbox_entry, 2 * g_hash_table_size(names) + 1);
    g_hash_table_iter_init(&position, names);
    while ((item = item_table_next(&position)) != NULL) {
        add_entry(ret, item, OUTBOX_CONTENT);
        if (item_states[item->row.state].has_receipt)
            add_entry(ret, item, OUTBOX_RECEIPT);
    }
    pthread_mutex_unlock(&outbox->lock);
    qsort(ret->entries, ret->len, sizeof(*ret->entries), compare_entries);
}

void outbox_listing_release(struct outbox_listing *listing)
{
    for (size_t i = 0; i < listing->len; i++)
        free(listing->entries[i].name);
    free(listing->entries);
    *listing = (struct outbox_listing){NULL, 0};
}

void outbox_wake(struct outbox *outbox)
{
    LOCK_GUARD(&outbox->lock);
    send_queue_wake_all(&outbox->queue);
}

void outbox_get_status(struct outbox *outbox, struct outbox_status *ret)
{
    *ret = (struct outbox_status){.daily_limit = outbox->config.daily_limit,
                                  .unseen = writer_fate_unseen_reason()};
    LOCK_GUARD(&outbox->lock);
    ret->sent_today = quota_get_count(&outbox->queue.quota, outbox_realtime_ms(outbox));
    ret->queued = outbox->queue.handed_in[ITEM_MESSAGE].length + outbox->queue.waiting.length;
    ret->uploading = outbox->queue.handed_in[ITEM_ATTACHMENT].length;
    ret->failed = g_hash_table_size(outbox->table.folders[OUTBOX_FOLDER_FAILED].names);
    ret->sent = g_hash_table_size(outbox->table.folders[OUTBOX_FOLDER_SENT].names);
    ret->next_attempt_ms = send_queue_next_try_ms(&outbox->queue);
    for (size_t i = 0; i < ITEM_KINDS; i++) {
        const struct suspension *suspension = &outbox->queue.suspensions[i];
        ret->is_paused = ret->is_paused || suspension->reason != SUSPENSION_NONE;
        if (ret->error[0] == '\0')
            snprintf(ret->error, sizeof(ret->error), "%s", suspension->error);
    }
}
