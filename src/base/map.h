/* SPDX-License-Identifier: MIT */
/*
 * A hash map from strings to pointers, with open addressing. Keys are borrowed: each must live, unchanged, as
 * long as its entry (usually it is a field of the value). The hash is seeded at random, for keys come from
 * strangers.
 */
#ifndef INBOXFS_BASE_MAP_H
#define INBOXFS_BASE_MAP_H

#include <stddef.h>

struct map_slot {
    const char *key; /* NULL: never used, or deleted when value is not NULL */
    void *value;
};

struct map {
    struct map_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t len;      /* live entries */
    size_t used;     /* live and deleted slots */
};

/* An empty map is all zeros. Values are not freed. */
void map_release(struct map *map);

/* Adds, or replaces the key and value of, an entry. 0 or -ENOMEM. `value` must not be NULL. */
int map_set(struct map *map, const char *key, void *value);

/* The value, or NULL. */
void *map_find(const struct map *map, const char *key);

/* Removes an entry and returns its value, or NULL. */
void *map_remove(struct map *map, const char *key);

/* Walks over all entries, in no order: start with *position 0; NULL at the end. Removing the entry just
 * returned is allowed, adding is not. */
void *map_next(const struct map *map, size_t *position);

#endif
