/* SPDX-License-Identifier: MIT */
/*
 * ETags by query.
 */
#include "api/etag_memory.h"

#include <stdlib.h>
#include <string.h>

struct etag_entry {
    char etag[HTTP_ETAG_MAX_BYTES];
    unsigned int count;
    char target[];
};

void etag_memory_init(struct etag_memory *memory)
{
    *memory = (struct etag_memory){.entries = {0}};
    pthread_mutex_init(&memory->lock, NULL);
}

void etag_memory_release(struct etag_memory *memory)
{
    size_t position = 0;
    struct etag_entry *entry;
    while ((entry = map_next(&memory->entries, &position)) != NULL)
        free(entry);
    map_release(&memory->entries);
    pthread_mutex_destroy(&memory->lock);
}

bool etag_memory_find(struct etag_memory *memory, const char *target, char ret_etag[HTTP_ETAG_MAX_BYTES],
                      unsigned int *ret_count)
{
    pthread_mutex_lock(&memory->lock);
    const struct etag_entry *entry = map_find(&memory->entries, target);
    if (entry != NULL) {
        memcpy(ret_etag, entry->etag, HTTP_ETAG_MAX_BYTES);
        *ret_count = entry->count;
    }
    pthread_mutex_unlock(&memory->lock);
    return entry != NULL;
}

static void set_locked(struct etag_memory *memory, const char *target, const char *etag, unsigned int count)
{
    free(map_remove(&memory->entries, target));
    if (*etag == '\0' || strlen(etag) >= HTTP_ETAG_MAX_BYTES || memory->entries.len >= ETAG_QUERIES_MAX)
        return;
    size_t target_size = strlen(target) + 1;
    struct etag_entry *entry = calloc(1, sizeof(*entry) + target_size);
    if (entry == NULL)
        return;
    memcpy(entry->etag, etag, strlen(etag) + 1);
    memcpy(entry->target, target, target_size);
    entry->count = count;
    if (map_set(&memory->entries, entry->target, entry) < 0)
        free(entry);
}

void etag_memory_set(struct etag_memory *memory, const char *target, const char *etag, unsigned int count)
{
    pthread_mutex_lock(&memory->lock);
    set_locked(memory, target, etag, count);
    pthread_mutex_unlock(&memory->lock);
}
