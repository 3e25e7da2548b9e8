/* SPDX-License-Identifier: MIT */
/*
 * Memories of keys.
 */
#include "outbox/key_memory.h"

#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "outbox/change.h"
#include "outbox/core.h"

enum {
    MEMORIES_MAX = 1000
};

bool key_memory_is_needed(const struct item *item)
{
    return item->envelope.kind == ENVELOPE_MESSAGE && item->state != ITEM_SENT &&
           item->envelope.key[0] != '\0' && item->envelope.digest[0] != '\0' &&
           (item->envelope.attempts > 0 || item->envelope.was_unknown || item_state_is_failure(item->state) ||
            item->state == ITEM_HELD);
}

struct item *key_memory_claim_locked(struct outbox *outbox, const char *digest)
{
    size_t position = 0;
    struct item *item;
    if (outbox->memories == 0)
        return NULL;
    while ((item = map_next(&outbox->table.by_number, &position)) != NULL)
        if (item->state == ITEM_DRAFTED && item->claim == CLAIM_NONE &&
            strcmp(item->envelope.digest, digest) == 0 && core_claim_locked(outbox, item, CLAIM_DISK) == 0)
            return item;
    return NULL;
}

void key_memory_forget(struct outbox *outbox, struct item *memory)
{
    int error = change_remove(outbox, memory);
    if (error != 0)
        log_warning("a remembered idempotency key could not be removed: %s", strerror(-error));
    core_unclaim(outbox, memory);
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
    return oldest != NULL && core_claim_locked(outbox, oldest, CLAIM_DISK) == 0 ? oldest : NULL;
}

void key_memory_prune(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    struct item *item = outbox->memories > MEMORIES_MAX ? claim_oldest_locked(outbox) : NULL;
    pthread_mutex_unlock(&outbox->lock);
    if (item != NULL)
        key_memory_forget(outbox, item);
}
