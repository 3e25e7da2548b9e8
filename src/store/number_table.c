/* SPDX-License-Identifier: MIT */
/*
 * Linear probing, at most four fifths full. The first slot for a number is its hash scaled to the capacity.
 * So the capacity need not be a power of two, and a growing table is copied from front to back, which the
 * CPU's caches like.
 */
#include "store/number_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_CAPACITY = 16,
    LARGE_CAPACITY = 1 << 20, /* a larger table grows by a quarter instead of twofold, to save memory */
};

void number_table_release(struct number_table *table)
{
    free(table->slots);
    *table = (struct number_table){0};
}

static uint32_t first_slot(const struct number_table *table, uint32_t hash)
{
    return (uint32_t)((uint64_t)hash * table->capacity >> 32);
}

static uint32_t next_slot(const struct number_table *table, uint32_t slot)
{
    return slot + 1 == table->capacity ? 0 : slot + 1;
}

uint32_t number_table_find(const struct number_table *table, const struct number_kind *kind, uint32_t hash,
                           const void *key)
{
    if (table->capacity == 0)
        return NUMBER_NONE;
    for (uint32_t i = first_slot(table, hash); table->slots[i].number != NUMBER_NONE; i = next_slot(table, i))
        if (table->slots[i].hash == hash && kind->equals(kind->context, table->slots[i].number, key))
            return table->slots[i].number;
    return NUMBER_NONE;
}

void number_table_add(struct number_table *table, uint32_t hash, uint32_t number)
{
    uint32_t i = first_slot(table, hash);
    while (table->slots[i].number != NUMBER_NONE)
        i = next_slot(table, i);
    table->slots[i] = (struct number_slot){.hash = hash, .number = number};
    table->used++;
}

/* Returns the least capacity for that many numbers, or that after the usual growth if it is more.
 */
static uint64_t capacity_for(const struct number_table *table, uint64_t numbers)
{
    uint64_t least = numbers + numbers / 4 + 1;
    uint64_t usual = table->capacity;
    usual += table->capacity < LARGE_CAPACITY ? table->capacity : table->capacity / 4;
    if (least <= table->capacity)
        return table->capacity;
    if (usual < FIRST_CAPACITY)
        usual = FIRST_CAPACITY;
    return least > usual ? least : usual;
}

int number_table_reserve(struct number_table *table, uint32_t more)
{
    uint64_t capacity = capacity_for(table, (uint64_t)table->used + more);
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
        if (table->slots[i].number != NUMBER_NONE)
            number_table_add(&larger, table->slots[i].hash, table->slots[i].number);
    free(table->slots);
    *table = larger;
    return 0;
}
