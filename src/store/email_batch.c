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
    record_batch_release(&batch->frames);
}

bool email_batch_is_full(const struct email_batch *batch)
{
    return batch->len == EMAIL_BATCH_MAX || batch->frames.len >= EMAIL_BATCH_MAX_BYTES;
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

int email_batch_add_locked(struct email_batch *batch, struct mirror *mirror,
                           const struct email_record *record, struct hashed_text key, struct hashed_text name)
{
    size_t i = batch->len;
    int64_t now_ms = clock_realtime_ms(mirror->clock);
    const struct email_frame frame = {
        .inbox = batch->inbox,
        .json_len = (uint32_t)record->json_len,
        .date_ms = record->has_date ? record->date_ms : now_ms,
        .seen_ms = now_ms,
        .key_len = (uint32_t)strlen(key.text),
        .name_len = (uint32_t)strlen(name.text),
        .line_len = (uint32_t)record->line_len,
        .flags = record->is_held ? EMAIL_IS_HELD : 0,
    };
    const struct email_parts parts = {.key = key.text, .name = name.text, .json = record->json};
    const char *kept_name = email_index_keep_texts(mirror->emails, name.text, key.text);
    if (kept_name == NULL)
        return -ENOMEM;
    int error = email_frame_add(&batch->frames, &frame, &parts, &batch->offsets[i]);
    if (error != 0)
        return error;
    batch->entries[i] = (struct email_entry){
        .name = kept_name,
        .date_ms = frame.date_ms,
        .json_len = frame.json_len,
        .line_len = frame.line_len,
        .inbox = frame.inbox & EMAIL_INBOX_MAX,
        .seen_in = batch->look,
        .is_held = record->is_held,
    };
    put_hash(&batch->keys, i, key.hash);
    put_hash(&batch->names, i, name.hash);
    batch->len++;
    return 0;
}

/* ---------------------------------------------------------------- flushing */

/* What is told once the locks are released. */
struct news {
    bool is_quiet;
    uint32_t first; /* number of the first email; the others follow */
    const char *inbox_name;
};

static int publish_locked(struct email_batch *batch, struct mirror *mirror, struct inbox *inbox,
                          struct news *news)
{
    struct email_room room;
    int error = email_index_prepare(mirror->emails, &inbox->emails, (uint32_t)batch->len, &room);
    if (error != 0)
        return error;
    uint64_t position = record_log_append_batch(mirror->log, &batch->frames);
    if (position == RECORD_NOWHERE) {
        email_room_release(&room);
        return -ENOMEM;
    }
    int64_t now_ms = clock_realtime_ms(mirror->clock);
    news->first = email_index_len(mirror->emails);
    pthread_rwlock_wrlock(&mirror->read_lock);
    email_list_take_room(&inbox->emails, &room);
    for (size_t i = 0; i < batch->len; i++) {
        batch->entries[i].position = position + batch->offsets[i];
        email_index_add(mirror->emails, &inbox->emails, &batch->entries[i], batch->keys.values[i],
                        batch->names.values[i]);
    }
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
    return publish_locked(batch, mirror, inbox, news);
}

static void tell_of_email(const struct mirror *mirror, uint32_t number, const struct email_entry *entry,
                          const struct news *news)
{
    const char *key = email_entry_key(entry);
    _cleanup_free_ char *path = NULL;
    if (asprintf(&path, "inboxes/%s/%s", news->inbox_name, entry->name) < 0)
        path = NULL;
    mirror_tell_email(mirror, number, STORE_ADDED);
    if (!entry->is_held)
        mirror_tell_event(mirror, EVENT_MAIL, path, key[0] == '~' ? NULL : key, NULL);
}

/* What was there before the account was first looked at makes one change of its inbox, however much it is. */
static void tell(const struct email_batch *batch, const struct mirror *mirror, const struct news *news)
{
    if (news->is_quiet) {
        mirror_tell_inbox(mirror, batch->inbox, STORE_CHANGED);
        return;
    }
    for (size_t i = 0; i < batch->len; i++)
        tell_of_email(mirror, news->first + (uint32_t)i, &batch->entries[i], news);
}

static void clear(struct email_batch *batch)
{
    record_batch_clear(&batch->frames);
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
