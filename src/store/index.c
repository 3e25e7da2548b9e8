/* SPDX-License-Identifier: MIT */
/*
 * Tables first, then how they are loaded and saved, then the questions: each takes the lock for reading once,
 * for as long as it fills in views.
 */
#include "store/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "mail/address.h"
#include "mail/file_name.h"

/* ---------------------------------------------------------------- texts */

enum {
    BLOCK_BYTES = 64 * 1024 - 32
};

struct text_block {
    struct text_block *next;
    size_t capacity;
    char bytes[];
};

static void text_arena_release(struct text_arena *arena)
{
    while (arena->blocks != NULL) {
        struct text_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    arena->used = 0;
}

/* Memory for `len` bytes; NULL without memory. */
static char *take_bytes(struct text_arena *arena, size_t len)
{
    struct text_block *block = arena->blocks;
    if (block == NULL || block->capacity - arena->used < len) {
        size_t capacity = len > BLOCK_BYTES ? len : BLOCK_BYTES;
        block = malloc(sizeof(*block) + capacity);
        if (block == NULL)
            return NULL;
        block->next = arena->blocks;
        block->capacity = capacity;
        arena->blocks = block;
        arena->used = 0;
    }
    arena->used += len;
    return block->bytes + arena->used - len;
}

static const char *text_arena_add(struct text_arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = take_bytes(arena, size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}

static const char *text_arena_add_two(struct text_arena *arena, const char *first, const char *second)
{
    size_t first_size = strlen(first) + 1;
    size_t second_size = strlen(second) + 1;
    char *copy = take_bytes(arena, first_size + second_size);
    if (copy == NULL)
        return NULL;
    memcpy(copy + first_size, second, second_size);
    return memcpy(copy, first, first_size);
}

/* ---------------------------------------------------------------- emails */

enum {
    CHUNK_ENTRIES = 4096,
    CHUNKS_MAX = 1 << 17,
    FIRST_ORDER_CAPACITY = 16,
};

struct email_table {
    uint64_t seed;
    uint32_t len;
    struct text_arena texts;
    size_t chunks_len; /* the others are NULL, and so may be some of these */
    struct email_entry *chunks[CHUNKS_MAX];
};

static struct email_table *email_table_new(void)
{
    struct email_table *emails = calloc(1, sizeof(*emails));
    if (emails != NULL)
        emails->seed = random_process_seed();
    return emails;
}

static void email_table_free(struct email_table *emails)
{
    if (emails == NULL)
        return;
    for (size_t i = 0; i < emails->chunks_len; i++)
        free(emails->chunks[i]);
    text_arena_release(&emails->texts);
    free(emails);
}

static void email_list_release(struct email_list *list)
{
    free(list->order);
    number_table_release(&list->by_name);
    number_table_release(&list->by_key);
    *list = (struct email_list){0};
}

uint32_t email_table_len(const struct email_table *emails)
{
    return emails->len;
}

static struct email_entry *get_entry(const struct email_table *emails, uint32_t number)
{
    return &emails->chunks[number / CHUNK_ENTRIES][number % CHUNK_ENTRIES];
}

struct email_entry *email_table_find(const struct email_table *emails, uint32_t number)
{
    if (number >= emails->len || emails->chunks[number / CHUNK_ENTRIES] == NULL)
        return NULL;
    struct email_entry *entry = get_entry(emails, number);
    return entry->name == NULL ? NULL : entry;
}

/* ---------------------------------------------------------------- the two tables of an inbox */

struct hashed_text email_table_hash(const struct email_table *emails, const char *text)
{
    return (struct hashed_text){
        .text = text,
        .hash = (uint32_t)(hash_bytes(emails->seed, text, strlen(text)) >> 32),
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

uint32_t email_list_find_name(const struct email_table *emails, const struct email_list *list,
                              struct hashed_text name)
{
    const struct number_kind kind = {name_equals, emails};
    return number_table_find(&list->by_name, &kind, name.hash, name.text);
}

uint32_t email_list_find_key(const struct email_table *emails, const struct email_list *list,
                             struct hashed_text key)
{
    const struct number_kind kind = {key_equals, emails};
    return number_table_find(&list->by_key, &kind, key.hash, key.text);
}

/* ---------------------------------------------------------------- adding */

static int prepare_order(const struct email_list *list, uint32_t more, struct email_growth *growth)
{
    size_t least = list->len + more;
    size_t capacity = list->capacity + list->capacity / 4 + FIRST_ORDER_CAPACITY;
    if (least <= list->capacity)
        return 0;
    if (capacity < least)
        capacity = least;
    growth->order = malloc(capacity * sizeof(*growth->order));
    if (growth->order == NULL)
        return -ENOMEM;
    if (list->len > 0)
        memcpy(growth->order, list->order, list->len * sizeof(*growth->order));
    growth->order_capacity = capacity;
    return 0;
}

static int prepare_chunks(struct email_table *emails, uint32_t first, uint32_t more)
{
    uint64_t last = ((uint64_t)first + more - 1) / CHUNK_ENTRIES;
    if (last >= CHUNKS_MAX)
        return -EOVERFLOW;
    /* No reader looks at a chunk before one of its entries has a number. */
    for (uint64_t i = first / CHUNK_ENTRIES; i <= last; i++) {
        if (emails->chunks[i] == NULL)
            emails->chunks[i] = calloc(CHUNK_ENTRIES, sizeof(*emails->chunks[i]));
        if (emails->chunks[i] == NULL)
            return -ENOMEM;
        if (i >= emails->chunks_len)
            emails->chunks_len = i + 1;
    }
    return 0;
}

const char *email_table_keep_texts(struct email_table *emails, const char *name, const char *key)
{
    return text_arena_add_two(&emails->texts, name, key);
}

int email_table_prepare(struct email_table *emails, const struct email_list *list, uint32_t first,
                        uint32_t more, struct email_growth *ret_growth)
{
    struct email_growth growth = {0};
    int error = prepare_chunks(emails, first, more);
    if (error == 0)
        error = prepare_order(list, more, &growth);
    if (error == 0)
        error = number_table_enlarge(&list->by_name, more, &growth.by_name);
    if (error == 0)
        error = number_table_enlarge(&list->by_key, more, &growth.by_key);
    if (error != 0) {
        email_growth_release(&growth);
        return error;
    }
    *ret_growth = growth;
    return 0;
}

void email_growth_release(struct email_growth *growth)
{
    free(growth->order);
    number_table_release(&growth->by_name);
    number_table_release(&growth->by_key);
    *growth = (struct email_growth){0};
}

void email_list_grow(struct email_list *list, struct email_growth *growth)
{
    if (growth->order != NULL) {
        uint32_t *old = list->order;
        list->order = growth->order;
        list->capacity = growth->order_capacity;
        growth->order = old;
    }
    growth->by_name = number_table_exchange(&list->by_name, growth->by_name);
    growth->by_key = number_table_exchange(&list->by_key, growth->by_key);
}

void email_table_add(struct email_table *emails, struct email_list *list, uint32_t number,
                     const struct email_entry *entry, uint32_t key_hash, uint32_t name_hash)
{
    emails->len = number + 1;
    *get_entry(emails, number) = *entry;
    list->order[list->len++] = number;
    email_list_count_in(list, entry);
    number_table_add(&list->by_name, name_hash, number);
    number_table_add(&list->by_key, key_hash, number);
}

static uint64_t email_entry_line_bytes(const struct email_entry *entry)
{
    return (uint64_t)entry->line_len + strlen(entry->name);
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

/* ---------------------------------------------------------------- inboxes */

static void inbox_table_release(struct inbox_table *table)
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

static struct inbox *inbox_table_find_name(const struct inbox_table *table, const char *name)
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
    if (address != NULL && address_is_folder_name(address) && name_is_free(table, inbox, address))
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

/* Makes the table long enough for `number`; numbers in between stay unused. */
static int reserve_number(struct inbox_table *table, uint32_t number)
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
    int error = reserve_number(table, row->number);
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

/* ---------------------------------------------------------------- life */

static int init(struct index *index, struct clock *clock, const struct store_listener *listener,
                const struct event_listener *events)
{
    *index = (struct index){
        .clock = clock, .listener = *listener, .events = *events, .max = {INDEX_EMAILS_MAX, INDEX_BYTES_MAX}};
    index->emails = email_table_new();
    if (index->emails == NULL)
        return -ENOMEM;
    pthread_mutex_init(&index->own_lock, NULL);
    index->write_lock = &index->own_lock;

    /* A stream of readers must not keep new mail out. */
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&index->read_lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    return 0;
}

void index_release(struct index *index)
{
    if (index->emails == NULL)
        return;
    inbox_table_release(&index->inboxes);
    email_table_free(index->emails);
    records_release(&index->records);
    pthread_mutex_destroy(&index->own_lock);
    pthread_rwlock_destroy(&index->read_lock);
    *index = (struct index){0};
}

/* ---------------------------------------------------------------- the file */

static int load_inbox(void *context, const struct inbox_row *row)
{
    struct index *index = context;
    if (index->inboxes_changed_ms < row->record_ms)
        index->inboxes_changed_ms = row->record_ms;
    int error = row->is_gone ? 0 : inbox_table_put(&index->inboxes, row);
    if (error == 0)
        index_count_bytes_locked(index, 0, row->is_gone ? 0 : row->json_len);
    return error == -EBADMSG ? 0 : error;
}

/* Nobody reads yet. */
static int add_loaded(struct index *index, struct inbox *inbox, const struct email_row *row,
                      struct hashed_text key, struct hashed_text name)
{
    struct email_growth growth;
    const struct email_entry entry = {
        .text = row->text,
        .name = email_table_keep_texts(index->emails, row->name, row->key),
        .date_ms = row->date_ms,
        .seen_ms = row->seen_ms,
        .json_len = row->json_len,
        .line_len = row->line_len,
        .inbox = row->inbox & EMAIL_INBOX_MAX,
        .is_held = row->is_held,
    };
    int error = entry.name == NULL
                    ? -ENOMEM
                    : email_table_prepare(index->emails, &inbox->emails, row->number, 1, &growth);
    if (error != 0)
        return error;
    email_list_grow(&inbox->emails, &growth);
    email_table_add(index->emails, &inbox->emails, row->number, &entry, key.hash, name.hash);
    email_growth_release(&growth);
    index->size.emails++;
    index_count_bytes_locked(index, 0, row->json_len);
    return 0;
}

/* What contradicts what was read before is passed over; so is mail of an inbox whose row was lost. */
static int load_email(void *context, const struct email_row *row)
{
    struct index *index = context;
    struct inbox *inbox = inbox_table_get(&index->inboxes, row->inbox);
    if (inbox == NULL || row->number < email_table_len(index->emails)) {
        state_file_note(index->records.file, -EUCLEAN);
        return 0;
    }
    if (inbox->changed_ms < row->seen_ms)
        inbox->changed_ms = row->seen_ms;
    if (row->is_gone)
        return 0;
    index->shows_held |= row->is_held;
    const struct hashed_text key = email_table_hash(index->emails, row->key);
    const struct hashed_text name = email_table_hash(index->emails, row->name);
    if (email_list_find_key(index->emails, &inbox->emails, key) != NUMBER_NONE ||
        email_list_find_name(index->emails, &inbox->emails, name) != NUMBER_NONE)
        return 0;
    return add_loaded(index, inbox, row, key, name);
}

int index_write_inbox_locked(struct index *index, const struct inbox *inbox)
{
    struct inbox_row row = inbox->row;
    row.is_quiet = inbox->is_quiet;
    row.is_gone = inbox->is_gone;
    row.changed_ms = inbox->changed_ms;
    return records_put_inbox(&index->records, &row);
}

struct email_row index_email_row(uint32_t number, const struct email_entry *entry)
{
    return (struct email_row){
        .number = number,
        .inbox = entry->inbox,
        .json_len = entry->json_len,
        .line_len = entry->line_len,
        .date_ms = entry->date_ms,
        .seen_ms = entry->seen_ms,
        .is_held = entry->is_held,
        .is_gone = entry->is_gone,
        .text = entry->text,
        .key = email_entry_key(entry),
        .name = entry->name,
    };
}

/* All that is known, into a file that was made anew, with the texts that can be read of the one before. */
static int save_all_locked(struct index *index)
{
    int error = records_put_marks(&index->records);
    for (uint32_t i = 0; error == 0 && i < index->inboxes.len; i++)
        if (index->inboxes.items[i] != NULL)
            error = index_write_inbox_locked(index, index->inboxes.items[i]);
    for (uint32_t i = 0; error == 0 && i < email_table_len(index->emails); i++) {
        const struct email_entry *entry = email_table_find(index->emails, i);
        if (entry == NULL || entry->is_gone || (entry->text & RECORDS_IN_MEMORY) != 0)
            continue;
        struct email_row row = index_email_row(i, entry);
        error = records_put_email(&index->records, &row);
        int of_text = error != 0 ? error : records_save_text(&index->records, entry->text, entry->json_len);
        if (of_text == -ENOENT)
            atomic_fetch_add(&index->lost, 1);
        else
            error = of_text;
    }
    return error;
}

int index_begin_write_locked(struct index *index)
{
    bool must_save = records_must_save(&index->records);
    int error = records_begin(&index->records);
    if (error != 0 || !must_save)
        return error;
    error = save_all_locked(index);
    if (error == 0 && index->sibling != NULL)
        error = save_all_locked(index->sibling);
    if (error != 0)
        records_abandon(&index->records);
    return error;
}

int index_end_write_locked(struct index *index, int error)
{
    if (error != 0) {
        records_abandon(&index->records);
        return error;
    }
    error = records_commit(&index->records);
    if (error == 0)
        records_note_saved(&index->records);
    if (error == 0 && index->sibling != NULL)
        records_note_saved(&index->sibling->records);
    return error;
}

void index_repair(struct index *index)
{
    pthread_mutex_lock(index->write_lock);
    if (records_must_save(&index->records) && index_begin_write_locked(index) == 0)
        (void)index_end_write_locked(index, 0);
    pthread_mutex_unlock(index->write_lock);
}

int index_open(struct index *index, struct clock *clock, const struct store_listener *listener,
               const struct event_listener *events, struct state_file *file, enum records_list list)
{
    const struct records_visitor visitor = {load_inbox, load_email, index};
    int error = init(index, clock, listener, events);
    return error != 0 ? error : records_load(&index->records, file, list, &visitor);
}

void index_join(struct index *index, struct index *sibling)
{
    index->sibling = sibling;
    sibling->sibling = index;
    sibling->write_lock = index->write_lock;
}

/* ---------------------------------------------------------------- what others note */

static struct index_size add_sizes(struct index_size a, struct index_size b)
{
    return (struct index_size){a.emails + b.emails, a.bytes + b.bytes};
}

int index_check_room_locked(const struct index *index, size_t emails, uint64_t bytes)
{
    struct index_size size = add_sizes(index->size, (struct index_size){emails, bytes});
    if (index->sibling != NULL)
        size = add_sizes(size, index->sibling->size);
    return size.emails > index->max.emails || size.bytes > index->max.bytes ? -EDQUOT : 0;
}

struct index_size index_get_size(struct index *index)
{
    struct index_size size = {0};
    for (struct index *next = index; next != NULL; next = next == index ? index->sibling : NULL) {
        pthread_rwlock_rdlock(&next->read_lock);
        size = add_sizes(size, next->size);
        pthread_rwlock_unlock(&next->read_lock);
    }
    return size;
}

uint32_t index_begin_listing(struct index *index)
{
    pthread_mutex_lock(index->write_lock);
    if (++index->last_listing == 0)
        index->last_listing = 1;
    uint32_t listing = index->last_listing;
    pthread_mutex_unlock(index->write_lock);
    return listing;
}

bool index_end_first_sync(struct index *index)
{
    pthread_mutex_lock(index->write_lock);
    bool is_first = !index->records.first_sync_done;
    if (is_first) {
        index->records.first_sync_done = true;
        /* Unwritten for want of memory or disk: known again after the next start. */
        if (index_begin_write_locked(index) == 0)
            (void)index_end_write_locked(index, records_put_marks(&index->records));
    }
    pthread_mutex_unlock(index->write_lock);
    return is_first;
}

void index_note_held_shown(struct index *index)
{
    pthread_mutex_lock(index->write_lock);
    bool is_news = !index->shows_held;
    uint32_t inboxes = index->inboxes.len;
    if (is_news) {
        pthread_rwlock_wrlock(&index->read_lock);
        index->shows_held = true;
        pthread_rwlock_unlock(&index->read_lock);
    }
    pthread_mutex_unlock(index->write_lock);
    for (uint32_t i = 0; is_news && i < inboxes; i++)
        index_notify_inbox(index, i, STORE_CHANGED);
}

void index_note_lost(struct index *index)
{
    if (atomic_fetch_add(&index->lost, 1) == 0)
        log_warning("records in the cache cannot be read: the file was changed, or the disk fails; "
                    "'sync' in ctl asks the service for them");
}

void index_clean(struct index *index)
{
    pthread_mutex_lock(index->write_lock);
    if (atomic_load(&index->open_indexes) == 0)
        records_clean(&index->records);
    pthread_mutex_unlock(index->write_lock);
    state_file_end_filling(index->records.file);
}

void index_notify_email(const struct index *index, uint32_t email, enum store_change change)
{
    if (index->listener.email_changed != NULL)
        index->listener.email_changed(index->listener.context, email, change);
}

void index_notify_inbox(const struct index *index, uint32_t inbox, enum store_change change)
{
    if (index->listener.inbox_changed != NULL)
        index->listener.inbox_changed(index->listener.context, inbox, change);
}

void index_notify_event(const struct index *index, enum event_kind kind, const char *path, const char *id,
                        const char *error)
{
    const struct event event = {
        .time_ms = clock_realtime_ms(index->clock),
        .kind = kind,
        .path = path,
        .id = id,
        .error = error,
    };
    if (index->events.notify != NULL)
        index->events.notify(index->events.context, &event);
}

/* ---------------------------------------------------------------- questions */

enum {
    SKIP_MAX = 4096 /* entries that are gone, passed over under one lock */
};

static void view_inbox(const struct inbox *inbox, struct inbox_view *ret)
{
    *ret = (struct inbox_view){
        .number = inbox->number,
        .name = inbox->name,
        .id = inbox->row.id,
        .address = inbox->row.address,
        .json_len = inbox->row.json_len,
        .changed_ms = inbox->changed_ms,
        .record_ms = inbox->row.record_ms,
        .emails = inbox->emails.live,
        .held = inbox->emails.held,
        .index_bytes = inbox->emails.index_bytes,
    };
}

static void view_email(uint32_t number, const struct email_entry *entry, struct email_view *ret)
{
    *ret = (struct email_view){
        .number = number,
        .inbox = entry->inbox,
        .name = entry->name,
        .json_len = entry->json_len,
        .text = entry->text,
        .date_ms = entry->date_ms,
        .seen_ms = entry->seen_ms,
        .is_held = entry->is_held,
    };
}

/* NULL: no such inbox, or gone. */
static const struct inbox *get_live_locked(const struct index *index, uint32_t number)
{
    const struct inbox *inbox = inbox_table_get(&index->inboxes, number);
    return inbox == NULL || inbox->is_gone ? NULL : inbox;
}

bool index_find_inbox(struct index *index, const char *name, struct inbox_view *ret)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = inbox_table_find_name(&index->inboxes, name);
    if (inbox != NULL)
        view_inbox(inbox, ret);
    pthread_rwlock_unlock(&index->read_lock);
    return inbox != NULL;
}

bool index_get_inbox(struct index *index, uint32_t number, struct inbox_view *ret)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = get_live_locked(index, number);
    if (inbox != NULL)
        view_inbox(inbox, ret);
    pthread_rwlock_unlock(&index->read_lock);
    return inbox != NULL;
}

bool index_find_inbox_by_id(struct index *index, const char *id, uint32_t *ret_inbox)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = inbox_table_find_id(&index->inboxes, id);
    bool is_found = inbox != NULL && !inbox->is_gone;
    if (is_found)
        *ret_inbox = inbox->number;
    pthread_rwlock_unlock(&index->read_lock);
    return is_found;
}

static bool find(struct index *index, uint32_t inbox_number, const char *name, bool is_held,
                 struct email_view *ret)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = get_live_locked(index, inbox_number);
    uint32_t number = inbox == NULL ? NUMBER_NONE
                                    : email_list_find_name(index->emails, &inbox->emails,
                                                           email_table_hash(index->emails, name));
    const struct email_entry *entry = email_table_find(index->emails, number);
    bool found = entry != NULL && !entry->is_gone && entry->is_held == is_held;
    if (found)
        view_email(number, entry, ret);
    pthread_rwlock_unlock(&index->read_lock);
    return found;
}

bool index_find_email(struct index *index, uint32_t inbox, const char *name, struct email_view *ret)
{
    return find(index, inbox, name, false, ret);
}

bool index_find_held(struct index *index, uint32_t inbox, const char *name, struct email_view *ret)
{
    return find(index, inbox, name, true, ret);
}

bool index_shows_held(struct index *index)
{
    pthread_rwlock_rdlock(&index->read_lock);
    bool shows_held = index->shows_held;
    pthread_rwlock_unlock(&index->read_lock);
    return shows_held;
}

bool index_get_email(struct index *index, uint32_t number, struct email_view *ret)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct email_entry *entry = email_table_find(index->emails, number);
    if (entry != NULL)
        view_email(number, entry, ret);
    pthread_rwlock_unlock(&index->read_lock);
    return entry != NULL;
}

