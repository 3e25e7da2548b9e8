/* SPDX-License-Identifier: MIT */
/*
 * All items, by number and by name in each folder; and the ghosts: names that left a folder a few seconds
 * ago, which the process that wrote the file may still touch or rename, after closing it, as if they were
 * there. To all others they do not exist. The caller holds the outbox's lock.
 */
#ifndef INBOXFS_OUTBOX_ITEM_TABLE_H
#define INBOXFS_OUTBOX_ITEM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "outbox/item.h"
#include "outbox/outbox.h"

struct ghost;

struct item_folder {
    struct map names;   /* to items, or to a mark of reservation */
    struct map ids;     /* of those that the service gave one, how many have it */
    struct map ghosts;  /* to the newest of the name */
    int64_t changed_ms; /* realtime */
};

struct item_table {
    struct map by_number;
    struct item_folder folders[OUTBOX_FOLDERS];
    struct ghost *oldest; /* of all ghosts, in the order in which they end */
    struct ghost *newest;
};

/* All zeros is an empty table. Drops its references. */
void item_table_release(struct item_table *table);

/* Takes over a reference. 0 or -ENOMEM. */
int item_table_add(struct item_table *table, struct item *item);
/* Gives the table's reference back to the caller. */
void item_table_remove(struct item_table *table, struct item *item);
struct item *item_table_get(const struct item_table *table, uint64_t number);

/* The item shown under this name, or NULL. */
struct item *item_table_find(const struct item_table *table, enum outbox_folder folder, const char *name);
/* Walks over what is shown in a folder, in no order: start with *position 0; NULL at the end. */
struct item *item_table_next(const struct item_table *table, enum outbox_folder folder, size_t *position);
/* Whether an item shown there has this id from the service (of one shown without memory for it, nothing is
 * known). What is shown keeps its id until it is hidden. */
bool item_table_has_id(const struct item_table *table, enum outbox_folder folder, const char *id);
/* Shown or reserved. */
bool item_table_is_taken(const struct item_table *table, enum outbox_folder folder, const char *name);
/* Keeps a name for an item that will be shown there: item_table_show() of it cannot fail. `name` lives as
 * long as that lasts. 0 or -ENOMEM. */
int item_table_reserve(struct item_table *table, enum outbox_folder folder, const char *name);
void item_table_unreserve(struct item_table *table, enum outbox_folder folder, const char *name);
/* Under its envelope's name, which is reserved or another item's (which is hidden by it). */
void item_table_show(struct item_table *table, enum outbox_folder folder, struct item *item);
/* If it is the one shown under its name. */
void item_table_hide(struct item_table *table, enum outbox_folder folder, struct item *item);

/* `name`, which the item has had, or would have, there: found until `until_ms` (monotonic, later than those
 * of all other ghosts). Without memory there is no ghost. */
void item_table_leave_ghost(struct item_table *table, enum outbox_folder folder, const char *name,
                            const struct item *item, int64_t now_ms, int64_t until_ms);
/* Whether a name has a ghost at all. */
bool item_table_has_ghost(const struct item_table *table, enum outbox_folder folder, const char *name);
/* The settled item that the asker made and that left under this name, or NULL: the latest. */
struct item *item_table_find_ghost(const struct item_table *table, enum outbox_folder folder,
                                   const char *name, int64_t now_ms, const struct item_asker *asker);
/* Forgets the ghosts of an item, and what the asker made that left under their names before, so that the
 * asker finds nothing there any more; whether there were any. */
bool item_table_forget_ghosts(struct item_table *table, uint64_t number, const struct item_asker *asker);

#endif
