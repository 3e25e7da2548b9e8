/* SPDX-License-Identifier: MIT */
/*
 * Closes on their way to the release.
 */
#include "outbox/closing.h"

#include <errno.h>

#include "outbox/core.h"
#include "outbox/handle.h"

static struct closing_list *list_of(const struct outbox_handle *handle)
{
    return &handle->outbox->closing[handle->kind];
}

void closing_remove_locked(struct outbox_handle *handle)
{
    struct closing *closing = &handle->closing;
    struct closing_list *list = list_of(handle);
    if (closing->number == 0)
        return;
    *(closing->previous == NULL ? &list->first : &closing->previous->closing.next) = closing->next;
    *(closing->next == NULL ? &list->last : &closing->next->closing.previous) = closing->previous;
    *closing = (struct closing){.number = 0};
    core_broadcast_locked(handle->outbox);
}

void closing_add_locked(struct outbox_handle *handle)
{
    struct closing_list *list = list_of(handle);
    closing_remove_locked(handle);
    handle->closing = (struct closing){
        .previous = list->last,
        .number = ++list->count,
        .closed_ms = core_monotonic_ms(handle->outbox),
    };
    *(list->last == NULL ? &list->first : &list->last->closing.next) = handle;
    list->last = handle;
}

void closing_begin_release_locked(struct outbox_handle *handle)
{
    if (handle->closing.number != 0)
        handle->closing.is_releasing = true;
}

/* How long to wait for the handles closed up to `number`: 0 where there is none to wait for. */
static int64_t find_until_locked(const struct closing_list *list, uint64_t number, const struct item *item,
                                 int64_t now_ms)
{
    int64_t until_ms = 0;
    for (const struct outbox_handle *handle = list->first; handle != NULL; handle = handle->closing.next) {
        const struct closing *closing = &handle->closing;
        int64_t given_up_ms = closing->is_releasing ? CLOCK_FOREVER : closing->closed_ms + RELEASE_WAIT_MS;
        if (closing->number > number)
            break;
        if ((item == NULL || handle->item == item) && given_up_ms > now_ms && given_up_ms > until_ms)
            until_ms = given_up_ms;
    }
    return until_ms;
}

static int wait_for(struct outbox *outbox, enum envelope_kind kind, const struct item *item,
                    struct cancel *cancel)
{
    const struct closing_list *list = &outbox->closing[kind];
    int64_t until_ms;
    cancel_bind(cancel, &outbox->changed, &outbox->lock);
    pthread_mutex_lock(&outbox->lock);
    uint64_t number = list->count;
    while (!cancel_is_set(cancel) && !outbox->is_stopping &&
           (until_ms = find_until_locked(list, number, item, core_monotonic_ms(outbox))) != 0)
        clock_wait(outbox->config.clock, &outbox->changed, &outbox->lock, until_ms);
    pthread_mutex_unlock(&outbox->lock);
    cancel_unbind(cancel);
    return cancel_is_set(cancel) ? -EINTR : 0;
}

int closing_wait(struct outbox *outbox, enum envelope_kind kind, struct cancel *cancel)
{
    return wait_for(outbox, kind, NULL, cancel);
}

int closing_wait_item(struct outbox *outbox, const struct item *item, struct cancel *cancel)
{
    pthread_mutex_lock(&outbox->lock);
    enum envelope_kind kind = item->envelope.kind;
    pthread_mutex_unlock(&outbox->lock);
    return wait_for(outbox, kind, item, cancel);
}

int closing_wait_before_change(struct outbox *outbox, const struct item *item, struct cancel *cancel)
{
    int error = closing_wait_item(outbox, item, cancel);
    pthread_mutex_lock(&outbox->lock);
    bool is_attachment = item->envelope.kind == ENVELOPE_ATTACHMENT;
    pthread_mutex_unlock(&outbox->lock);
    return error == 0 && is_attachment ? closing_wait(outbox, ENVELOPE_MESSAGE, cancel) : error;
}
