/* SPDX-License-Identifier: MIT */
/*
 * This file has the tables, the loading, and the queries. A query holds read_lock while it fills in views.
 */
#include "store/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "mail/address.h"
#include "mail/email_record.h"
#include "mail/file_name.h"
#include "store/store_private.h"

enum {
    TEXTS_BYTES_AT_ONCE = 64 * 1024
};

/* ---------------------------------------------------------------- emails */

static void email_list_init(struct email_list *list)
{
    *list = (struct email_list){
        .order = g_array_new(false, false, sizeof(uint32_t)),
        .by_name = g_hash_table_new(hash_string, g_str_equal),
        .by_key = g_hash_table_new(hash_string, g_str_equal),
    };
}

static void email_list_release(struct email_list *list)
{
    g_array_unref(list->order);
    g_hash_table_unref(list->by_name);
    g_hash_table_unref(list->by_key);
}

struct email_entry *email_table_find(const struct email_table *emails, uint32_t number)
{
    if (number >= emails->entries->len)
        return NULL;
    struct email_entry *entry = &g_array_index(emails->entries, struct email_entry, number);
    return entry->view.name != NULL ? entry : NULL;
}

static uint32_t read_number(const char *bytes)
{
    uint32_t number;
    memcpy(&number, bytes, sizeof(number));
    return number;
}

uint32_t email_list_find_name(const struct email_list *list, const char *name)
{
    const char *found = g_hash_table_lookup(list->by_name, name);
    return found == NULL ? NUMBER_NONE : read_number(found + strlen(found) + 1);
}

uint32_t email_list_find_key(const struct email_list *list, const char *key)
{
    const char *found = g_hash_table_lookup(list->by_key, key);
    return found == NULL ? NUMBER_NONE : read_number(found - sizeof(uint32_t));
}

struct email_entry *email_table_add(struct email_table *emails, struct email_list *list, uint32_t number,
                                    const char *name, const char *key)
{
    size_t name_size = strlen(name) + 1;
    size_t key_size = strlen(key) + 1;
    size_t key_at = name_size + sizeof(number);
    g_autofree char *all = g_malloc(key_at + key_size);
    memcpy(all, name, name_size);
    memcpy(all + name_size, &number, sizeof(number));
    memcpy(all + key_at, key, key_size);
    char *copy = g_string_chunk_insert_len(emails->names, all, (gssize)(key_at + key_size));
    g_array_set_size(emails->entries, number + 1);
    struct email_entry *entry = &g_array_index(emails->entries, struct email_entry, number);
    entry->view.number = number;
    entry->view.name = copy;
    g_array_append_val(list->order, number);
    return g_hash_table_add(list->by_name, copy) && g_hash_table_add(list->by_key, copy + key_at) ? entry
                                                                                                  : NULL;
}

void email_list_add_to_sums(struct email_list *list, const struct email_entry *entry, int sign)
{
    if (entry->view.is_gone)
        return;
    if (entry->view.is_quarantined) {
        list->quarantined += (size_t)sign;
        return;
    }
    list->live += (size_t)sign;
    list->jsonl_bytes += (uint64_t)(sign * (int64_t)(entry->view.line_len + strlen(entry->view.name)));
}

/* ---------------------------------------------------------------- inboxes */

struct inbox *inbox_table_get(struct inbox_table *table, uint32_t number)
{
    if (number == STORE_SENT)
        return &table->sent;
    return number < table->items->len ? table->items->pdata[number] : NULL;
}

struct inbox *inbox_table_find_id(const struct inbox_table *table, const char *id)
{
    return g_hash_table_lookup(table->by_id, id);
}

static struct inbox *find_similar_name(const struct inbox_table *table, const char *name)
{
    _cleanup_free_ char *folded = file_name_fold(name);
    return folded == NULL ? NULL : g_hash_table_lookup(table->by_name, folded);
}

static bool name_is_free(const struct inbox_table *table, const struct inbox *inbox, const char *name)
{
    const struct inbox *owner = find_similar_name(table, name);
    return owner == NULL || owner == inbox;
}

char *inbox_table_choose_name(const struct inbox_table *table, const struct inbox *inbox, const char *id,
                              const char *address)
{
    if (address != NULL && address_is_folder_name(address) && name_is_free(table, inbox, address))
        return g_strdup(address);
    _cleanup_free_ char *from_id = file_name_from_text(id);
    if (name_is_free(table, inbox, from_id))
        return TAKE_PTR(from_id);
    for (unsigned int number = 2;; number++) {
        _cleanup_free_ char *numbered = file_name_numbered(from_id, number);
        if (name_is_free(table, inbox, numbered))
            return TAKE_PTR(numbered);
    }
}

