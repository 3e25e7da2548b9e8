/* SPDX-License-Identifier: MIT */
/*
 * The table of inboxes. An account has few, so changes are made in place.
 */
#include "store/inbox_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/file_name.h"

void inbox_table_release(struct inbox_table *table)
{
    for (uint32_t i = 0; i < table->len; i++) {
        if (table->items[i] == NULL)
            continue;
        email_list_release(&table->items[i]->emails);
        free(table->items[i]->json);
        free(table->items[i]->folded_name);
        free(table->items[i]);
    }
    free(table->items);
    text_arena_release(&table->texts);
    map_release(&table->by_id);
    map_release(&table->by_name);
    *table = (struct inbox_table){0};
}

struct inbox *inbox_table_get(const struct inbox_table *table, uint32_t number)
{
    return number < table->len ? table->items[number] : NULL;
}

struct inbox *inbox_table_find_id(const struct inbox_table *table, const char *id)
{
    return map_find(&table->by_id, id);
}

static struct inbox *find_like(const struct inbox_table *table, const char *name)
{
    _cleanup_free_ char *folded = file_name_fold(name);
    return folded == NULL ? NULL : map_find(&table->by_name, folded);
}

struct inbox *inbox_table_find_name(const struct inbox_table *table, const char *name)
{
    struct inbox *inbox = find_like(table, name);
    return inbox != NULL && strcmp(inbox->name, name) == 0 ? inbox : NULL;
}

/* Of names that differ only in case or normalisation there is one. */
static bool name_is_free(const struct inbox_table *table, const struct inbox *inbox, const char *name)
{
    const struct inbox *owner = find_like(table, name);
    return owner == NULL || owner == inbox;
}

char *inbox_table_choose_name(const struct inbox_table *table, const struct inbox *inbox, const char *id,
                              const char *address)
{
    if (address != NULL && file_name_is_harmless(address) && name_is_free(table, inbox, address))
        return strdup(address);
    _cleanup_free_ char *from_id = file_name_from_text(id);
    if (from_id == NULL || name_is_free(table, inbox, from_id))
        return TAKE_PTR(from_id);
    for (unsigned int number = 2;; number++) {
        _cleanup_free_ char *numbered = file_name_numbered(from_id, number);
        if (numbered == NULL || name_is_free(table, inbox, numbered))
            return TAKE_PTR(numbered);
    }
}

/* Room for `number`; numbers in between stay unused. */
static int make_room(struct inbox_table *table, uint32_t number)
{
    if (number >= INBOXES_MAX)
        return -EBADMSG;
    if (number >= table->capacity) {
        uint32_t capacity = table->capacity == 0 ? 16 : table->capacity;
        while (capacity <= number)
            capacity *= 2;
        struct inbox **items = realloc(table->items, capacity * sizeof(void *));
        if (items == NULL)
            return -ENOMEM;
        table->items = items;
        table->capacity = capacity;
    }
    while (table->len <= number)
        table->items[table->len++] = NULL;
    return 0;
}

static int add(struct inbox_table *table, const struct inbox_row *row, struct inbox **ret_inbox)
{
    bool has_no_name = row->origin == INBOX_OF_NO_NAME;
    if (has_no_name ? table->of_no_name != NULL : inbox_table_find_id(table, row->id) != NULL)
        return -EBADMSG;
    int error = make_room(table, row->number);
    if (error != 0)
        return error;
    _cleanup_free_ struct inbox *inbox = calloc(1, sizeof(*inbox));
    if (inbox == NULL)
        return -ENOMEM;
    inbox->number = row->number;
    inbox->row.id = row->id;
    inbox->is_gone = true;
    if (!has_no_name)
        error = map_set(&table->by_id, row->id, inbox);
    if (error != 0)
        return error;
    if (has_no_name)
        table->of_no_name = inbox;
    table->items[row->number] = inbox;
    *ret_inbox = TAKE_PTR(inbox);
    return 0;
}

/* The same text as before where it did not change; else a copy. NULL without memory, or for NULL. */
static const char *keep_text(struct inbox_table *table, const char *before, const char *text)
{
    if (text == NULL || (before != NULL && strcmp(before, text) == 0))
        return text == NULL ? NULL : before;
    return text_arena_add(&table->texts, text);
}

/* Copies what is not there yet, but for the JSON. 0 or -ENOMEM. */
static int keep_texts(struct inbox_table *table, const struct inbox_row *before, struct inbox_row *row)
{
    bool has_address = row->address != NULL;
    row->id = keep_text(table, before->id, row->id);
    row->address = keep_text(table, before->address, row->address);
    row->name = keep_text(table, before->name, row->name);
    return row->id != NULL && row->name != NULL && (row->address != NULL || !has_address) ? 0 : -ENOMEM;
}

int inbox_table_put(struct inbox_table *table, const struct inbox_row *row)
{
    static const struct inbox_row nothing = {.id = NULL};
    struct inbox_row kept = *row;
    struct inbox *inbox = inbox_table_get(table, row->number);
    if (!name_is_free(table, inbox, row->name))
        return -EBADMSG;
    if (inbox != NULL && strcmp(inbox->row.id, row->id) != 0)
        return -EBADMSG;
    _cleanup_free_ char *folded = file_name_fold(row->name);
    if (folded == NULL)
        return -EBADMSG;
    _cleanup_free_ char *json = malloc(row->json_len + 1);
    int error = json == NULL ? -ENOMEM : keep_texts(table, inbox == NULL ? &nothing : &inbox->row, &kept);
    if (error == 0 && inbox == NULL)
        error = add(table, &kept, &inbox);
    if (error == 0)
        error = map_set(&table->by_name, folded, inbox);
    if (error != 0)
        return error;
    if (inbox->name != NULL && strcmp(inbox->folded_name, folded) != 0)
        map_remove(&table->by_name, inbox->folded_name);
    free(inbox->folded_name);
    inbox->folded_name = TAKE_PTR(folded);
    memcpy(json, row->json, row->json_len);
    json[row->json_len] = '\0';
    free(inbox->json);
    kept.json = inbox->json = TAKE_PTR(json);
    inbox->row = kept;
    inbox->name = kept.name;
    inbox->is_gone = false;
    inbox->is_quiet = row->is_quiet;
    if (inbox->changed_ms < row->changed_ms)
        inbox->changed_ms = row->changed_ms;
    return 0;
}

void inbox_table_remove(struct inbox_table *table, struct inbox *inbox)
{
    if (inbox->name != NULL)
        map_remove(&table->by_name, inbox->folded_name);
    inbox->name = NULL;
    inbox->is_gone = true;
}