/* The number of the text that an email's record is now, and its length; false: no such email. */
static bool find_text(struct index *index, uint32_t number, uint64_t *ret_text, size_t *ret_len)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct email_entry *entry = email_table_find(index->emails, number);
    if (entry != NULL) {
        *ret_text = entry->text;
        *ret_len = entry->json_len;
    }
    pthread_rwlock_unlock(&index->read_lock);
    return entry != NULL;
}

/* With no lock held. A text that was replaced and deleted while it was read is read in its new form instead.
 */
int index_read_email(struct index *index, uint32_t email, char **ret_json, size_t *ret_len)
{
    uint64_t text = 0;
    uint64_t tried;
    int error;
    if (!find_text(index, email, &text, ret_len))
        return -ENOENT;
    do {
        tried = text;
        error = records_read_text(&index->records, text, *ret_len, ret_json);
    } while (error == -EIO && find_text(index, email, &text, ret_len) && text != tried);
    if (error == -EIO)
        index_note_lost(index);
    return error;
}

int index_read_inbox(struct index *index, uint32_t number, char **ret_json, size_t *ret_len)
{
    int error = -ENOENT;
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = get_live_locked(index, number);
    if (inbox != NULL) {
        *ret_len = inbox->row.json_len;
        *ret_json = malloc(*ret_len + 1);
        error = *ret_json == NULL ? -ENOMEM : 0;
    }
    if (error == 0)
        memcpy(*ret_json, inbox->json, *ret_len + 1);
    pthread_rwlock_unlock(&index->read_lock);
    return error;
}

