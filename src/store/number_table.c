/* SPDX-License-Identifier: MIT */
/*
 * Linear probing, at most half full: what is looked for mostly is not there (a new email, a free name), and
 * each step on the way there would be a look at another entry.
 */
#include "store/number_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_CAPACITY = 16
};

void number_table_release(struct number_table *table)
{
    free(table->slots);
    *table = (struct number_table){0};
}

uint32_t number_table_find(const struct number_table *table, const struct number_kind *kind, uint32_t hash,
                           const void *key)
{
    if (table->capacity == 0)
        return NUMBER_NONE;
    uint32_t mask = table->capacity - 1;
    for (uint32_t i = hash & mask; table->slots[i] != NUMBER_NONE; i = (i + 1) & mask)
        if (kind->equals(kind->context, table->slots[i], key))
            return table->slots[i];
    return NUMBER_NONE;
}

void number_table_add(struct number_table *table, uint32_t hash, uint32_t number)
{
    uint32_t mask = table->capacity - 1;
    uint32_t i = hash & mask;
    while (table->slots[i] != NUMBER_NONE)
        i = (i + 1) & mask;
    table->slots[i] = number;
    table->used++;
}

int number_table_enlarge(const struct number_table *table, const struct number_kind *kind, uint32_t more,
                         struct number_table *ret_larger)
{
    *ret_larger = (struct number_table){0};
    uint64_t wanted = ((uint64_t)table->used + more) * 2;
    uint64_t capacity = table->capacity == 0 ? FIRST_CAPACITY : table->capacity;
    while (capacity < wanted)
        capacity *= 2;
    if (capacity == table->capacity)
        return 0;
    if (capacity > UINT32_MAX)
        return -EOVERFLOW;
    struct number_table larger = {.capacity = (uint32_t)capacity};
    larger.slots = malloc(larger.capacity * sizeof(*larger.slots));
    if (larger.slots == NULL)
        return -ENOMEM;
    memset(larger.slots, 0xff, larger.capacity * sizeof(*larger.slots));
    for (uint32_t i = 0; i < table->capacity; i++)
        if (table->slots[i] != NUMBER_NONE)
            number_table_add(&larger, kind->hash(kind->context, table->slots[i]), table->slots[i]);
    *ret_larger = larger;
    return 0;
}

struct number_table number_table_exchange(struct number_table *table, struct number_table larger)
{
    if (larger.slots == NULL)
        return (struct number_table){0};
    struct number_table old = *table;
    *table = larger;
    return old;
}
