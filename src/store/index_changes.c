/* SPDX-License-Identifier: MIT */
/*
 * A change is written to the cache before read_lock is taken for writing, since no reader may wait for the
 * disk.
 */
#include "store/index_changes.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "mail/file_name.h"
#include "store/search_index.h"

/* ---------------------------------------------------------------- flushing */

static int write_item(struct connection *connection, const struct email_batch *batch,
                      const struct index *index, const struct batch_item *item)
{
    const struct email_entry *before = email_table_find(&index->emails, item->view.number);
    const struct email_view *email = &item->view;
    int error = cache_add_record(connection, email->record, batch->json.data + item->offset, email->json_len);
    if (error == 0)
        error = cache_put_email(connection, email, email_view_key(email));
    if (error == 0 && before->view.record != 0)
        error = cache_add_replaced(connection, before->view.record);
    if (error == 0 && email->inbox != STORE_SENT)
        error = cache_add_pending(connection, email->number, false);
    if (error == 0 && item->change == STORE_RETURNED) /* its content may still be in the cache */
        error = cache_add_pending(connection, email->number, true);
    return error;
}

static int write_batch(struct email_batch *batch, struct index *index, struct inbox *inbox, int64_t now_ms)
{
    struct connection *connection = NULL;
    int error = cache_begin_write(index->cache, &connection);
    if (error != 0)
        return error;
    if (inbox->is_unsaved)
        error = cache_put_inbox(connection, &inbox->row);
    for (size_t i = 0; i < batch->len && error == 0; i++) {
        struct batch_item *item = &batch->items[i];
        if (item->change == STORE_ADDED &&
            email_table_find(&index->emails, item->view.number)->view.record != 0)
            item->change = STORE_RETURNED;
        item->view.record = index->next_record++;
        item->view.seen_ms = now_ms;
        error = write_item(connection, batch, index, item);
    }
    error = cache_end_write(index->cache, error);
    inbox->is_unsaved = inbox->is_unsaved && error != 0;
    return error;
}

static void show_item(struct index *index, struct inbox *inbox, const struct batch_item *item)
{
    struct email_entry *known = email_table_find(&index->emails, item->view.number);
    inbox->emails.changes++;
    index->size.bytes -= known->view.json_len;
    index->size.bytes += item->view.json_len;
    index->size.emails += item->change == STORE_ADDED;
    email_list_add_to_sums(&inbox->emails, known, -1);
    known->view = item->view;
    email_list_add_to_sums(&inbox->emails, known, 1);
}

/* The time grows even if the clock was set back: the kernel compares it with the time of its listing. */
static void touch_inbox_locked(struct inbox *inbox, int64_t now_ms)
{
    inbox->row.changed_ms = inbox->row.changed_ms < now_ms ? now_ms : inbox->row.changed_ms + 1;
}

static int write_and_show_locked(struct email_batch *batch, struct index *index, struct inbox *inbox)
{
    int64_t now_ms = clock_realtime_ms(index->clock);
    int error = write_batch(batch, index, inbox, now_ms);
    if (error != 0)
        return error;
    WRITE_GUARD(&index->read_lock);
    for (size_t i = 0; i < batch->len; i++)
        show_item(index, inbox, &batch->items[i]);
    touch_inbox_locked(inbox, now_ms);
    return 0;
}

/* An email that leaves the quarantine is announced like a new email. */
static void notify_item(const struct index *index, const struct batch_item *item, const char *inbox_name)
{
    index_notify_email(index, item->view.number, item->change);
    if (inbox_name == NULL || item->view.is_quarantined ||
        (item->change != STORE_ADDED && item->change != STORE_MOVED))
        return;
    g_autofree char *path = g_strdup_printf("inboxes/%s/%s", inbox_name, item->view.name);
    index_notify_event(index, EVENT_MAIL, path, email_view_id(&item->view), NULL);
}

/* The new emails of an inbox that is being backfilled are reported as one change of the inbox. `inbox_name`
 * is NULL for sent mail. */
