/* SPDX-License-Identifier: MIT */
/*
 * Batches: what is slow (the cache, larger tables) happens before readers are shut out, for as short a moment
 * as it takes to put numbers into tables.
 */
#include "store/email_batch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void email_batch_release(struct email_batch *batch)
{
    strbuf_release(&batch->texts);
}

bool email_batch_is_full(const struct email_batch *batch)
{
    return batch->len == EMAIL_BATCH_MAX || batch->texts.len >= EMAIL_BATCH_MAX_BYTES;
}

static bool has_hash(const struct batch_hashes *hashes, size_t len, uint32_t hash)
{
    uint32_t bit = hash % BATCH_HASH_BITS;
    if ((hashes->bits[bit / 64] >> bit % 64 & 1) == 0)
        return false;
    for (size_t i = 0; i < len; i++)
        if (hashes->values[i] == hash)
            return true;
    return false;
}

static void put_hash(struct batch_hashes *hashes, size_t i, uint32_t hash)
{
    uint32_t bit = hash % BATCH_HASH_BITS;
    hashes->values[i] = hash;
    hashes->bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

bool email_batch_has_key(const struct email_batch *batch, uint32_t key_hash)
{
    return has_hash(&batch->keys, batch->len, key_hash);
}

bool email_batch_has_name(const struct email_batch *batch, uint32_t name_hash)
{
    return has_hash(&batch->names, batch->len, name_hash);
}

int email_batch_add_locked(struct email_batch *batch, struct mirror *mirror, enum mirror_put put,
                           uint32_t number, const struct email_record *record, struct hashed_text key,
                           struct hashed_text name)
{
    struct batch_item *item = &batch->items[batch->len];
    const struct email_entry *known = email_index_find(mirror->emails, number);
    int64_t date_ms = known != NULL ? known->date_ms : clock_realtime_ms(mirror->clock);
    *item = (struct batch_item){
        .put = put,
        .number = number,
        .offset = batch->texts.len,
        .entry =
            {
                .name =
                    known != NULL ? known->name : email_index_keep_texts(mirror->emails, name.text, key.text),
                .date_ms = record->has_date ? record->date_ms : date_ms,
                .json_len = (uint32_t)record->json_len,
                .line_len = (uint32_t)record->line_len,
                .inbox = batch->inbox & EMAIL_INBOX_MAX,
                .seen_in = batch->look,
                .is_held = record->is_held,
            },
    };
    if (item->entry.name == NULL)
        return -ENOMEM;
    if (batch->texts.max_bytes == 0)
        batch->texts = STRBUF_INIT(EMAIL_BATCH_MAX_BYTES + EMAIL_RECORD_MAX_BYTES);
    int error = strbuf_append(&batch->texts, record->json, record->json_len);
    if (error != 0)
        return error;
    put_hash(&batch->keys, batch->len, key.hash);
    put_hash(&batch->names, batch->len, name.hash);
    batch->len++;
    return 0;
}

/* ---------------------------------------------------------------- flushing */

/* What is told once the locks are released. */
struct news {
    bool is_quiet;
    const char *inbox_name;
};

static const char *json_of(const struct email_batch *batch, const struct batch_item *item)
{
    return batch->texts.data + item->offset;
}

static int write_item(struct email_batch *batch, struct mirror *mirror, const struct batch_item *item,
                      int64_t now_ms)
{
    struct records *records = &mirror->records;
    const struct email_entry *before = email_index_find(mirror->emails, item->number);
    struct email_row row = mirror_email_row(item->number, &item->entry, now_ms);
    int error = records_add_text(records, row.text, json_of(batch, item), row.json_len);
    if (error == 0)
        error = records_put_email(records, &row);
    if (error == 0 && before != NULL)
        error = records_note_replaced(records, before->text);
    return error;
}

static int write_items(struct email_batch *batch, struct mirror *mirror, int64_t now_ms)
{
    int error = mirror_begin_write_locked(mirror);
    if (error != 0)
        return error;
    for (size_t i = 0; i < batch->len && error == 0; i++)
        error = write_item(batch, mirror, &batch->items[i], now_ms);
    if (error == 0)
        return records_commit(&mirror->records);
    records_abandon(&mirror->records);
    return error;
}

/* What the disk does not take does not replace what is there. */
static int keep_in_memory(struct email_batch *batch, struct mirror *mirror, int why)
{
    int error = 0;
    for (size_t i = 0; i < batch->len && error == 0; i++)
        error = records_keep_in_memory(&mirror->records, json_of(batch, &batch->items[i]),
                                       batch->items[i].entry.json_len, why, &batch->items[i].entry.text);
    return error;
}

static int write_batch(struct email_batch *batch, struct mirror *mirror, int64_t now_ms)
{
    for (size_t i = 0; i < batch->len; i++)
        batch->items[i].entry.text = mirror->records.next_text++;
    int error = write_items(batch, mirror, now_ms);
    if (error == -EUCLEAN) /* then there is another file now */
        error = write_items(batch, mirror, now_ms);
    return error == 0 ? 0 : keep_in_memory(batch, mirror, error);
}

static void show_item(struct mirror *mirror, struct inbox *inbox, const struct email_batch *batch, size_t i)
{
    const struct batch_item *item = &batch->items[i];
    struct email_entry *known = email_index_find(mirror->emails, item->number);
    if (known == NULL) {
        email_index_add(mirror->emails, &inbox->emails, item->number, &item->entry, batch->keys.values[i],
                        batch->names.values[i]);
        return;
    }
    email_list_count_out(&inbox->emails, known);
    *known = item->entry;
    email_list_count_in(&inbox->emails, known);
}

/* Gives numbers to what is new: how many. What somebody else added meanwhile is not. */
static uint32_t give_numbers(struct email_batch *batch, const struct mirror *mirror,
                             const struct inbox *inbox)
{
    uint32_t next = email_index_len(mirror->emails);
    uint32_t added = 0;
    for (size_t i = 0; i < batch->len; i++) {
        struct batch_item *item = &batch->items[i];
        if (item->number != NUMBER_NONE)
            continue;
        const struct hashed_text key = {email_entry_key(&item->entry), batch->keys.values[i]};
        item->number = email_list_find_key(mirror->emails, &inbox->emails, key);
        item->is_new = item->number == NUMBER_NONE;
        if (item->is_new)
            item->number = next + added++;
        else
            item->entry.name = email_index_find(mirror->emails, item->number)->name;
    }
    return added;
}

static int publish_locked(struct email_batch *batch, struct mirror *mirror, struct inbox *inbox)
{
    struct email_room room = {.order = NULL};
    int64_t now_ms = clock_realtime_ms(mirror->clock);
    uint32_t added = give_numbers(batch, mirror, inbox);
    int error = added == 0 ? 0
                           : email_index_prepare(mirror->emails, &inbox->emails,
                                                 email_index_len(mirror->emails), added, &room);
    if (error == 0)
        error = write_batch(batch, mirror, now_ms);
    if (error != 0) {
        email_room_release(&room);
        return error;
    }
    pthread_rwlock_wrlock(&mirror->read_lock);
    email_list_take_room(&inbox->emails, &room);
    for (size_t i = 0; i < batch->len; i++)
        show_item(mirror, inbox, batch, i);
    if (inbox->changed_ms < now_ms)
        inbox->changed_ms = now_ms;
    pthread_rwlock_unlock(&mirror->read_lock);
    email_room_release(&room);
    return 0;
}

static int flush_locked(struct email_batch *batch, struct mirror *mirror, struct news *news)
{
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, batch->inbox);
    if (inbox == NULL || inbox->is_gone)
        return -ENOENT;
    news->is_quiet = inbox->is_quiet;
    news->inbox_name = inbox->name;
    return publish_locked(batch, mirror, inbox);
}