size_t index_list_inboxes(struct index *index, uint64_t position, struct inbox_view *ret,
                          uint64_t *ret_positions, size_t max)
{
    size_t filled = 0;
    pthread_rwlock_rdlock(&index->read_lock);
    for (; position < index->inboxes.len && filled < max; position++) {
        const struct inbox *inbox = get_live_locked(index, (uint32_t)position);
        if (inbox == NULL)
            continue;
        view_inbox(inbox, &ret[filled]);
        ret_positions[filled++] = position + 1;
    }
    pthread_rwlock_unlock(&index->read_lock);
    return filled;
}

/* As many as there are within the next SKIP_MAX entries; *position moves on. True at the end of the list. */
static bool list_some(struct index *index, uint32_t inbox_number, bool is_held, uint64_t *position,
                      struct email_view *ret, uint64_t *ret_positions, size_t max, size_t *filled)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = get_live_locked(index, inbox_number);
    size_t len = inbox == NULL ? 0 : inbox->emails.len;
    for (size_t looked = 0; *position < len && looked < SKIP_MAX && *filled < max; looked++) {
        uint32_t number = inbox->emails.order[(*position)++];
        const struct email_entry *entry = email_table_find(index->emails, number);
        if (entry->is_gone || entry->is_held != is_held)
            continue;
        view_email(number, entry, &ret[*filled]);
        ret_positions[(*filled)++] = *position;
    }
    pthread_rwlock_unlock(&index->read_lock);
    return *position >= len;
}