static int add_inbox(struct inbox_table *table, const struct inbox_row *row, struct inbox **ret_inbox)
{
    bool has_no_name = row->origin == INBOX_OF_NO_NAME;
    if (has_no_name ? table->of_no_name != NULL : inbox_table_find_id(table, row->id) != NULL)
        return -EBADMSG;
    if (row->number >= INBOXES_MAX)
        return -EBADMSG;
    struct inbox *inbox = g_new0(struct inbox, 1);
    inbox->row = (struct inbox_row){.number = row->number, .id = row->id, .is_gone = true};
    email_list_init(&inbox->emails);
    if (has_no_name)
        table->of_no_name = inbox;
    else
        g_hash_table_insert(table->by_id, (char *)row->id, inbox);
    if (row->number >= table->items->len)
        g_ptr_array_set_size(table->items, (int)row->number + 1);
    table->items->pdata[row->number] = inbox;
    *ret_inbox = inbox;
    return 0;
}

int inbox_table_put(struct inbox_table *table, const struct inbox_row *row)
{
    struct inbox_row before = {.id = NULL};
    struct inbox_row after = *row;
    struct inbox *inbox = inbox_table_get(table, row->number);
    if (!name_is_free(table, inbox, row->name))
        return -EBADMSG;
    if (inbox != NULL && strcmp(inbox->row.id, row->id) != 0)
        return -EBADMSG;
    _cleanup_free_ char *folded = file_name_fold(row->name);
    if (folded == NULL)
        return -EBADMSG;
    if (inbox != NULL)
        before = inbox->row;
    after.id = g_string_chunk_insert_const(table->texts, row->id);
    after.address = row->address == NULL ? NULL : g_string_chunk_insert_const(table->texts, row->address);
    after.name = g_string_chunk_insert_const(table->texts, row->name);
    int error = inbox == NULL ? add_inbox(table, &after, &inbox) : 0;
    if (error != 0)
        return error;
    g_hash_table_replace(table->by_name, folded, inbox);
    if (!inbox->row.is_gone && strcmp(inbox->folded_name, folded) != 0)
        g_hash_table_remove(table->by_name, inbox->folded_name);
    free(inbox->folded_name);
    inbox->folded_name = TAKE_PTR(folded);
    free((char *)inbox->row.json);
    after.json = g_strndup(row->json, row->json_len);
    after.changed_ms = MAX(row->changed_ms, before.changed_ms);
    inbox->row = after;
    return 0;
}

void inbox_table_remove(struct inbox_table *table, struct inbox *inbox)
{
    if (!inbox->row.is_gone)
        g_hash_table_remove(table->by_name, inbox->folded_name);
    inbox->row.is_gone = true;
}

/* ---------------------------------------------------------------- life */

static void init_tables(struct index *index)
{
    index->inboxes = (struct inbox_table){
        .items = g_ptr_array_new(),
        .sent = {.row = {.number = STORE_SENT, .id = "sent", .origin = INBOX_OF_SENT}},
        .by_id = g_hash_table_new(hash_string, g_str_equal),
        .by_name = g_hash_table_new(hash_string, g_str_equal),
        .texts = g_string_chunk_new(TEXTS_BYTES_AT_ONCE),
    };
    email_list_init(&index->inboxes.sent.emails);
    index->emails = (struct email_table){
        .names = g_string_chunk_new(TEXTS_BYTES_AT_ONCE),
        .entries = g_array_new(false, true, sizeof(struct email_entry)),
    };
    index->size = (struct index_size){0};
    index->shows_quarantine = false;
    index->next_record = 1;
}

static void release_tables(struct index *index)
{
    struct inbox_table *inboxes = &index->inboxes;
    for (guint i = 0; i < inboxes->items->len; i++) {
        struct inbox *inbox = inboxes->items->pdata[i];
        if (inbox == NULL)
            continue;
        email_list_release(&inbox->emails);
        free((char *)inbox->row.json);
        free(inbox->folded_name);
        free(inbox);
    }
    g_ptr_array_unref(inboxes->items);
    email_list_release(&inboxes->sent.emails);
    g_string_chunk_free(inboxes->texts);
    g_hash_table_unref(inboxes->by_id);
    g_hash_table_unref(inboxes->by_name);
    g_array_unref(index->emails.entries);
    g_string_chunk_free(index->emails.names);
}