/* Mail that is no longer held back is news, too, to whoever waits for mail. */
static void tell_of_item(const struct mirror *mirror, const struct batch_item *item, const struct news *news)
{
    static const enum store_change changes[] = {
        [MIRROR_CHANGED] = STORE_CHANGED, [MIRROR_MOVED] = STORE_MOVED, [MIRROR_ADDED] = STORE_ADDED};
    const char *key = email_entry_key(&item->entry);
    _cleanup_free_ char *path = NULL;
    if (asprintf(&path, "inboxes/%s/%s", news->inbox_name, item->entry.name) < 0)
        path = NULL;
    mirror_tell_email(mirror, item->number, changes[item->put]);
    if ((item->is_new || item->put == MIRROR_MOVED) && !item->entry.is_held)
        mirror_tell_event(mirror, EVENT_MAIL, path, key[0] == '~' ? NULL : key, NULL);
}

/* What was there before the account was first looked at makes one change of its inbox, however much it is. */
static void tell(const struct email_batch *batch, const struct mirror *mirror, const struct news *news)
{
    bool has_quiet = false;
    for (size_t i = 0; i < batch->len; i++) {
        bool is_quiet = news->is_quiet && batch->items[i].is_new;
        has_quiet |= is_quiet;
        if (!is_quiet)
            tell_of_item(mirror, &batch->items[i], news);
    }
    if (has_quiet)
        mirror_tell_inbox(mirror, batch->inbox, STORE_CHANGED);
}

static void clear(struct email_batch *batch)
{
    strbuf_clear(&batch->texts);
    if (batch->texts.capacity > 2 * EMAIL_BATCH_MAX_BYTES)
        strbuf_release(&batch->texts);
    memset(batch->keys.bits, 0, sizeof(batch->keys.bits));
    memset(batch->names.bits, 0, sizeof(batch->names.bits));
    batch->len = 0;
}

int email_batch_flush(struct email_batch *batch, struct mirror *mirror)
{
    struct news news = {.is_quiet = true};
    if (batch->len == 0)
        return 0;
    pthread_mutex_lock(&mirror->write_lock);
    int error = flush_locked(batch, mirror, &news);
    pthread_mutex_unlock(&mirror->write_lock);
    if (error == 0)
        tell(batch, mirror, &news);
    clear(batch);
    return error;
}
