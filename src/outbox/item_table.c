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
    enum outbox_folder folder;
    uint64_t number; /* the item's; nothing is found any more when it was removed, or is no longer settled */
    int64_t until_ms;
    struct ghost *same; /* the next older one of the same name */
    struct ghost *older;
    struct ghost *newer;
};

/* The service may give several items one id. */
struct known_id {
    unsigned int count;
    char text[];
};

/* What stands in `names` for a name that is reserved. */
static char reservation;

static void remove_ghost(struct item_table *table, struct ghost *ghost)
{
    struct map *ghosts = &table->folders[ghost->folder].ghosts;
    struct ghost *newest = map_find(ghosts, ghost->name);
    if (newest == ghost && ghost->same == NULL) {
        map_remove(ghosts, ghost->name);
    } else if (newest == ghost) {
        map_set(ghosts, ghost->same->name, ghost->same);
    } else {
        while (newest->same != ghost)
            newest = newest->same;
        newest->same = ghost->same;
    }
    *(ghost->older == NULL ? &table->oldest : &ghost->older->newer) = ghost->newer;
    *(ghost->newer == NULL ? &table->newest : &ghost->newer->older) = ghost->older;
    free(ghost->name);
    free(ghost);
}

void item_table_release(struct item_table *table)
{
    while (table->oldest != NULL)
        remove_ghost(table, table->oldest);
    for (unsigned int i = 0; i < OUTBOX_FOLDERS; i++) {
        size_t position = 0;
        struct known_id *id;
        map_release(&table->folders[i].ghosts);
        map_release(&table->folders[i].names);
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
}

void item_table_hide(struct item_table *table, enum outbox_folder folder, struct item *item)
{
    struct item_folder *place = &table->folders[folder];
    if (map_find(&place->names, item->envelope.name) != item)
        return;
    map_remove(&place->names, item->envelope.name);
    forget_id(&place->ids, item->envelope.id);
}

void item_table_leave_ghost(struct item_table *table, enum outbox_folder folder, const char *name,
                            const struct item *item, int64_t now_ms, int64_t until_ms)
{
    struct map *ghosts = &table->folders[folder].ghosts;
    while (table->oldest != NULL && table->oldest->until_ms <= now_ms)
        remove_ghost(table, table->oldest);
    struct ghost *same = map_find(ghosts, name);
    struct ghost *ghost = calloc(1, sizeof(*ghost));
    char *copy = strdup(name);
    if (ghost == NULL || copy == NULL || map_set(ghosts, copy, ghost) != 0) {
        free(copy);
        free(ghost);
        return;
    }
    *ghost = (struct ghost){
        .name = copy,
        .folder = folder,
        .number = item->number,
        .until_ms = until_ms,
        .same = same,
        .older = table->newest,
    };
    *(table->newest == NULL ? &table->oldest : &table->newest->newer) = ghost;
    table->newest = ghost;
}

bool item_table_has_ghost(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    return map_find(&table->folders[folder].ghosts, name) != NULL;
}

struct item *item_table_find_ghost(const struct item_table *table, enum outbox_folder folder,
                                   const char *name, int64_t now_ms, const struct item_asker *asker)
{
    const struct ghost *ghost = map_find(&table->folders[folder].ghosts, name);
    for (; ghost != NULL && ghost->until_ms > now_ms; ghost = ghost->same) {
        struct item *item = item_table_get(table, ghost->number);
        int shown = item == NULL ? -1 : item_folder(item);
        if ((shown == OUTBOX_FOLDER_SENT || shown == OUTBOX_FOLDER_FAILED) && item_was_made_by(item, asker))
            return item;
    }
    return NULL;
}

static struct ghost *find_ghost_of(const struct item_table *table, uint64_t number)
{
    struct ghost *ghost = table->newest;
    while (ghost != NULL && ghost->number != number)
        ghost = ghost->older;
    return ghost;
}

bool item_table_forget_ghosts(struct item_table *table, uint64_t number, const struct item_asker *asker)
{
    bool is_found = false;
    const struct ghost *ghost;
    while ((ghost = find_ghost_of(table, number)) != NULL) {
        struct ghost *next;
        for (struct ghost *at = map_find(&table->folders[ghost->folder].ghosts, ghost->name); at != NULL;
             at = next) {
            const struct item *item = item_table_get(table, at->number);
            next = at->same;
            if (at->number == number || (item != NULL && item_was_made_by(item, asker)))
                remove_ghost(table, at);
        }
        is_found = true;
    }
    return is_found;
}
