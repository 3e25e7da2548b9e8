/* SPDX-License-Identifier: MIT */
/*
 * Pins on attachments.
 */
#include "outbox/binding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/log.h"
#include "outbox/change.h"
#include "outbox/core.h"

/* ---------------------------------------------------------------- looking */

static enum binding_state state_of(const struct item *attachment)
{
    if (attachment == NULL)
        return BINDING_LOST;
    switch (attachment->state) {
    case ITEM_UPLOADED:
        return BINDING_READY;
    case ITEM_UPLOADING:
        return BINDING_UPLOADING;
    case ITEM_WRITING:
        return BINDING_WRITING;
    default:
        return BINDING_LOST;
    }
}

enum binding_state binding_state(const struct item *message)
{
    enum binding_state worst = BINDING_READY;
    for (size_t i = 0; i < message->bound_len; i++) {
        enum binding_state state = state_of(message->bound[i]);
        if (state == BINDING_LOST)
            return BINDING_LOST;
        if (state > worst)
            worst = state;
    }
    return worst;
}

const char *binding_find_lost(const struct item *message)
{
    for (size_t i = 0; i < message->bound_len; i++)
        if (state_of(message->bound[i]) == BINDING_LOST)
            return message->envelope.attachments[i].name;
    return NULL;
}

/* ---------------------------------------------------------------- loose ends */

bool binding_is_unneeded(const struct item *item)
{
    return item->envelope.is_hidden && item->users == 0 && item->writers == 0 && item->state != ITEM_GONE;
}

static bool fails_messages(const struct item *item)
{
    return item->users > 0 && state_of(item) == BINDING_LOST;
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

void binding_look_locked(struct outbox *outbox, struct item *item)
{
    bool is_unneeded = binding_is_unneeded(item);
    bool is_loose = is_unneeded || fails_messages(item);
    if (is_loose && !item->is_loose)
        add_loose_end(outbox, item);
    else if (!is_loose && item->is_loose)
        remove_loose_end(outbox, item);
    if (is_loose)
        core_wake_worker_locked(outbox, is_unneeded ? ENVELOPE_ATTACHMENT : ENVELOPE_MESSAGE);
}

void binding_forget_loose_ends(struct outbox *outbox)
{
    while (outbox->loose_ends != NULL)
        remove_loose_end(outbox, outbox->loose_ends);
}

bool binding_must_collect_locked(const struct outbox *outbox, int64_t now_ms, int64_t *ret_until_ms)
{
    for (const struct item *item = outbox->loose_ends; item != NULL; item = item->next_loose) {
        if (!binding_is_unneeded(item) || item->claim != CLAIM_NONE)
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
                               binding_state(message) != BINDING_LOST))
        message = send_queue_next(&outbox->queue, message);
    return message;
}

static struct item *claim_unneeded_locked(struct outbox *outbox)
{
    int64_t now_ms = core_monotonic_ms(outbox);
    for (struct item *item = outbox->loose_ends; item != NULL; item = item->next_loose)
        if (binding_is_unneeded(item) && item->claim == CLAIM_NONE && item->remove_again_ms <= now_ms &&
            core_claim_locked(outbox, item, CLAIM_DISK) == 0)
            return item;
    return NULL;
}

void binding_collect(struct outbox *outbox)
{
    struct item *item;
    pthread_mutex_lock(&outbox->lock);
    while ((item = claim_unneeded_locked(outbox)) != NULL) {
        pthread_mutex_unlock(&outbox->lock);
        int error = change_remove(outbox, item);
        if (error != 0)
            log_warning("a file that is no longer needed could not be removed: %s", strerror(-error));
        pthread_mutex_lock(&outbox->lock);
        if (error != 0)
            item->remove_again_ms = core_monotonic_ms(outbox) + SAVE_AGAIN_MS;
        core_unclaim_locked(outbox, item);
    }
    pthread_mutex_unlock(&outbox->lock);
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
    binding_look_locked(outbox, attachment);
    item_unref(attachment);
}

void binding_unpin_locked(struct outbox *outbox, struct binding *binding)
{
    for (size_t i = 0; i < binding->len; i++) {
        binding->items[i]->pending--;
        unpin(outbox, binding->items[i]);
    }
    if (binding->len > 0)
        core_broadcast_locked(outbox);
    free(binding->items);
    *binding = (struct binding){NULL, 0};
}

