/* SPDX-License-Identifier: MIT */
/*
 * A hash table of 32-bit numbers. The caller knows what a number stands for, its hash and its equality. No
 * number is ever removed.
 *
 * A slot holds the hash beside the number: what a number stands for is looked at only where the whole hash is
 * the same, which for something that is not in the table is nearly never.
 */
#ifndef INBOXFS_STORE_NUMBER_TABLE_H
#define INBOXFS_STORE_NUMBER_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define NUMBER_NONE UINT32_MAX

struct number_slot {
    uint32_t hash;
    uint32_t number; /* NUMBER_NONE: the slot is free */
};

struct number_table { /* empty: all zeros */
    struct number_slot *slots;
    uint32_t capacity;
    uint32_t used;
};

/* How the numbers of a table are compared with a key. */
struct number_kind {
    bool (*equals)(const void *context, uint32_t number, const void *key);
    const void *context;
};

void number_table_release(struct number_table *table);

/* The number whose key equals `key`, or NUMBER_NONE. */
uint32_t number_table_find(const struct number_table *table, const struct number_kind *kind, uint32_t hash,
                           const void *key);

/* Makes room for `more` numbers. 0, -ENOMEM, or -EOVERFLOW. */
int number_table_reserve(struct number_table *table, uint32_t more);

/* Adds a number that is not in it. There must be room. All bits of the hash count, the upper ones most. */
void number_table_add(struct number_table *table, uint32_t hash, uint32_t number);

#endif
