/* SPDX-License-Identifier: MIT */
/*
 * Entries are in chunks that never move, so a pointer to one stays valid.
 */
#include "store/email_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"

enum {
    CHUNK_ENTRIES = 4096,
    CHUNKS_MAX = 1 << 17,
    FIRST_ORDER_CAPACITY = 16,
};

struct email_index {
    uint64_t seed;
    uint32_t len;
    struct text_arena texts;
    struct email_entry *chunks[CHUNKS_MAX];
};

struct email_index *email_index_new(void)
{
    struct email_index *index = calloc(1, sizeof(*index));
    if (index != NULL)
        index->seed = random_process_seed();
    return index;
}

void email_index_free(struct email_index *index)
{
    if (index == NULL)
        return;
    for (size_t i = 0; i < CHUNKS_MAX; i++)
        free(index->chunks[i]);
    text_arena_release(&index->texts);
    free(index);
}

void email_list_release(struct email_list *list)
{
    free(list->order);
    number_table_release(&list->by_name);
    number_table_release(&list->by_key);
    *list = (struct email_list){0};
}

uint32_t email_index_len(const struct email_index *index)
{
    return index->len;
}

static struct email_entry *get_entry(const struct email_index *index, uint32_t number)
{
    return &index->chunks[number / CHUNK_ENTRIES][number % CHUNK_ENTRIES];
}

struct email_entry *email_index_find(const struct email_index *index, uint32_t number)
{
    if (number >= index->len || index->chunks[number / CHUNK_ENTRIES] == NULL)
        return NULL;
    struct email_entry *entry = get_entry(index, number);
    return entry->name == NULL ? NULL : entry;
}

/* ---------------------------------------------------------------- the two tables of an inbox */

struct hashed_text email_index_hash(const struct email_index *index, const char *text)
{
    return (struct hashed_text){
        .text = text,
        .hash = (uint32_t)(hash_bytes(index->seed, text, strlen(text)) >> 32),
    };
}

static bool name_equals(const void *context, uint32_t number, const void *key)
{
    return strcmp(get_entry(context, number)->name, key) == 0;
}

static bool key_equals(const void *context, uint32_t number, const void *key)
{
    return strcmp(email_entry_key(get_entry(context, number)), key) == 0;
}

uint32_t email_list_find_name(const struct email_index *index, const struct email_list *list,
                              struct hashed_text name)
{
    const struct number_kind kind = {name_equals, index};
    return number_table_find(&list->by_name, &kind, name.hash, name.text);
}

uint32_t email_list_find_key(const struct email_index *index, const struct email_list *list,
                             struct hashed_text key)
{
    const struct number_kind kind = {key_equals, index};
    return number_table_find(&list->by_key, &kind, key.hash, key.text);
}

/* ---------------------------------------------------------------- adding */

static int prepare_order(const struct email_list *list, uint32_t more, struct email_room *room)
{
    size_t least = list->len + more;
    size_t capacity = list->capacity + list->capacity / 4 + FIRST_ORDER_CAPACITY;
    if (least <= list->capacity)
        return 0;
    if (capacity < least)
        capacity = least;
    room->order = malloc(capacity * sizeof(*room->order));
    if (room->order == NULL)
        return -ENOMEM;
    if (list->len > 0)
        memcpy(room->order, list->order, list->len * sizeof(*room->order));
    room->order_capacity = capacity;
    return 0;
}

static int prepare_chunks(struct email_index *index, uint32_t first, uint32_t more)
{
    uint64_t last = ((uint64_t)first + more - 1) / CHUNK_ENTRIES;
    if (last >= CHUNKS_MAX)
        return -EOVERFLOW;
    /* No reader looks at a chunk before one of its entries has a number. */
    for (uint64_t i = first / CHUNK_ENTRIES; i <= last; i++) {
        if (index->chunks[i] == NULL)
            index->chunks[i] = calloc(CHUNK_ENTRIES, sizeof(*index->chunks[i]));
        if (index->chunks[i] == NULL)
            return -ENOMEM;
    }
    return 0;
}

const char *email_index_keep_texts(struct email_index *index, const char *name, const char *key)
{
    return text_arena_add_two(&index->texts, name, key);
}

int email_index_prepare(struct email_index *index, const struct email_list *list, uint32_t first,
                        uint32_t more, struct email_room *ret_room)
{
    struct email_room room = {0};
    int error = prepare_chunks(index, first, more);
    if (error == 0)
        error = prepare_order(list, more, &room);
    if (error == 0)
        error = number_table_enlarge(&list->by_name, more, &room.by_name);
    if (error == 0)
        error = number_table_enlarge(&list->by_key, more, &room.by_key);
    if (error != 0) {
        email_room_release(&room);
        return error;
    }
    *ret_room = room;
    return 0;
}

void email_room_release(struct email_room *room)
{
    free(room->order);
    number_table_release(&room->by_name);
    number_table_release(&room->by_key);
    *room = (struct email_room){0};
}

void email_list_take_room(struct email_list *list, struct email_room *room)
{
    if (room->order != NULL) {
        uint32_t *old = list->order;
        list->order = room->order;
        list->capacity = room->order_capacity;
        room->order = old;
    }
    room->by_name = number_table_exchange(&list->by_name, room->by_name);
    room->by_key = number_table_exchange(&list->by_key, room->by_key);
}

void email_index_add(struct email_index *index, struct email_list *list, uint32_t number,
                     const struct email_entry *entry, uint32_t key_hash, uint32_t name_hash)
{
    index->len = number + 1;
    *get_entry(index, number) = *entry;
    list->order[list->len++] = number;
    email_list_count_in(list, entry);
    number_table_add(&list->by_name, name_hash, number);
    number_table_add(&list->by_key, key_hash, number);
}

void email_list_count_in(struct email_list *list, const struct email_entry *entry)
{
    if (entry->is_gone)
        return;
    list->held += entry->is_held;
    list->live += !entry->is_held;
    list->index_bytes += entry->is_held ? 0 : email_entry_line_bytes(entry);
}

void email_list_count_out(struct email_list *list, const struct email_entry *entry)
{
    if (entry->is_gone)
        return;
    list->held -= entry->is_held;
    list->live -= !entry->is_held;
    list->index_bytes -= entry->is_held ? 0 : email_entry_line_bytes(entry);
}

uint64_t email_entry_line_bytes(const struct email_entry *entry)
{
    return (uint64_t)entry->line_len + strlen(entry->name);
}