static size_t list(struct index *index, uint32_t inbox, bool is_held, uint64_t position,
                   struct email_view *ret, uint64_t *ret_positions, size_t max)
{
    size_t filled = 0;
    while (filled < max && !list_some(index, inbox, is_held, &position, ret, ret_positions, max, &filled))
        continue;
    return filled;
}

size_t index_list_emails(struct index *index, uint32_t inbox, uint64_t position, struct email_view *ret,
                         uint64_t *ret_positions, size_t max)
{
    return list(index, inbox, false, position, ret, ret_positions, max);
}

size_t index_list_held(struct index *index, uint32_t inbox, uint64_t position, struct email_view *ret,
                       uint64_t *ret_positions, size_t max)
{
    return list(index, inbox, true, position, ret, ret_positions, max);
}

int64_t index_inboxes_changed_ms(struct index *index)
{
    pthread_rwlock_rdlock(&index->read_lock);
    int64_t changed_ms = index->inboxes_changed_ms;
    pthread_rwlock_unlock(&index->read_lock);
    return changed_ms;
}

void index_count(struct index *index, size_t *ret_inboxes, size_t *ret_emails)
{
    *ret_inboxes = 0;
    *ret_emails = 0;
    pthread_rwlock_rdlock(&index->read_lock);
    for (uint32_t i = 0; i < index->inboxes.len; i++) {
        const struct inbox *inbox = get_live_locked(index, i);
        if (inbox == NULL)
            continue;
        ++*ret_inboxes;
        *ret_emails += inbox->emails.live;
    }
    pthread_rwlock_unlock(&index->read_lock);
}