static void notify_batch(const struct email_batch *batch, const struct index *index, const char *inbox_name,
                         bool is_backfilling)
{
    const struct batch_item *backfilled = NULL;
    for (size_t i = 0; i < batch->len; i++) {
        if (is_backfilling && batch->items[i].change == STORE_ADDED)
            backfilled = &batch->items[i];
        else
            notify_item(index, &batch->items[i], inbox_name);
    }
    if (backfilled != NULL && inbox_name == NULL)
        index_notify_email(index, backfilled->view.number, STORE_CHANGED);
    else if (backfilled != NULL)
        index_notify_inbox(index, batch->inbox, STORE_CHANGED, NULL);
}

void email_batch_release(struct email_batch *batch)
{
    strbuf_release(&batch->json);
}

int email_batch_flush(struct email_batch *batch, struct index *index)
{
    if (batch->len == 0)
        return 0;
    int error = -ENOENT;
    const char *inbox_name = NULL;
    bool is_backfilling = true;
    pthread_mutex_lock(&index->write_lock);
    struct inbox *inbox = inbox_table_get(&index->inboxes, batch->inbox);
    if (inbox != NULL && !inbox->row.is_gone) {
        inbox_name = inbox->row.name;
        is_backfilling = inbox->row.is_backfilling;
        error = write_and_show_locked(batch, index, inbox);
    }
    pthread_mutex_unlock(&index->write_lock);
    if (error == 0)
        notify_batch(batch, index, inbox_name, is_backfilling);
    if (batch->json.capacity > 2 * EMAIL_BATCH_MAX_BYTES)
        strbuf_release(&batch->json);
    else
        strbuf_clear(&batch->json);
    batch->len = 0;
    return error;
}

/* ---------------------------------------------------------------- emails */

/* Chooses "STEM.json"; adds more of the key's digest while an email of the inbox, gone or not, has that name.
 */
static char *choose_name(const struct email_list *list, const struct email_record *record)
{
    char *name = g_strconcat(record->stem, ".json", NULL);
    for (unsigned int attempt = 1; email_list_find_name(list, name) != NUMBER_NONE; attempt++) {
        _cleanup_free_ char *stem = file_name_stem_unique(record->stem, record->key, attempt);
        g_free(name);
        name = g_strconcat(stem, ".json", NULL);
    }
    return name;
}

/* A record that the cache has lost counts as changed, so that it is written again. */
static bool is_unchanged(struct index *index, const struct email_entry *entry,
                         const struct email_record *record)
{
    _cleanup_free_ char *known = NULL;
    return entry != NULL && !entry->view.is_gone && entry->view.is_quarantined == record->is_quarantined &&
           entry->view.json_len == record->json_len &&
           cache_read_record(index->cache, entry->view.record, entry->view.json_len, &known) == 0 &&
           memcmp(known, record->json, record->json_len) == 0;
}

/* Adds a new email as one that is gone: the flush of its batch shows the email. */
static int add_unseen_email(struct index *index, struct inbox *inbox, uint32_t listing,
                            const struct email_record *record)
{
    g_autofree char *name = choose_name(&inbox->emails, record);
    if (index->emails.entries->len >= EMAILS_NUMBER_MAX)
        return -EOVERFLOW;
    WRITE_GUARD(&index->read_lock);
    struct email_entry *entry =
        email_table_add(&index->emails, &inbox->emails, index->emails.entries->len, name, record->key);
    entry->view.date_ms = clock_realtime_ms(index->clock);
    entry->seen_in = listing != 0 ? listing : index->last_listing;
    entry->view.inbox = inbox->row.number;
    entry->view.is_gone = true;
    return 0;
}

static void add_to_batch(struct email_batch *batch, struct email_entry *known,
                         const struct email_record *record)
{
    struct batch_item *item = &batch->items[batch->len];
    *item = (struct batch_item){.offset = batch->json.len, .view = known->view};
    item->change = known->view.is_gone                                    ? STORE_ADDED
                   : known->view.is_quarantined != record->is_quarantined ? STORE_MOVED
                                                                          : STORE_CHANGED;
    if (record->has_date)
        item->view.date_ms = record->date_ms;
    item->view.json_len = (uint32_t)record->json_len;
    item->view.line_len = (uint32_t)record->line_len;
    item->view.is_gone = false;
    item->view.is_quarantined = record->is_quarantined;
    if (batch->json.max_bytes == 0)
        batch->json = STRBUF_INIT(EMAIL_BATCH_MAX_BYTES + EMAIL_RECORD_MAX_BYTES);
    strbuf_append(&batch->json, record->json, record->json_len);
    known->batch = batch->number;
    batch->len++;
}