void index_release(struct index *index)
{
    if (index->cache == NULL)
        return;
    release_tables(index);
    pthread_mutex_destroy(&index->write_lock);
    pthread_rwlock_destroy(&index->read_lock);
    *index = (struct index){0};
}

/* ---------------------------------------------------------------- the cache */

/* Rows that contradict each other are damage, since rows are written in transactions. */
static int load_inbox(void *context, const struct inbox_row *row)
{
    struct index *index = context;
    if (index->inboxes_changed_ms < row->record_ms)
        index->inboxes_changed_ms = row->record_ms;
    if (row->is_gone)
        return 0;
    index->size.bytes += row->json_len;
    int error = inbox_table_put(&index->inboxes, row);
    return error == -EBADMSG ? -EUCLEAN : error;
}

/* Takes no lock, since no reader exists yet. */
static int load_email(void *context, const struct email_view *row, const char *key)
{
    struct index *index = context;
    struct inbox *inbox = inbox_table_get(&index->inboxes, row->inbox);
    if (inbox == NULL || row->number < index->emails.entries->len || row->number >= EMAILS_NUMBER_MAX ||
        row->json_len > EMAIL_RECORD_MAX_BYTES || !file_name_is_valid(row->name))
        return -EUCLEAN;
    struct email_entry *entry = email_table_add(&index->emails, &inbox->emails, row->number, row->name, key);
    if (entry == NULL) /* two emails of one key or of one name */
        return -EUCLEAN;
    const char *name = entry->view.name;
    entry->view = *row;
    entry->view.name = name;
    email_list_add_to_sums(&inbox->emails, entry, 1);
    inbox->row.changed_ms = MAX(inbox->row.changed_ms, row->seen_ms);
    index->shows_quarantine |= row->is_quarantined && inbox->row.number != STORE_SENT;
    index->size.emails++;
    index->size.bytes += row->json_len;
    index->next_record = MAX(index->next_record, row->record + 1);
    return 0;
}

int index_open(struct index *index, struct clock *clock, const struct store_listener *listener,
               const struct event_listener *events, struct cache *cache)
{
    const struct cache_visitor visitor = {load_inbox, load_email, index};
    struct cache_state state = {.is_first_sync_done = false};
    pthread_rwlockattr_t attributes;
    *index = (struct index){.cache = cache,
                            .clock = clock,
                            .listener = *listener,
                            .events = *events,
                            .max = {INDEX_EMAILS_MAX, INDEX_BYTES_MAX}};
    pthread_mutex_init(&index->write_lock, NULL);
    pthread_rwlockattr_init(&attributes);
    /* By default, a stream of readers could block a writer for ever. */
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&index->read_lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    init_tables(index);
    int error = cache_load(cache, &visitor, &state);
    if (error == -EUCLEAN) {
        release_tables(index);
        init_tables(index);
        state = (struct cache_state){.is_first_sync_done = false};
        error = cache_renew(cache);
    }
    index->next_record = MAX(index->next_record, state.next_record);
    index->is_first_sync_done = state.is_first_sync_done;
    /* If the first sync was not finished, all inboxes are still being backfilled. */
    index->inboxes.sent.row.is_backfilling = !state.is_first_sync_done;
    for (guint i = 0; i < index->inboxes.items->len; i++) {
        struct inbox *inbox = inbox_table_get(&index->inboxes, i);
        if (inbox != NULL)
            inbox->row.is_backfilling |= !state.is_first_sync_done;
    }
    return error;
}

bool index_renew_cache(struct index *index)
{
    LOCK_GUARD(&index->write_lock);
    if (!atomic_load(&index->cache->is_damaged) || cache_renew(index->cache) != 0)
        return false;
    atomic_fetch_add(&index->lost, 1);
    /* If the program restarts before the next complete lists, those lists must announce nothing. */
    index->is_first_sync_unsaved = true;
    for (guint i = 0; i < index->inboxes.items->len; i++) {
        struct inbox *inbox = inbox_table_get(&index->inboxes, i);
        if (inbox != NULL)
            inbox->is_unsaved = true;
    }
    return true;
}

/* ---------------------------------------------------------------- reports */

