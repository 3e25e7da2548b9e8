/* SPDX-License-Identifier: MIT */
/*
 * What is left of an item whose content goes: nothing, or its envelope, where the content may have been sent
 * under its idempotency key. Keys of content that went back to drafts/ are remembered by items without
 * content, in the state ITEM_DRAFTED; those of messages that were put on hold after they may have been sent,
 * as by an editor that renames the old text to a backup, by these. The same content, handed in again, takes
 * the key over, once.
 */
#include "outbox/removal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "outbox/item.h"
#include "outbox/transition.h"

enum {
    MEMORIES_MAX = 1000,
    REMOVE_AGAIN_MS = 10 * 1000, /* until a removal that the disk did not let through is tried again */
};

/* ================================================================ keys */

bool key_memory_is_needed(const struct item *item)
{
    return item->envelope.kind == ENVELOPE_MESSAGE && item->state != ITEM_SENT &&
           item->envelope.key[0] != '\0' && item->envelope.digest[0] != '\0' &&
           (item->envelope.attempts > 0 || item->envelope.was_unknown || item_state_is_failure(item->state) ||
            item->state == ITEM_ON_HOLD);
}

/* The item that remembers the key of this content, or NULL. The lock is held. */
static struct item *find_memory_locked(const struct outbox *outbox, const char *digest)
{
    size_t position = 0;
    struct item *item;
    if (outbox->memories == 0)
        return NULL;
    while ((item = map_next(&outbox->table.by_number, &position)) != NULL)
        if (item_remembers_key(item) && strcmp(item->envelope.digest, digest) == 0)
            return item;
    return NULL;
}

static int forget_key(struct outbox *outbox, struct item *held)
{
    _cleanup_transition_ struct transition transition = {.outbox = NULL};
    int error = transition_begin(outbox, held, held->state, &transition);
    if (error != 0)
        return error;
    transition.next.key[0] = '\0';
    transition.next.digest[0] = '\0';
    transition.next.was_unknown = false;
    return transition_commit(&transition, held);
}

static int replace_text(char **text, const char *by)
{
    char *copy = by == NULL ? NULL : strdup(by);
    if (by != NULL && copy == NULL)
        return -ENOMEM;
    free(*text);
    *text = copy;
    return 0;
}

/* With the key goes what its request said that is not in the content. */
static int take_key(const struct envelope *memory, struct envelope *next)
{
    int error = replace_text(&next->replies_to, memory->replies_to);
    for (size_t i = 0; i < memory->part_ids_len && i < next->part_ids_len && error == 0; i++)
        if (memory->part_ids[i] != NULL)
            error = replace_text(&next->part_ids[i], memory->part_ids[i]);
    memcpy(next->key, memory->key, sizeof(next->key));
    next->was_unknown = memory->was_unknown;
    return error;
}

int key_memory_take(struct outbox *outbox, struct envelope *next, bool may_wait, struct item **ret_memory)
{
    *ret_memory = NULL;
    struct item *memory;
    pthread_mutex_lock(&outbox->lock);
    while ((memory = find_memory_locked(outbox, next->digest)) != NULL && memory->claim != CLAIM_NONE &&
           may_wait)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    if (memory != NULL && (memory->claim != CLAIM_NONE || claim_take_locked(outbox, memory, CLAIM_DISK) != 0))
        memory = NULL;
    pthread_mutex_unlock(&outbox->lock);
    if (memory == NULL)
        return 0;
    int error = take_key(&memory->envelope, next);
    if (error != 0)
        claim_release(outbox, memory);
    else
        *ret_memory = memory;
    return error;
}

void key_memory_forget(struct outbox *outbox, struct item *memory)
{
    int error =
        memory->state == ITEM_DRAFTED ? transition_remove(outbox, memory) : forget_key(outbox, memory);
    if (error != 0)
        log_warning("a remembered idempotency key could not be removed: %s", strerror(-error));
    claim_release(outbox, memory);
}

static struct item *claim_oldest_locked(struct outbox *outbox)
{
    size_t position = 0;
    struct item *oldest = NULL;
    struct item *item;
    while ((item = map_next(&outbox->table.by_number, &position)) != NULL)
        if (item->state == ITEM_DRAFTED && item->claim == CLAIM_NONE &&
            (oldest == NULL || item->envelope.order < oldest->envelope.order))
            oldest = item;
    return oldest != NULL && claim_take_locked(outbox, oldest, CLAIM_DISK) == 0 ? oldest : NULL;
}

/* Drops the oldest remembered key if there are too many. */
static void prune_memories(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    struct item *item = outbox->memories > MEMORIES_MAX ? claim_oldest_locked(outbox) : NULL;
    pthread_mutex_unlock(&outbox->lock);
    if (item != NULL)
        key_memory_forget(outbox, item);
}

/* ================================================================ removing */

void removal_content_is_gone(struct outbox *outbox, struct item *item)
{
    _cleanup_transition_ struct transition transition = {.outbox = NULL};
    int error = 0;
    if (!key_memory_is_needed(item)) {
        error = transition_remove(outbox, item);
    } else {
        error = transition_begin(outbox, item, ITEM_DRAFTED, &transition);
        envelope_clear_outcome(&transition.next);
        transition.next.was_unknown = item_may_have_been_sent(item);
        transition.next.is_hidden = false; /* else it would be collected */
        transition.is_forced = true;
        error = error != 0 ? error : transition_commit(&transition, item);
        prune_memories(outbox);
    }
    if (error != 0)
        log_warning("the spool could not record that a file was taken out: %s", strerror(-error));
}

int removal_drop_content(struct outbox *outbox, struct item *item)
{
    int error = transition_remove_superseded(outbox, item);
    if (error == 0)
        error = spool_remove_data(outbox->spool, item->number);
    if (error != 0 && spool_has_data(outbox->spool, item->number))
        return error;
    removal_content_is_gone(outbox, item);
    return 0;
}

static struct item *claim_unneeded_locked(struct outbox *outbox)
{
    int64_t now_ms = outbox_monotonic_ms(outbox);
    for (struct item *item = outbox->loose_ends; item != NULL; item = item->next_loose)
        if (item_is_unneeded(item) && item->claim == CLAIM_NONE && item->remove_again_ms <= now_ms &&
            claim_take_locked(outbox, item, CLAIM_DISK) == 0)
            return item;
    return NULL;
}

void removal_collect(struct outbox *outbox)
{
    struct item *item;
    pthread_mutex_lock(&outbox->lock);
    while ((item = claim_unneeded_locked(outbox)) != NULL) {
        pthread_mutex_unlock(&outbox->lock);
        int error =
            item_remembers_key(item) ? removal_drop_content(outbox, item) : transition_remove(outbox, item);
        if (error != 0)
            log_warning("a file that is no longer needed could not be removed: %s", strerror(-error));
        pthread_mutex_lock(&outbox->lock);
        if (item_is_unneeded(item))
            item->remove_again_ms = outbox_monotonic_ms(outbox) + REMOVE_AGAIN_MS;
        claim_release_locked(outbox, item);
    }
    pthread_mutex_unlock(&outbox->lock);
}