void binding_move_locked(struct binding *binding, struct item *message)
{
    for (size_t i = 0; i < binding->len; i++)
        binding->items[i]->pending--;
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

/* A file that is held (empty, or of a never-sent name) is no attachment. */
static struct item *find_attachment(struct outbox *outbox, const char *name)
{
    struct item *item = item_table_find(&outbox->table, OUTBOX_FOLDER_ATTACHMENTS, name);
    return state_of(item) == BINDING_LOST ? NULL : item;
}

/* One whose content is just being exchanged must be waited for, without a pin on another meanwhile: whoever
 * exchanges waits for pins. */
static const char *find_all_locked(struct outbox *outbox, char *const *names, size_t len, struct item **items)
{
    for (size_t i = 0; i < len; i++) {
        items[i] = find_attachment(outbox, names[i]);
        if (items[i] == NULL)
            return names[i];
        if (items[i]->claim == CLAIM_DISK) {
            pthread_cond_wait(&outbox->changed, &outbox->lock);
            i = (size_t)-1;
        }
    }
    return NULL;
}

int binding_pin_locked(struct outbox *outbox, char *const *names, size_t len, struct envelope *envelope,
                       struct binding *ret, int64_t *ret_bytes, const char **ret_missing)
{
    if (len == 0)
        return 0;
    _cleanup_free_ struct item **items = calloc(len, sizeof(struct item *));
    envelope->attachments = calloc(len, sizeof(*envelope->attachments));
    if (items == NULL || envelope->attachments == NULL)
        return -ENOMEM;
    envelope->attachments_len = len;
    for (size_t i = 0; i < len; i++) {
        envelope->attachments[i].name = strdup(names[i]);
        if (envelope->attachments[i].name == NULL)
            return -ENOMEM;
    }
    *ret_missing = find_all_locked(outbox, names, len, items);
    if (*ret_missing != NULL)
        return -ENODATA;
    for (size_t i = 0; i < len; i++) {
        envelope->attachments[i].content = items[i]->envelope.content;
        *ret_bytes += items[i]->size;
        items[i]->pending++;
        pin(&items[i], items[i]);
    }
    *ret = (struct binding){TAKE_PTR(items), len};
    return 0;
}

/* After a crash inside binding_split() two items have the same content: the hidden one is meant to serve. */
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

/* ---------------------------------------------------------------- splitting */

static void move_pins_locked(struct outbox *outbox, struct item *from, struct item *to)
{
    for (struct item *message = send_queue_next(&outbox->queue, NULL); message != NULL;
         message = send_queue_next(&outbox->queue, message)) {
        for (size_t i = 0; i < message->bound_len; i++) {
            if (message->bound[i] != from)
                continue;
            pin(&message->bound[i], to);
            unpin(outbox, from);
        }
    }
}

/* The copy is on disk before anything of the original changes, and messages name contents, not items: none of
 * their envelopes has to be written. What fails is undone: whoever goes on with the original must not find it
 * cut. */
static int save_split(struct change *change, struct item *copy, struct change *next, struct item *item,
                      off_t keep_bytes)
{
    struct spool *spool = change->outbox->spool;
    int error = change_save(change, copy);
    crash_point("split_envelope");
    if (error == 0)
        error = spool_split_data(spool, item->number, copy->number, keep_bytes);
    crash_point("split_data");
    if (error == 0 && next != NULL)
        error = change_save(next, item);
    if (error != 0)
        spool_undo_split(spool, item->number, copy->number);
    return error;
}

static struct item *new_copy(const struct item *item, uint64_t number)
{
    struct item *copy = item_new(number);
    if (copy == NULL)
        return NULL;
    copy->size = item->size;
    copy->mtime = item->mtime;
    return copy;
}

/* In the table first, as gone, so that nothing but the disk can fail later; and claimed, like whatever
 * changes. */
static int add_copy(struct outbox *outbox, struct item *copy, struct change *next, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    while (item->pending > 0)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    int error = next == NULL ? 0 : change_reserve_locked(next, item);
    if (error == 0)
        error = item_table_add(&outbox->table, copy);
    if (error == 0) {
        item_ref(copy);
        copy->claim = CLAIM_DISK;
    } else {
        item_unref(copy);
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

int binding_split(struct outbox *outbox, struct item *item, off_t keep_bytes, struct change *next)
{
    _cleanup_change_ struct change change = {.outbox = NULL};
    uint64_t number;
    int error = spool_take_number(outbox->spool, &number);
    error = error != 0 ? error : change_begin(outbox, item, item->state, &change);
    if (error != 0)
        return error;
    change.next.number = number;
    change.next.is_hidden = true;
    struct item *copy = new_copy(item, number);
    error = copy == NULL ? -ENOMEM : add_copy(outbox, copy, next, item);
    if (error != 0)
        return error;

    error = save_split(&change, copy, next, item, keep_bytes);
    pthread_mutex_lock(&outbox->lock);
    item->generation++; /* where it was undone, too: somebody may have opened what was there meanwhile */
    if (error == 0) {
        change_apply_locked(&change, copy);
        move_pins_locked(outbox, item, copy);
        if (next != NULL)
            change_apply_locked(next, item);
    } else {
        item_table_remove(&outbox->table, copy);
        item_unref(copy);
    }
    core_unclaim_locked(outbox, copy);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}
