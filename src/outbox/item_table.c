/* SPDX-License-Identifier: MIT */
/*
 * The table of items.
 */
#include "outbox/item_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ghost {
    char *name;
    uint64_t number; /* the item's; nothing is found any more when it was removed or taken out */
    int64_t until_ms;
};

/* The service may give several items one id. */
struct known_id {
    unsigned int count;
    char text[];
};

/* What stands in `names` for a name that is reserved. */
static char reservation;

static void free_ghost(struct ghost *ghost)
{
    if (ghost == NULL)
        return;
    free(ghost->name);
    free(ghost);
}

void item_table_release(struct item_table *table)
{
    for (unsigned int i = 0; i < OUTBOX_FOLDERS; i++) {
        size_t position = 0;
        struct ghost *ghost;
        while ((ghost = map_next(&table->folders[i].ghosts, &position)) != NULL)
            free_ghost(ghost);
        map_release(&table->folders[i].ghosts);
        map_release(&table->folders[i].names);
        struct known_id *id;
        position = 0;
        while ((id = map_next(&table->folders[i].ids, &position)) != NULL)
            free(id);
        map_release(&table->folders[i].ids);
    }
    size_t position = 0;
    struct item *item;
    while ((item = map_next(&table->by_number, &position)) != NULL)
        item_unref(item);
    map_release(&table->by_number);
}

int item_table_add(struct item_table *table, struct item *item)
{
    return map_set(&table->by_number, item->number_text, item);
}

void item_table_remove(struct item_table *table, struct item *item)
{
    map_remove(&table->by_number, item->number_text);
}

struct item *item_table_get(const struct item_table *table, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    return map_find(&table->by_number, text);
}

struct item *item_table_find(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    void *found = map_find(&table->folders[folder].names, name);
    return found == &reservation ? NULL : found;
}

struct item *item_table_next(const struct item_table *table, enum outbox_folder folder, size_t *position)
{
    void *found;
    do {
        found = map_next(&table->folders[folder].names, position);
    } while (found == &reservation);
    return found;
}

bool item_table_is_taken(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    return map_find(&table->folders[folder].names, name) != NULL;
}

int item_table_reserve(struct item_table *table, enum outbox_folder folder, const char *name)
{
    return map_set(&table->folders[folder].names, name, &reservation);
}

void item_table_unreserve(struct item_table *table, enum outbox_folder folder, const char *name)
{
    if (map_find(&table->folders[folder].names, name) == &reservation)
        map_remove(&table->folders[folder].names, name);
}

static void note_id(struct map *ids, const char *id)
{
    struct known_id *known = id == NULL ? NULL : map_find(ids, id);
    if (known != NULL)
        known->count++;
    if (id == NULL || known != NULL)
        return;
    size_t size = strlen(id) + 1;
    known = malloc(sizeof(*known) + size);
    if (known == NULL)
        return;
    known->count = 1;
    memcpy(known->text, id, size);
    if (map_set(ids, known->text, known) != 0)
        free(known);
}

static void forget_id(struct map *ids, const char *id)
{
    struct known_id *known = id == NULL ? NULL : map_find(ids, id);
    if (known != NULL && --known->count == 0)
        free(map_remove(ids, id));
}

bool item_table_has_id(const struct item_table *table, enum outbox_folder folder, const char *id)
{
    return map_find(&table->folders[folder].ids, id) != NULL;
}

void item_table_show(struct item_table *table, enum outbox_folder folder, struct item *item)
{
    struct item_folder *place = &table->folders[folder];
    const struct item *hidden = item_table_find(table, folder, item->envelope.name);
    if (hidden != NULL)
        forget_id(&place->ids, hidden->envelope.id);
    map_set(&place->names, item->envelope.name, item);
    note_id(&place->ids, item->envelope.id);
    free_ghost(map_remove(&place->ghosts, item->envelope.name));
}

void item_table_hide(struct item_table *table, enum outbox_folder folder, struct item *item)
{
    struct item_folder *place = &table->folders[folder];
    if (map_find(&place->names, item->envelope.name) != item)
        return;
    map_remove(&place->names, item->envelope.name);
    forget_id(&place->ids, item->envelope.id);
}

static void drop_old_ghosts(struct map *ghosts, int64_t now_ms)
{
    size_t position = 0;
    struct ghost *ghost;
    while ((ghost = map_next(ghosts, &position)) != NULL) {
        if (ghost->until_ms <= now_ms) {
            map_remove(ghosts, ghost->name);
            free_ghost(ghost);
        }
    }
}

void item_table_leave_ghost(struct item_table *table, enum outbox_folder folder, const struct item *item,
                            int64_t until_ms)
{
    struct map *ghosts = &table->folders[folder].ghosts;
    free_ghost(map_remove(ghosts, item->envelope.name));
    struct ghost *ghost = calloc(1, sizeof(*ghost));
    if (ghost == NULL)
        return;
    ghost->name = strdup(item->envelope.name);
    ghost->until_ms = until_ms;
    ghost->number = item->number;
    if (ghost->name == NULL || map_set(ghosts, ghost->name, ghost) != 0)
        free_ghost(ghost);
}

bool item_table_find_ghost(struct item_table *table, enum outbox_folder folder, const char *name,
                           int64_t now_ms, struct outbox_stat *ret)
{
    struct map *ghosts = &table->folders[folder].ghosts;
    const struct ghost *ghost = map_find(ghosts, name);
    if (ghost == NULL)
        return false;
    if (ghost->until_ms <= now_ms) {
        drop_old_ghosts(ghosts, now_ms);
        return false;
    }
    const struct item *item = item_table_get(table, ghost->number);
    if (item == NULL || item->state == ITEM_GONE || item->state == ITEM_DRAFTED)
        return false;
    item_stat(item, OUTBOX_CONTENT, ret);
    return true;
}

bool item_table_forget_ghosts(struct item_table *table, uint64_t number)
{
    bool found = false;
    for (unsigned int i = 0; i < OUTBOX_FOLDERS; i++) {
        size_t position = 0;
        struct ghost *ghost;
        while ((ghost = map_next(&table->folders[i].ghosts, &position)) != NULL) {
            if (ghost->number != number)
                continue;
            map_remove(&table->folders[i].ghosts, ghost->name);
            free_ghost(ghost);
            found = true;
        }
    }
    return found;
}
