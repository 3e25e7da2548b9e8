/* SPDX-License-Identifier: MIT */
/*
 * Claims, names and news: what all parts of the outbox use.
 */
#include "outbox/core.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/file_name.h"
#include "mail/receipt.h"
#include "outbox/binding.h"

int64_t core_monotonic_ms(const struct outbox *outbox)
{
    return clock_monotonic_ms(outbox->config.clock);
}

int64_t core_realtime_ms(const struct outbox *outbox)
{
    return clock_realtime_ms(outbox->config.clock);
}

bool core_trusts_keys(const struct outbox *outbox)
{
    struct mail_service *service = outbox->config.service;
    struct service_capabilities capabilities;
    if (!outbox->config.trusts_idempotency)
        return false;
    service->ops->get_capabilities(service, &capabilities);
    return capabilities.idempotency_key != CAPABILITY_ABSENT;
}

void core_broadcast_locked(struct outbox *outbox)
{
    pthread_cond_broadcast(&outbox->changed);
}

void core_wake_worker_locked(struct outbox *outbox, enum envelope_kind kind)
{
    sleepers_wake_one(&outbox->idlers[kind]);
}

void core_wake_workers_locked(struct outbox *outbox, enum envelope_kind kind)
{
    sleepers_wake_all(&outbox->idlers[kind]);
}

/* ---------------------------------------------------------------- claims */

bool core_must_wait_locked(struct item *item)
{
    if (item->claim == CLAIM_SERVICE && item->envelope.kind == ENVELOPE_ATTACHMENT && !item->is_called_off) {
        item->is_called_off = true;
        cancel_set(item->upload);
    }
    return item->claim == CLAIM_DISK || (item->claim == CLAIM_SERVICE && item->is_called_off);
}

/* Whoever called its upload off is done with it: it need not wait any longer. */
static void resume_locked(struct item *item)
{
    if (!item->is_called_off)
        return;
    item->is_called_off = false;
    item->next_attempt_ms = 0;
    backoff_reset(&item->backoff);
}

int core_claim_locked(struct outbox *outbox, struct item *item, enum item_claim claim)
{
    item_ref(item);
    while (core_must_wait_locked(item))
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

void core_unclaim_locked(struct outbox *outbox, struct item *item)
{
    item->claim = CLAIM_NONE;
    item->upload = NULL;
    binding_look_locked(outbox, item);
    if (item->is_queued)
        core_wake_worker_locked(outbox, item->envelope.kind);
    item_unref(item);
    core_broadcast_locked(outbox);
}

void core_unclaim(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    core_unclaim_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
}

void core_lend(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    item->lending = LENDING_LENT;
    core_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
}

void core_take_back(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    while (item->lending == LENDING_BORROWED)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    item->lending = LENDING_NONE;
    pthread_mutex_unlock(&outbox->lock);
}

int core_borrow_locked(struct item *item)
{
    if (item->lending != LENDING_LENT)
        return -EAGAIN;
    item->lending = LENDING_BORROWED;
    item_ref(item);
    return 0;
}

void core_give_back_locked(struct outbox *outbox, struct item *item)
{
    item->lending = LENDING_LENT;
    item_unref(item);
    core_broadcast_locked(outbox);
}

int core_claim_name(struct outbox *outbox, enum outbox_folder folder, const char *name,
                    struct item **ret_item)
{
    int error = -ENOENT;
    pthread_mutex_lock(&outbox->lock);
    for (;;) {
        struct item *item = item_table_find(&outbox->table, folder, name);
        if (item == NULL)
            break;
        error = core_claim_locked(outbox, item, CLAIM_DISK);
        if (error == 0 && item_table_find(&outbox->table, folder, name) != item) {
            core_unclaim_locked(outbox, item); /* it was renamed while we waited */
            error = -ENOENT;
            continue;
        }
        if (error == 0)
            *ret_item = item;
        if (error != -ENOENT)
            break;
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* ---------------------------------------------------------------- names */

bool core_is_receipt_name(const char *name)
{
    size_t len = strlen(name);
    size_t suffix = strlen(RECEIPT_SUFFIX);
    return len > suffix && strcmp(name + len - suffix, RECEIPT_SUFFIX) == 0;
}

bool core_is_never_sent(enum envelope_kind kind, const char *name)
{
    return file_name_is_temporary(name) || (kind == ENVELOPE_MESSAGE && file_name_is_backup(name));
}

int core_check_name(enum outbox_folder folder, const char *name)
{
    bool is_message = folder == OUTBOX_FOLDER_OUTBOX;
    if (core_is_receipt_name(name))
        return -EPERM;
    if (strlen(name) > (is_message ? FILE_NAME_MAX_BYTES : NAME_MAX_BYTES))
        return -ENAMETOOLONG;
    return (is_message ? file_name_is_text(name) : file_name_is_valid(name)) ? 0 : -EILSEQ;
}

void core_leave_ghost_locked(struct outbox *outbox, enum outbox_folder folder, const char *name,
                             const struct item *item)
{
    int64_t now_ms = core_monotonic_ms(outbox);
    item_table_leave_ghost(&outbox->table, folder, name, item, now_ms, now_ms + GHOST_MS);
}

/* ---------------------------------------------------------------- news */

void core_tell_path(struct outbox *outbox, enum event_kind kind, const char *path, const char *id,
                    const char *error)
{
    const struct event_listener *listener = &outbox->config.events;
    if (listener->notify == NULL)
        return;
    struct event event = {
        .time_ms = core_realtime_ms(outbox),
        .kind = kind,
        .path = path,
        .id = id,
        .error = error,
    };
    listener->notify(listener->context, &event);
}

void core_tell(struct outbox *outbox, enum event_kind kind, enum outbox_folder folder, const char *name,
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
    core_tell_path(outbox, kind, path, id, error);
}

void core_told(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    if (item->is_untold)
        outbox->untold--;
    item->is_untold = false;
    core_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
}