size_t index_email_numbers(struct index *index)
{
    pthread_rwlock_rdlock(&index->read_lock);
    size_t numbers = index->size.emails;
    pthread_rwlock_unlock(&index->read_lock);
    return numbers;
}

bool index_find_inbox_of_no_name(struct index *index, uint32_t *ret_inbox)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = index->inboxes.of_no_name;
    bool found = inbox != NULL && !inbox->is_gone;
    if (found)
        *ret_inbox = inbox->number;
    pthread_rwlock_unlock(&index->read_lock);
    return found;
}

/* ---------------------------------------------------------------- senders */

/* The inbox with this address, or with NULL the only one that has an address; NULL: none, or several. */
static const struct inbox *find_sender_locked(const struct index *index, const char *address)
{
    const struct inbox *found = NULL;
    for (uint32_t i = 0; i < index->inboxes.len; i++) {
        const struct inbox *inbox = get_live_locked(index, i);
        if (inbox == NULL || inbox->row.address == NULL)
            continue;
        if (address != NULL && !address_equals(inbox->row.address, address))
            continue;
        if (address == NULL && found != NULL)
            return NULL;
        found = inbox;
        if (address != NULL)
            break;
    }
    return found;
}

int index_find_sender(struct index *index, const char *address, char **ret_address)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = find_sender_locked(index, address);
    const char *sender = inbox != NULL ? inbox->row.address : NULL;
    if (sender == NULL && !index->inboxes_are_listed)
        sender = address;
    pthread_rwlock_unlock(&index->read_lock);
    if (sender == NULL)
        return -EADDRNOTAVAIL;
    *ret_address = strdup(sender);
    return *ret_address == NULL ? -ENOMEM : 0;
}

