/* SPDX-License-Identifier: MIT */
/*
 * An inbox in the upper half, a number of lookups in the lower. Counts that threads take from each other are
 * few.
 */
#include "tree/attribute_demand.h"

void attribute_demand_note(struct attribute_demand *demand, uint32_t inbox)
{
    uint64_t first = (uint64_t)inbox << 32;
    uint64_t now = atomic_load_explicit(&demand->inbox_and_lookups, memory_order_relaxed);
    if (now >> 32 != inbox)
        now = first;
    if (now < first + LOOKUPS_OF_DEMAND)
        atomic_store_explicit(&demand->inbox_and_lookups, now + 1, memory_order_relaxed);
}

bool attribute_demand_is_seen(const struct attribute_demand *demand, uint32_t inbox)
{
    uint64_t now = atomic_load_explicit(&demand->inbox_and_lookups, memory_order_relaxed);
    return now == ((uint64_t)inbox << 32) + LOOKUPS_OF_DEMAND;
}
