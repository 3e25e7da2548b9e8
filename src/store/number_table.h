/* SPDX-License-Identifier: MIT */
/*
 * A hash table of 32-bit numbers. Each number stands for an object, which only the caller can hash and
 * compare. Numbers are never removed. A slot has the hash beside the number, so that objects are compared
 * only when the whole hash is equal.
 */
#ifndef INBOXFS_STORE_NUMBER_TABLE_H
#define INBOXFS_STORE_NUMBER_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define NUMBER_NONE UINT32_MAX

struct number_slot {
    uint32_t hash;
    uint32_t number; /* NUMBER_NONE if the slot is free */
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

/* Returns the number whose object equals `key`, or NUMBER_NONE. */
uint32_t number_table_find(const struct number_table *table, const struct number_kind *kind, uint32_t hash,
                           const void *key);

/* Makes room for `more` numbers. Return: 0; -ENOMEM; -EOVERFLOW when the table would be too large. */
int number_table_reserve(struct number_table *table, uint32_t more);

/* Adds a number that the table does not have. There must be room. The upper bits of the hash choose the slot.
 */
void number_table_add(struct number_table *table, uint32_t hash, uint32_t number);

#endif