/* Returns -EAGAIN if the batch has to be flushed first. */
static int put_email_locked(struct index *index, struct email_batch *batch, uint32_t inbox_number,
                            const struct email_record *record, bool *ret_is_changed)
{
    struct inbox *inbox = inbox_table_get(&index->inboxes, inbox_number);
    if (inbox == NULL || inbox->row.is_gone)
        return -ENOENT;
    if (record->json_len > EMAIL_RECORD_MAX_BYTES || strlen(record->key) > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    bool is_full = batch->len == EMAIL_BATCH_MAX || batch->json.len >= EMAIL_BATCH_MAX_BYTES;
    uint32_t email = email_list_find_key(&inbox->emails, record->key);
    struct email_entry *entry = email_table_find(&index->emails, email);
    bool is_in_batch = entry != NULL && entry->batch == batch->number;
    if (batch->len > 0 && (batch->inbox != inbox_number || is_full || is_in_batch))
        return -EAGAIN;
    *ret_is_changed = !is_unchanged(index, entry, record);
    if (entry != NULL && batch->listing != 0) {
        entry->seen_in = batch->listing;
        entry->missing_ms = 0;
    }
    if (!*ret_is_changed)
        return 0;
    bool is_new = entry == NULL || entry->view.record == 0;
    size_t known_len = entry == NULL ? 0 : entry->view.json_len;
    int error = 0;
    if (record->json_len > known_len)
        error = index_check_room_locked(index, is_new ? batch->len + 1 : 0,
                                        batch->json.len + record->json_len - known_len);
    if (error == 0 && entry == NULL)
        error = add_unseen_email(index, inbox, batch->listing, record);
    if (error != 0)
        return error;
    if (entry == NULL)
        email = index->emails.entries->len - 1;
    if (batch->len == 0) {
        batch->inbox = inbox_number;
        batch->number = ++index->last_batch;
    }
    add_to_batch(batch, email_table_find(&index->emails, email), record);
    return 0;
}

int index_put_email(struct index *index, struct email_batch *batch, uint32_t inbox,
                    const struct email_record *record, bool *ret_is_changed)
{
    int error;
    do {
        pthread_mutex_lock(&index->write_lock);
        error = put_email_locked(index, batch, inbox, record, ret_is_changed);
        pthread_mutex_unlock(&index->write_lock);
    } while (error == -EAGAIN && (error = email_batch_flush(batch, index)) == 0);
    return error;
}

int index_put_one_email(struct index *index, uint32_t inbox, const struct email_record *record)
{
    bool is_changed;
    g_autofree struct email_batch *batch = g_new0(struct email_batch, 1);
    int error = index_put_email(index, batch, inbox, record, &is_changed);
    if (error == 0)
        error = email_batch_flush(batch, index);
    email_batch_release(batch);
    return error;
}

/* ---------------------------------------------------------------- removing emails */

/* The comparison is right even after the numbers of listings have wrapped around. */
static bool was_seen(uint32_t seen_in, uint32_t since)
{
    return seen_in != 0 && (int32_t)(seen_in - since) >= 0;
}

/* Never returns 0. Wraps around after 49 days, so callers use differences. */
static uint32_t short_monotonic_ms(const struct index *index)
{
    uint32_t now_ms = (uint32_t)clock_monotonic_ms(index->clock);
    return now_ms == 0 ? 1 : now_ms;
}

/* Call when a complete list lacks the email or inbox: the first call sets *missing_ms, and a call returns
 * true if that was INDEX_CONFIRM_MS ago or more. */
static bool is_confirmed_gone(uint32_t *missing_ms, uint32_t now_ms)
{
    if (*missing_ms == 0)
        *missing_ms = now_ms;
    return now_ms - *missing_ms >= INDEX_CONFIRM_MS;
}

/* Lists the emails that are confirmed as gone. Sets *ret_is_lacking if the list also lacks others. */
static GArray *find_confirmed_gone(struct index *index, const struct inbox *inbox, uint32_t listing,
                                   bool with_quarantined, bool *ret_is_lacking)
{
    GArray *gone = g_array_new(false, false, sizeof(uint32_t));
    uint32_t now_ms = short_monotonic_ms(index);
    for (size_t i = 0; i < inbox->emails.order->len; i++) {
        uint32_t email = email_list_get(&inbox->emails, i);
        struct email_entry *entry = email_table_find(&index->emails, email);
        if (entry->view.is_gone || (entry->view.is_quarantined && !with_quarantined) ||
            was_seen(entry->seen_in, listing))
            continue;
        if (is_confirmed_gone(&entry->missing_ms, now_ms))
            g_array_append_val(gone, email);
        else
            *ret_is_lacking = true;
    }
    return gone;
}

/* Ignores errors: after the next start, complete lists remove these emails again. */
static void delete_emails(const struct index *index, const GArray *emails)
{
    struct connection *connection = NULL;
    int error = cache_begin_write(index->cache, &connection);
    if (error != 0)
        return;
    for (guint i = 0; i < emails->len && error == 0; i++) {
        uint32_t email = g_array_index(emails, uint32_t, i);
        error = cache_delete_email(connection, email);
        if (error == 0)
            error = cache_add_replaced(connection, email_table_find(&index->emails, email)->view.record);
        if (error == 0)
            error = search_index_remove(connection, email);
    }
    (void)cache_end_write(index->cache, error);
}

static void remove_emails_locked(struct index *index, struct inbox *inbox, const GArray *emails)
{
    int64_t now_ms = clock_realtime_ms(index->clock);
    pthread_rwlock_wrlock(&index->read_lock);
    for (guint i = 0; i < emails->len; i++) {
        struct email_entry *entry = email_table_find(&index->emails, g_array_index(emails, uint32_t, i));
        email_list_add_to_sums(&inbox->emails, entry, -1);
        entry->view.is_gone = true;
        entry->missing_ms = 0;
        entry->view.seen_ms = now_ms;
    }
    inbox->emails.changes += emails->len;
    touch_inbox_locked(inbox, now_ms);
    pthread_rwlock_unlock(&index->read_lock);
    delete_emails(index, emails);
}

size_t index_remove_unseen(struct index *index, uint32_t inbox_number, uint32_t listing,
                           bool with_quarantined, bool *ret_is_lacking)
{
    *ret_is_lacking = false;
    pthread_mutex_lock(&index->write_lock);
    struct inbox *inbox = inbox_table_get(&index->inboxes, inbox_number);
    if (inbox == NULL) {
        pthread_mutex_unlock(&index->write_lock);
        return 0;
    }
    /* Hidden sent mail is not removed, so that it remains hidden if the service lists it later. */
    g_autoptr(GArray) gone = find_confirmed_gone(
        index, inbox, listing, with_quarantined && inbox_number != STORE_SENT, ret_is_lacking);
    if (gone->len > 0)
        remove_emails_locked(index, inbox, gone);
    pthread_mutex_unlock(&index->write_lock);
    for (guint i = 0; i < gone->len; i++)
        index_notify_email(index, g_array_index(gone, uint32_t, i), STORE_REMOVED);
    return gone->len;
}

bool index_has_key_in_named_inbox(struct index *index, const char *key)
{
    LOCK_GUARD(&index->write_lock);
    for (guint i = 0; i < index->inboxes.items->len; i++) {
        const struct inbox *inbox = inbox_table_get(&index->inboxes, i);
        if (inbox == NULL || inbox->row.is_gone || inbox == index->inboxes.of_no_name)
            continue;
        uint32_t email = email_list_find_key(&inbox->emails, key);
        if (email != NUMBER_NONE && !email_table_find(&index->emails, email)->view.is_gone)
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- inboxes */

enum {
    INBOX_TEXT_MAX_BYTES = 4 * 1024 * 1024
};

/* A change of an inbox, which is reported after the locks are released. */
struct inbox_change {
    enum store_change change;
    uint32_t inbox;
    const char *name;        /* lives as long as the index, like all names and ids; NULL if nothing changed */
    const char *former_name; /* NULL if the folder keeps its name, or is new */
    const char *id;
    bool is_announced;
};

static void notify_inbox_change(const struct index *index, const struct inbox_change *change)
{
    if (change->name == NULL)
        return;
    index_notify_inbox(index, change->inbox, change->change, change->former_name);
    if (!change->is_announced)
        return;
    g_autofree char *path = g_strdup_printf("inboxes/%s", change->name);
    index_notify_event(index, EVENT_INBOX, path, change->id, NULL);
}

/* After an error the row is written again with the next emails. */
static void write_inbox(struct index *index, struct inbox *inbox)
{
    struct connection *connection = NULL;
    int error = cache_begin_write(index->cache, &connection);
    if (error == 0)
        error = cache_end_write(index->cache, cache_put_inbox(connection, &inbox->row));
    inbox->is_unsaved = error != 0;
}

/* Before the end of the first sync, only inboxes created by this store are announced. When the service lists
 * a created inbox, it is not announced a second time. */
static bool is_announced(const struct index *index, const struct inbox *inbox, enum inbox_origin origin,
                         const char *name)
{
    if (origin == INBOX_CREATED)
        return true;
    bool is_created_here = inbox != NULL && !inbox->row.is_gone && inbox->row.origin == INBOX_CREATED &&
                           strcmp(inbox->row.name, name) == 0;
    return index->is_first_sync_done && !is_created_here;
}

/* `inbox` is NULL if it is new. */
static int put_row_locked(struct index *index, const struct inbox *inbox, const struct inbox_row *row)
{
    size_t len_before = inbox == NULL ? 0 : inbox->row.json_len;
    bool names_change = inbox == NULL || inbox->row.is_gone || strcmp(inbox->row.name, row->name) != 0;
    int error =
        row->json_len > len_before ? index_check_room_locked(index, 0, row->json_len - len_before) : 0;
    if (error != 0)
        return error;
    WRITE_GUARD(&index->read_lock);
    error = inbox_table_put(&index->inboxes, row);
    if (error != 0)
        return error;
    if (names_change)
        index->inboxes_changed_ms = row->record_ms;
    index->size.bytes += row->json_len - len_before;
    return 0;
}

static int put_record_locked(struct index *index, struct inbox *inbox, const struct inbox_record *record,
                             enum inbox_origin origin, const char *name, struct inbox_change *change)
{
    int64_t now_ms = clock_realtime_ms(index->clock);
    const struct inbox_row row = {
        .number = inbox == NULL ? index->inboxes.items->len : inbox->row.number,
        .origin = origin,
        .is_backfilling =
            inbox == NULL ? !index->is_first_sync_done && origin != INBOX_CREATED : inbox->row.is_backfilling,
        .record_ms = now_ms,
        .changed_ms = now_ms,
        .id = record->id,
        .address = record->address,
        .name = name,
        .json = record->json,
        .json_len = record->json_len,
    };
    bool is_new = inbox == NULL || inbox->row.is_gone;
    if (!is_new && inbox->row.origin >= origin && strcmp(inbox->row.name, name) == 0 &&
        inbox->row.json_len == row.json_len && memcmp(inbox->row.json, row.json, row.json_len) == 0)
        return 0;
    bool must_announce = is_announced(index, inbox, origin, name);
    const char *former_name = is_new || strcmp(inbox->row.name, name) == 0 ? NULL : inbox->row.name;
    int error = put_row_locked(index, inbox, &row);
    if (error != 0)
        return error;
    inbox = inbox_table_get(&index->inboxes, row.number);
    write_inbox(index, inbox);
    *change = (struct inbox_change){
        .change = is_new ? STORE_ADDED : STORE_CHANGED,
        .inbox = row.number,
        .name = inbox->row.name,
        .former_name = former_name,
        .id = inbox->row.id,
        .is_announced = must_announce,
    };
    return 0;
}

static struct inbox *find_inbox(const struct index *index, const char *id, enum inbox_origin origin)
{
    return origin == INBOX_OF_NO_NAME ? index->inboxes.of_no_name : inbox_table_find_id(&index->inboxes, id);
}

int index_put_inbox(struct index *index, const struct inbox_record *record, enum inbox_origin origin,
                    uint32_t listing, uint32_t *ret_number)
{
    struct inbox_change change = {0};
    int error = 0;
    if (strlen(record->id) > INBOX_TEXT_MAX_BYTES || record->json_len > INBOX_TEXT_MAX_BYTES)
        return -EMSGSIZE;
    pthread_mutex_lock(&index->write_lock);
    struct inbox *inbox = find_inbox(index, record->id, origin);
    if (inbox == NULL || inbox->row.is_gone || origin > INBOX_FROM_MAIL) {
        _cleanup_free_ char *name =
            inbox_table_choose_name(&index->inboxes, inbox, record->id, record->address);
        error = put_record_locked(index, inbox, record, origin, name, &change);
        inbox = find_inbox(index, record->id, origin);
    }
    if (error == 0) {
        inbox->seen_in = listing != 0 ? listing : index->last_listing;
        inbox->missing_ms = 0;
        if (ret_number != NULL)
            *ret_number = inbox->row.number;
    }
    pthread_mutex_unlock(&index->write_lock);
    notify_inbox_change(index, &change);
    return error;
}

int index_put_inbox_of_no_name(struct index *index, uint32_t *ret_number)
{
    struct inbox_record record = {0};
    int error = inbox_record_from_id("unknown", &record);
    if (error == 0)
        error = index_put_inbox(index, &record, INBOX_OF_NO_NAME, 0, ret_number);
    inbox_record_release(&record);
    return error;
}

void index_touch_inboxes(struct index *index)
{
    int64_t now_ms = clock_realtime_ms(index->clock);
    pthread_mutex_lock(&index->write_lock);
    pthread_rwlock_wrlock(&index->read_lock);
    uint32_t len = index->inboxes.items->len;
    for (uint32_t i = 0; i < len; i++) {
        struct inbox *inbox = inbox_table_get(&index->inboxes, i);
        if (inbox != NULL)
            touch_inbox_locked(inbox, now_ms);
    }
    pthread_rwlock_unlock(&index->read_lock);
    pthread_mutex_unlock(&index->write_lock);
    for (uint32_t i = 0; i < len; i++)
        index_notify_inbox(index, i, STORE_CHANGED, NULL);
}

void index_set_quarantine_shown(struct index *index)
{
    if (atomic_exchange(&index->shows_quarantine, true))
        return;
    for (uint32_t i = 0; i < index_count_inbox_numbers(index); i++)
        index_notify_inbox(index, i, STORE_CHANGED, NULL);
}

/* Returns the name of the folder if the inbox was removed, else NULL. */
static const char *remove_unlisted(struct index *index, uint32_t number, uint32_t listing)
{
    LOCK_GUARD(&index->write_lock);
    struct inbox *inbox = inbox_table_get(&index->inboxes, number);
    if (inbox == NULL || inbox->row.is_gone || inbox->row.origin == INBOX_OF_NO_NAME ||
        (inbox->row.origin == INBOX_FROM_MAIL && inbox->emails.live > 0) ||
        was_seen(inbox->seen_in, listing) ||
        !is_confirmed_gone(&inbox->missing_ms, short_monotonic_ms(index)))
        return NULL;
    int64_t now_ms = clock_realtime_ms(index->clock);
    pthread_rwlock_wrlock(&index->read_lock);
    inbox_table_remove(&index->inboxes, inbox);
    inbox->missing_ms = 0;
    inbox->row.record_ms = now_ms;
    index->inboxes_changed_ms = now_ms;
    pthread_rwlock_unlock(&index->read_lock);
    write_inbox(index, inbox);
    return inbox->row.name;
}

void index_end_inbox_list(struct index *index, uint32_t listing)
{
    atomic_store(&index->inboxes_are_listed, true);
    for (uint32_t number = 0; number < index_count_inbox_numbers(index); number++) {
        const char *name = remove_unlisted(index, number, listing);
        if (name != NULL)
            index_notify_inbox(index, number, STORE_REMOVED, name);
    }
}

uint32_t index_count_inbox_numbers(struct index *index)
{
    READ_GUARD(&index->read_lock);
    return index->inboxes.items->len;
}

uint64_t index_count_changes(struct index *index, uint32_t number)
{
    READ_GUARD(&index->read_lock);
    const struct inbox *inbox = inbox_table_get(&index->inboxes, number);
    return inbox == NULL ? 0 : inbox->emails.changes;
}

void index_end_backfilling(struct index *index, uint32_t number)
{
    LOCK_GUARD(&index->write_lock);
    struct inbox *inbox = inbox_table_get(&index->inboxes, number);
    if (inbox == NULL || (!inbox->row.is_backfilling && !inbox->is_unsaved))
        return;
    inbox->row.is_backfilling = false;
    if (number != STORE_SENT)
        write_inbox(index, inbox);
}
