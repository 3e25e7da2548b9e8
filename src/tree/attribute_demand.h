/* SPDX-License-Identifier: MIT */
/*
 * Whether the emails of an inbox are asked for one by one. A listing tells the kernel the attributes of what
 * it names, so that nobody has to ask for them; but each costs the kernel a kilobyte and two microseconds,
 * for nothing where names are all that is wanted. So in a very large inbox the first emails alone are listed
 * with them, and the others, too, once enough have been looked up to see that somebody wants them.
 */
#ifndef INBOXFS_TREE_ATTRIBUTE_DEMAND_H
#define INBOXFS_TREE_ATTRIBUTE_DEMAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LISTED_WITH_ATTRIBUTES = 100 * 1000, /* emails, whether or not anybody asks */
    LOOKUPS_OF_DEMAND = 256,
};

/* Of the inbox in which emails were looked up last. */
struct attribute_demand { /* nothing: all zeros */
    atomic_uint_least64_t inbox_and_lookups;
};

/* An email of the inbox was looked up by its name. From any thread. */
void attribute_demand_note(struct attribute_demand *demand, uint32_t inbox);

bool attribute_demand_is_seen(const struct attribute_demand *demand, uint32_t inbox);

#endif