int index_check_room_locked(const struct index *index, size_t emails, uint64_t bytes)
{
    return index->size.emails + emails > index->max.emails || index->size.bytes + bytes > index->max.bytes
               ? -EDQUOT
               : 0;
}

struct index_size index_get_size(struct index *index)
{
    READ_GUARD(&index->read_lock);
    return index->size;
}

uint32_t index_begin_listing(struct index *index)
{
    LOCK_GUARD(&index->write_lock);
    if (++index->last_listing == 0)
        index->last_listing = 1;
    return index->last_listing;
}

bool index_end_first_sync(struct index *index)
{
    LOCK_GUARD(&index->write_lock);
    bool is_first = !index->is_first_sync_done;
    index->is_first_sync_done = true;
    if (is_first || index->is_first_sync_unsaved) {
        struct connection *connection = NULL;
        int error = cache_begin_write(index->cache, &connection);
        if (error == 0)
            error = cache_end_write(index->cache, cache_set_first_sync_done(connection));
        index->is_first_sync_unsaved = error != 0;
    }
    return is_first;
}

void index_report_lost_record(struct index *index)
{
    if (atomic_fetch_add(&index->lost, 1) == 0)
        log_warning("records in the cache cannot be read: the file was changed, or the disk fails; "
                    "'sync' in ctl asks the service for them");
}

void index_delete_replaced(struct index *index)
{
    LOCK_GUARD(&index->write_lock);
    if (atomic_load(&index->open_jsonl_files) == 0)
        cache_delete_replaced(index->cache);
}

void index_notify_email(const struct index *index, uint32_t email, enum store_change change)
{
    if (index->listener.email_changed != NULL)
        index->listener.email_changed(index->listener.context, email, change);
}