bool index_has_address(struct index *index, const char *address)
{
    pthread_rwlock_rdlock(&index->read_lock);
    bool found = find_sender_locked(index, address) != NULL;
    pthread_rwlock_unlock(&index->read_lock);
    return found;
}

/* ---------------------------------------------------------------- order */

/* What stands for an id where a record has none begins with this (email_record.h). */
static const char no_id_mark = '~';

const char *index_email_id(struct index *index, uint32_t email)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct email_entry *entry = email_table_find(index->emails, email);
    const char *key = entry == NULL ? NULL : email_entry_key(entry);
    pthread_rwlock_unlock(&index->read_lock);
    return key == NULL || key[0] == no_id_mark ? NULL : key;
}

static uint32_t find_locked(const struct index *index, uint32_t number, const char *id)
{
    const struct inbox *inbox = inbox_table_get(&index->inboxes, number);
    if (inbox == NULL || inbox->is_gone)
        return NUMBER_NONE;
    uint32_t email = email_list_find_key(index->emails, &inbox->emails, email_table_hash(index->emails, id));
    const struct email_entry *entry = email_table_find(index->emails, email);
    return entry == NULL || !email_entry_is_shown(entry) ? NUMBER_NONE : email;
}

bool index_find_email_by_id(struct index *index, uint32_t inbox, const char *id, struct email_view *ret)
{
    pthread_rwlock_rdlock(&index->read_lock);
    uint32_t email = find_locked(index, inbox, id);
    for (uint32_t i = 0; i < index->inboxes.len && email == NUMBER_NONE; i++)
        email = find_locked(index, i, id);
    const struct email_entry *entry = email_table_find(index->emails, email);
    if (entry != NULL)
        *ret = (struct email_view){
            .number = email, .inbox = entry->inbox, .name = entry->name, .date_ms = entry->date_ms};
    pthread_rwlock_unlock(&index->read_lock);
    return entry != NULL;
}

