/* SPDX-License-Identifier: MIT */
/*
 * A hash table of 32-bit numbers. What a number stands for, its hash and its equality are the caller's.
 * Nothing is ever removed. Growing is in two steps, so that the slow one needs no lock against readers.
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

/* What the numbers of a table stand for. */
struct number_kind {
    bool (*equals)(const void *context, uint32_t number, const void *key);
    const void *context;
};

void number_table_release(struct number_table *table);

/* The number whose key equals `key`, or NUMBER_NONE. */
uint32_t number_table_find(const struct number_table *table, const struct number_kind *kind, uint32_t hash,
                           const void *key);

/* When there is no room for `more`, *ret_larger is a copy with room, else empty: first step. Only reads. 0,
 * -ENOMEM, or -EOVERFLOW. */
int number_table_enlarge(const struct number_table *table, uint32_t more, struct number_table *ret_larger);

/* Replaces the table by the larger one, unless that is empty; takes it: second step. The caller frees what
 * was replaced (number_table_release()), once nobody looks at it. */
struct number_table number_table_exchange(struct number_table *table, struct number_table larger);

/* Adds a number that is not in it. There must be room. All bits of the hash count, the upper ones most. */
void number_table_add(struct number_table *table, uint32_t hash, uint32_t number);

#endif