void index_notify_inbox(const struct index *index, uint32_t inbox, enum store_change change,
                        const char *former_name)
{
    if (index->listener.inbox_changed != NULL)
        index->listener.inbox_changed(index->listener.context, inbox, change, former_name);
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

/* ---------------------------------------------------------------- queries */

enum {
    SKIP_MAX = 4096 /* entries examined before the lock is released */
};

/* Returns false if there is no such email. */
static bool fill_in_email(const struct index *index, uint32_t number, struct email_view *ret)
{
    const struct email_entry *entry = email_table_find(&index->emails, number);
    if (entry == NULL)
        return false;
    *ret = entry->view;
    return true;
}

/* Finds an inbox, or STORE_SENT. Returns NULL if there is no such inbox, or it is gone. */
static const struct inbox *get_live_locked(struct index *index, uint32_t number)
{
    const struct inbox *inbox = inbox_table_get(&index->inboxes, number);
    return inbox == NULL || inbox->row.is_gone ? NULL : inbox;
}

static bool fill_in_inbox(const struct inbox *inbox, struct inbox_view *ret)
{
    if (inbox == NULL || inbox->row.number == STORE_SENT)
        return false;
    *ret = (struct inbox_view){
        .number = inbox->row.number,
        .name = inbox->row.name,
        .id = inbox->row.id,
        .address = inbox->row.address,
        .json_len = inbox->row.json_len,
        .changed_ms = inbox->row.changed_ms,
        .record_ms = inbox->row.record_ms,
        .emails = inbox->emails.live,
        .quarantined = inbox->emails.quarantined,
        .jsonl_bytes = inbox->emails.jsonl_bytes,
    };
    return true;
}

bool store_find_inbox(struct store *store, const char *name, struct inbox_view *ret)
{
    READ_GUARD(&store->index.read_lock);
    const struct inbox *inbox = find_similar_name(&store->index.inboxes, name);
    return inbox != NULL && strcmp(inbox->row.name, name) == 0 && fill_in_inbox(inbox, ret);
}

bool store_get_inbox(struct store *store, uint32_t inbox, struct inbox_view *ret)
{
    READ_GUARD(&store->index.read_lock);
    return fill_in_inbox(get_live_locked(&store->index, inbox), ret);
}

bool index_find_inbox_by_id(struct index *index, const char *id, uint32_t *ret_inbox)
{
    READ_GUARD(&index->read_lock);
    const struct inbox *inbox = inbox_table_find_id(&index->inboxes, id);
    if (inbox == NULL || inbox->row.is_gone)
        return false;
    *ret_inbox = inbox->row.number;
    return true;
}

bool store_find_email(struct store *store, uint32_t inbox_number, bool is_quarantined, const char *name,
                      struct email_view *ret)
{
    struct index *index = &store->index;
    READ_GUARD(&index->read_lock);
    const struct inbox *inbox = get_live_locked(index, inbox_number);
    uint32_t number = inbox == NULL ? NUMBER_NONE : email_list_find_name(&inbox->emails, name);
    const struct email_entry *entry = email_table_find(&index->emails, number);
    if (entry == NULL || entry->view.is_gone || entry->view.is_quarantined != is_quarantined)
        return false;
    *ret = entry->view;
    return true;
}

bool store_shows_quarantine(struct store *store)
{
    return atomic_load(&store->index.shows_quarantine);
}

bool store_knows_all_mail(struct store *store)
{
    return atomic_load(&store->index.is_first_sync_done);
}

bool store_get_email(struct store *store, uint32_t email, struct email_view *ret)
{
    READ_GUARD(&store->index.read_lock);
    return fill_in_email(&store->index, email, ret);
}

/* If the record is replaced and deleted during the read, reads the new record. The cache has no record of an
 * email that is gone. */
int store_read_email(struct store *store, uint32_t email, char **ret_json, size_t *ret_len)
{
    struct email_view view = {.record = 0};
    uint64_t tried = 0;
    int error = -ENOENT;
    while (error == -ENOENT && store_get_email(store, email, &view) && view.record != tried) {
        tried = view.record;
        error = cache_read_record(&store->cache, view.record, view.json_len, ret_json);
    }
    *ret_len = view.json_len;
    if (error == 0 || error == -ENOMEM || tried == 0)
        return error;
    index_report_lost_record(&store->index);
    return -EIO;
}

int store_read_inbox(struct store *store, uint32_t inbox, char **ret_json, size_t *ret_len)
{
    READ_GUARD(&store->index.read_lock);
    const struct inbox *found = get_live_locked(&store->index, inbox);
    if (found == NULL || found->row.json == NULL)
        return -ENOENT;
    *ret_len = found->row.json_len;
    *ret_json = g_memdup2(found->row.json, found->row.json_len + 1);
    return 0;
}

bool store_next_inbox(struct store *store, uint64_t *position, struct inbox_view *ret)
{
    struct index *index = &store->index;
    READ_GUARD(&index->read_lock);
    while (*position < index->inboxes.items->len)
        if (fill_in_inbox(get_live_locked(index, (uint32_t)(*position)++), ret))
            return true;
    return false;
}

/* Releases the lock after every SKIP_MAX entries, so that writers need not wait long. */
size_t store_list_emails(struct store *store, uint32_t inbox_number, bool is_quarantined, uint64_t position,
                         struct email_view *ret, uint64_t *ret_positions, size_t max)
{
    struct index *index = &store->index;
    size_t filled = 0;
    bool is_end = false;
    while (filled < max && !is_end) {
        READ_GUARD(&index->read_lock);
        const struct inbox *inbox = get_live_locked(index, inbox_number);
        size_t len = inbox == NULL ? 0 : inbox->emails.order->len;
        for (size_t looked = 0; position < len && looked < SKIP_MAX && filled < max; looked++) {
            const struct email_entry *entry =
                email_table_find(&index->emails, email_list_get(&inbox->emails, position++));
            if (entry->view.is_gone || entry->view.is_quarantined != is_quarantined)
                continue;
            ret[filled] = entry->view;
            ret_positions[filled++] = position;
        }
        is_end = position >= len;
    }
    return filled;
}

int64_t store_inboxes_changed_ms(struct store *store)
{
    READ_GUARD(&store->index.read_lock);
    return store->index.inboxes_changed_ms;
}

struct index_shown index_count_shown(struct index *index)
{
    struct index_shown shown = {0};
    READ_GUARD(&index->read_lock);
    for (uint32_t i = 0; i < index->inboxes.items->len; i++) {
        const struct inbox *inbox = get_live_locked(index, i);
        shown.inboxes += inbox != NULL;
        shown.emails += inbox != NULL ? inbox->emails.live : 0;
    }
    return shown;
}

uint32_t index_find_inbox_of_no_name(struct index *index)
{
    READ_GUARD(&index->read_lock);
    const struct inbox *inbox = index->inboxes.of_no_name;
    return inbox == NULL || inbox->row.is_gone ? NUMBER_NONE : inbox->row.number;
}

/* ---------------------------------------------------------------- senders */

/* Finds an inbox with this address or, if `address` is NULL, the only inbox that has an address. Returns NULL
 * if there is none or, without `address`, more than one. */
static const struct inbox *find_sender_locked(struct index *index, const char *address)
{
    const struct inbox *found = NULL;
    for (uint32_t i = 0; i < index->inboxes.items->len; i++) {
        const struct inbox *inbox = get_live_locked(index, i);
        if (inbox == NULL || inbox->row.address == NULL)
            continue;
        if (address != NULL && address_equals(inbox->row.address, address))
            return inbox;
        if (address == NULL && found != NULL)
            return NULL;
        if (address == NULL)
            found = inbox;
    }
    return found;
}

int index_find_sender(struct index *index, const char *address, char **ret_address)
{
    READ_GUARD(&index->read_lock);
    const struct inbox *inbox = find_sender_locked(index, address);
    const char *sender = inbox != NULL ? inbox->row.address : NULL;
    if (sender == NULL && !index->inboxes_are_listed)
        sender = address;
    if (sender == NULL)
        return -EADDRNOTAVAIL;
    *ret_address = g_strdup(sender);
    return 0;
}

bool index_has_address(struct index *index, const char *address)
{
    READ_GUARD(&index->read_lock);
    return find_sender_locked(index, address) != NULL;
}

/* ---------------------------------------------------------------- ids */

const char *store_get_email_id(struct store *store, uint32_t email)
{
    READ_GUARD(&store->index.read_lock);
    const struct email_entry *entry = email_table_find(&store->index.emails, email);
    return entry == NULL ? NULL : email_view_id(&entry->view);
}

static uint32_t find_id_locked(struct index *index, uint32_t number, const char *id)
{
    const struct inbox *inbox = get_live_locked(index, number);
    if (inbox == NULL)
        return NUMBER_NONE;
    uint32_t email = email_list_find_key(&inbox->emails, id);
    const struct email_entry *entry = email_table_find(&index->emails, email);
    return entry == NULL || !email_entry_is_shown(entry) ? NUMBER_NONE : email;
}

bool store_find_email_by_id(struct store *store, uint32_t inbox, const char *id, struct email_view *ret)
{
    struct index *index = &store->index;
    READ_GUARD(&index->read_lock);
    uint32_t email = find_id_locked(index, inbox, id);
    for (uint32_t i = 0; i < index->inboxes.items->len && email == NUMBER_NONE; i++)
        email = find_id_locked(index, i, id);
    return fill_in_email(index, email, ret);
}

bool store_find_sent_by_id(struct store *store, const char *id, struct email_view *ret)
{
    READ_GUARD(&store->index.read_lock);
    return fill_in_email(&store->index, find_id_locked(&store->index, STORE_SENT, id), ret);
}

/* ---------------------------------------------------------------- order */

static int compare_numbers(const void *one, const void *other)
{
    const uint32_t *a = one;
    const uint32_t *b = other;
    return *a < *b ? -1 : *a > *b;
}

bool index_find_position(struct index *index, uint32_t email, uint32_t *ret_inbox, size_t *ret_position)
{
    READ_GUARD(&index->read_lock);
    const struct email_entry *entry = email_table_find(&index->emails, email);
    const struct inbox *inbox = entry == NULL ? NULL : inbox_table_get(&index->inboxes, entry->view.inbox);
    if (inbox == NULL)
        return false;
    guint position = 0;
    bool is_found = g_array_binary_search(inbox->emails.order, &email, compare_numbers, &position);
    *ret_inbox = entry->view.inbox;
    *ret_position = position;
    return is_found;
}

size_t index_list_from(struct index *index, uint32_t number, size_t position, int step, uint32_t *ret_emails,
                       size_t max)
{
    size_t len = 0;
    READ_GUARD(&index->read_lock);
    const struct inbox *inbox = get_live_locked(index, number);
    if (inbox == NULL)
        return 0;
    const size_t end = inbox->emails.order->len;
    if (position == INDEX_LAST)
        position = end - 1;
    /* A position below 0 wraps around to a huge one, which ends the loop. */
    for (size_t looked = 0; looked < max && position < end; looked++, position += (size_t)step) {
        uint32_t email = email_list_get(&inbox->emails, position);
        if (email_entry_is_shown(email_table_find(&index->emails, email)))
            ret_emails[len++] = email;
    }
    return len;
}