bool index_find_place(struct index *index, uint32_t email, uint32_t *ret_inbox, size_t *ret_place)
{
    bool is_found = false;
    pthread_rwlock_rdlock(&index->read_lock);
    const struct email_entry *entry = email_table_find(index->emails, email);
    const struct inbox *inbox = entry == NULL ? NULL : inbox_table_get(&index->inboxes, entry->inbox);
    if (inbox != NULL) {
        size_t low = 0;
        size_t high = inbox->emails.len;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (inbox->emails.order[middle] < email)
                low = middle + 1;
            else
                high = middle;
        }
        is_found = low < inbox->emails.len && inbox->emails.order[low] == email;
        *ret_inbox = entry->inbox;
        *ret_place = low;
    }
    pthread_rwlock_unlock(&index->read_lock);
    return is_found;
}

/* The numbers at `place`, `place + step` and so on that are not gone. */
static size_t list_locked(const struct index *index, const struct inbox *inbox, size_t place, int step,
                          uint32_t *ret_emails, size_t max)
{
    size_t len = 0;
    /* Below 0 the place wraps round, and so is beyond the end, too. */
    for (size_t looked = 0; looked < max && place < inbox->emails.len; looked++, place += (size_t)step) {
        uint32_t email = inbox->emails.order[place];
        if (email_entry_is_shown(email_table_find(index->emails, email)))
            ret_emails[len++] = email;
    }
    return len;
}

size_t index_list_places(struct index *index, uint32_t number, size_t place, int step, uint32_t *ret_emails,
                         size_t max)
{
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = inbox_table_get(&index->inboxes, number);
    size_t len = inbox == NULL ? 0 : list_locked(index, inbox, place, step, ret_emails, max);
    pthread_rwlock_unlock(&index->read_lock);
    return len;
}

size_t index_pick_some(struct index *index, uint32_t *ret_emails, size_t max)
{
    size_t len = 0;
    pthread_rwlock_rdlock(&index->read_lock);
    for (uint32_t i = 0; i < index->inboxes.len && len < max; i++) {
        const struct inbox *inbox = inbox_table_get(&index->inboxes, i);
        if (inbox == NULL || inbox->is_gone || inbox->emails.live == 0)
            continue;
        len += list_locked(index, inbox, inbox->emails.len - 1, -1, ret_emails + len, 1);
        if (len < max && inbox->emails.len > 1)
            len += list_locked(index, inbox, 0, 1, ret_emails + len, 1);
    }
    pthread_rwlock_unlock(&index->read_lock);
    return len;
}
