/* SPDX-License-Identifier: MIT */
/*
 * The string map: linear probing, at most three quarters full, deleted slots kept as markers until it grows.
 */
#include "base/map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"

enum {
    FIRST_CAPACITY = 16
};

static char deleted_marker;

static uint64_t hash_key(const char *key)
{
    return hash_bytes(random_process_seed(), key, strlen(key));
}

static bool slot_is_deleted(const struct map_slot *slot)
{
    return slot->key == NULL && slot->value == &deleted_marker;
}

/* The slot of the key, or NULL. */
static struct map_slot *find_slot(const struct map *map, const char *key)
{
    if (map->capacity == 0)
        return NULL;
    size_t mask = map->capacity - 1;
    for (size_t i = hash_key(key) & mask;; i = (i + 1) & mask) {
        struct map_slot *slot = &map->slots[i];
        if (slot->key == NULL && slot->value == NULL)
            return NULL;
        if (slot->key != NULL && strcmp(slot->key, key) == 0)
            return slot;
    }
}

/* Puts a key that is known to be absent into the first free slot of a table that has one. */
static bool insert_new(struct map_slot *slots, size_t capacity, const char *key, void *value)
{
    size_t mask = capacity - 1;
    for (size_t i = hash_key(key) & mask;; i = (i + 1) & mask) {
        if (slots[i].key != NULL)
            continue;
        bool reused = slot_is_deleted(&slots[i]);
        slots[i] = (struct map_slot){.key = key, .value = value};
        return reused;
    }
}

static int make_room(struct map *map)
{
    if ((map->used + 1) * 4 <= map->capacity * 3)
        return 0;
    size_t capacity = map->capacity == 0 ? FIRST_CAPACITY : map->capacity;
    while ((map->len + 1) * 2 > capacity)
        capacity *= 2;
    struct map_slot *slots = calloc(capacity, sizeof(*slots));
    if (slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key != NULL)
            insert_new(slots, capacity, map->slots[i].key, map->slots[i].value);
    free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    map->used = map->len;
    return 0;
}

void map_release(struct map *map)
{
    free(map->slots);
    *map = (struct map){0};
}

int map_set(struct map *map, const char *key, void *value)
{
    struct map_slot *slot = find_slot(map, key);
    if (slot != NULL) {
        *slot = (struct map_slot){.key = key, .value = value};
        return 0;
    }
    int error = make_room(map);
    if (error != 0)
        return error;
    if (!insert_new(map->slots, map->capacity, key, value))
        map->used++;
    map->len++;
    return 0;
}

void *map_find(const struct map *map, const char *key)
{
    const struct map_slot *slot = find_slot(map, key);
    return slot == NULL ? NULL : slot->value;
}

void *map_remove(struct map *map, const char *key)
{
    struct map_slot *slot = find_slot(map, key);
    if (slot == NULL)
        return NULL;
    void *value = slot->value;
    *slot = (struct map_slot){.key = NULL, .value = &deleted_marker};
    map->len--;
    return value;
}

void *map_next(const struct map *map, size_t *position)
{
    while (*position < map->capacity) {
        const struct map_slot *slot = &map->slots[(*position)++];
        if (slot->key != NULL)
            return slot->value;
    }
    return NULL;
}
