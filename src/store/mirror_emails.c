/* SPDX-License-Identifier: MIT */
/*
 * Emails come one record at a time. Those that are new are collected; what changes of one that is known shows
 * at once.
 */
#include "store/mirror_emails.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/file_name.h"
#include "store/mirror_order.h"
#include "store/mirror_view.h"

enum {
    NAME_MAX_BYTES = FILE_NAME_MAX_BYTES + 16
};

static bool name_is_reserved(const char *name)
{
    return strcmp(name, "inbox.json") == 0 || strcmp(name, "index.jsonl") == 0;
}

/* "STEM.json", or with more of the key where that is taken: 0 or -ENOMEM. */
static int choose_name(const struct mirror *mirror, const struct email_list *list,
                       const struct email_record *record, char buffer[NAME_MAX_BYTES],
                       struct hashed_text *ret_name)
{
    for (unsigned int attempt = 0;; attempt++) {
        _cleanup_free_ char *longer =
            attempt == 0 ? NULL : file_name_stem_unique(record->stem, record->key, attempt);
        if (attempt > 0 && longer == NULL)
            return -ENOMEM;
        const char *stem = attempt == 0 ? record->stem : longer;
        size_t len = strlen(stem);
        if (len > NAME_MAX_BYTES - sizeof(".json"))
            return -ENOMEM;
        memcpy(mempcpy(buffer, stem, len), ".json", sizeof(".json"));
        *ret_name = email_index_hash(mirror->emails, buffer);
        if (!name_is_reserved(buffer) && email_list_find_name(mirror->emails, list, *ret_name) == NUMBER_NONE)
            return 0;
    }
}

/* *ret_frame: what was appended. The position of that, or RECORD_NOWHERE. */
static uint64_t append(struct mirror *mirror, const struct email_entry *entry,
                       const struct email_record *record, struct email_frame *ret_frame)
{
    *ret_frame = (struct email_frame){
        .inbox = entry->inbox,
        .json_len = (uint32_t)record->json_len,
        .date_ms = record->has_date ? record->date_ms : entry->date_ms,
        .seen_ms = clock_realtime_ms(mirror->clock),
        .key_len = (uint32_t)strlen(record->key),
        .name_len = (uint32_t)strlen(entry->name),
        .line_len = (uint32_t)record->line_len,
        .flags = record->is_held ? EMAIL_IS_HELD : 0,
    };
    const struct email_parts parts = {.key = record->key, .name = entry->name, .json = record->json};
    return email_frame_append(mirror->log, ret_frame, &parts);
}

static void touch_inbox(struct inbox *inbox, int64_t now_ms)
{
    if (inbox->changed_ms < now_ms)
        inbox->changed_ms = now_ms;
}

static void replace(struct mirror *mirror, struct inbox *inbox, struct email_entry *entry,
                    const struct email_frame *frame, uint64_t position)
{
    pthread_rwlock_wrlock(&mirror->read_lock);
    email_list_count_out(&inbox->emails, entry);
    entry->is_gone = false;
    entry->is_held = (frame->flags & EMAIL_IS_HELD) != 0;
    entry->position = position;
    entry->json_len = frame->json_len;
    entry->line_len = frame->line_len;
    entry->date_ms = frame->date_ms;
    email_list_count_in(&inbox->emails, entry);
    touch_inbox(inbox, frame->seen_ms);
    pthread_rwlock_unlock(&mirror->read_lock);
}

static void hide(struct mirror *mirror, struct inbox *inbox, struct email_entry *entry, int64_t now_ms)
{
    pthread_rwlock_wrlock(&mirror->read_lock);
    email_list_count_out(&inbox->emails, entry);
    entry->is_gone = true;
    touch_inbox(inbox, now_ms);
    pthread_rwlock_unlock(&mirror->read_lock);
}

/* ---------------------------------------------------------------- from the service */

/* What the cache has lost is not the same, so that it is written once more. */
static bool has_same_text(const struct mirror *mirror, const struct email_entry *entry,
                          const struct email_record *record)
{
    struct email_parts parts;
    _cleanup_free_ void *known = NULL;
    if (entry->json_len != record->json_len ||
        record_log_read(mirror->log, entry->position, email_entry_record_len(entry), &known) != 0)
        return false;
    email_frame_get_parts(known, &parts);
    return memcmp(parts.json, record->json, record->json_len) == 0;
}

static int update_locked(struct mirror *mirror, struct inbox *inbox, struct email_entry *entry,
                         const struct email_record *record, enum mirror_put *put)
{
    bool returns = entry->is_gone;
    bool moves = entry->is_held != record->is_held;
    if (!returns && !moves && has_same_text(mirror, entry, record))
        return 0;
    struct email_frame frame;
    uint64_t position = append(mirror, entry, record, &frame);
    if (position == RECORD_NOWHERE)
        return -ENOMEM;
    uint64_t old = entry->position;
    uint64_t old_bytes = record_log_frame_bytes(email_entry_record_len(entry));
    replace(mirror, inbox, entry, &frame, position);
    /* What did not reach the disk does not replace what is there. */
    if ((position & RECORD_IN_MEMORY) == 0)
        dead_frames_add(&mirror->dead, old, old_bytes);
    *put = returns ? MIRROR_ADDED : moves ? MIRROR_MOVED : MIRROR_CHANGED;
    return 0;
}

/* -EAGAIN: the batch is to be flushed first. */
static int add_new_locked(struct mirror *mirror, struct email_batch *batch, const struct inbox *inbox,
                          const struct email_record *record, struct hashed_text key, enum mirror_put *put)
{
    if (batch->len > 0 &&
        (batch->inbox != inbox->number || email_batch_is_full(batch) || email_batch_has_key(batch, key.hash)))
        return -EAGAIN;
    char buffer[NAME_MAX_BYTES];
    struct hashed_text name;
    int error = choose_name(mirror, &inbox->emails, record, buffer, &name);
    if (error != 0)
        return error;
    if (email_batch_has_name(batch, name.hash))
        return -EAGAIN;
    batch->inbox = inbox->number;
    *put = MIRROR_ADDED;
    return email_batch_add_locked(batch, mirror, record, key, name);
}

static int put_locked(struct mirror *mirror, struct email_batch *batch, uint32_t inbox_number,
                      const struct email_record *record, enum mirror_put *put, uint32_t *ret_email)
{
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, inbox_number);
    if (inbox == NULL || inbox->is_gone)
        return -ENOENT;
    if (record->json_len > EMAIL_RECORD_MAX_BYTES || strlen(record->key) > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    struct hashed_text key = email_index_hash(mirror->emails, record->key);
    *ret_email = email_list_find_key(mirror->emails, &inbox->emails, key);
    struct email_entry *entry = email_index_find(mirror->emails, *ret_email);
    if (entry == NULL)
        return add_new_locked(mirror, batch, inbox, record, key, put);
    int error = update_locked(mirror, inbox, entry, record, put);
    if (error == 0)
        entry->seen_in = batch->look;
    return error;
}

/* Mail that is no longer held back is news to whoever waits for mail. */
static void tell_of_release(struct mirror *mirror, uint32_t email)
{
    struct email_view view;
    struct inbox_view inbox;
    _cleanup_free_ char *path = NULL;
    if (!mirror_get_email(mirror, email, &view) || view.is_held ||
        !mirror_get_inbox(mirror, view.inbox, &inbox))
        return;
    if (asprintf(&path, "inboxes/%s/%s", inbox.name, view.name) < 0)
        path = NULL;
    mirror_tell_event(mirror, EVENT_MAIL, path, mirror_email_id(mirror, email), NULL);
}

static void tell(struct mirror *mirror, uint32_t email, enum mirror_put put)
{
    static const enum store_change changes[] = {
        [MIRROR_CHANGED] = STORE_CHANGED, [MIRROR_MOVED] = STORE_MOVED, [MIRROR_ADDED] = STORE_ADDED};
    mirror_tell_email(mirror, email, changes[put]);
    if (put == MIRROR_MOVED)
        tell_of_release(mirror, email);
}

int mirror_put_email(struct mirror *mirror, struct email_batch *batch, uint32_t inbox,
                     const struct email_record *record, enum mirror_put *ret_put)
{
    uint32_t email = NUMBER_NONE;
    int error;
    enum mirror_put put = MIRROR_UNCHANGED;
    do {
        pthread_mutex_lock(&mirror->write_lock);
        error = put_locked(mirror, batch, inbox, record, &put, &email);
        pthread_mutex_unlock(&mirror->write_lock);
    } while (error == -EAGAIN && (error = email_batch_flush(batch, mirror)) == 0);
    if (error != 0)
        return error;
    /* What is in the batch is told of when that is flushed. */
    if (email != NUMBER_NONE && put != MIRROR_UNCHANGED)
        tell(mirror, email, put);
    *ret_put = put;
    return 0;
}

static bool remove_locked(struct mirror *mirror, struct inbox *inbox, uint32_t email, uint32_t look,
                          bool with_held)
{
    struct email_entry *entry = email_index_find(mirror->emails, email);
    if (entry->is_gone || entry->seen_in == look || (entry->is_held && !with_held))
        return false;
    int64_t now_ms = clock_realtime_ms(mirror->clock);
    /* Not noted for want of memory or disk: found to be gone again after the next start. */
    gone_frame_append(mirror->log, CACHE_EMAIL_GONE, inbox->number, email_entry_key(entry), now_ms);
    hide(mirror, inbox, entry, now_ms);
    return true;
}

void mirror_remove_unseen(struct mirror *mirror, uint32_t inbox_number, uint32_t look, bool with_held)
{
    for (size_t i = 0;; i++) {
        pthread_mutex_lock(&mirror->write_lock);
        struct inbox *inbox = inbox_table_get(&mirror->inboxes, inbox_number);
        bool is_end = inbox == NULL || i >= inbox->emails.len;
        uint32_t email = is_end ? NUMBER_NONE : inbox->emails.order[i];
        bool removed = !is_end && remove_locked(mirror, inbox, email, look, with_held);
        pthread_mutex_unlock(&mirror->write_lock);
        if (is_end)
            return;
        if (removed)
            mirror_tell_email(mirror, email, STORE_REMOVED);
    }
}

bool mirror_has_home(struct mirror *mirror, const char *key)
{
    struct hashed_text hashed = email_index_hash(mirror->emails, key);
    bool found = false;
    pthread_mutex_lock(&mirror->write_lock);
    for (uint32_t i = 0; i < mirror->inboxes.len && !found; i++) {
        const struct inbox *inbox = mirror->inboxes.items[i];
        if (inbox == NULL || inbox->is_gone || inbox == mirror->inboxes.of_no_name)
            continue;
        uint32_t email = email_list_find_key(mirror->emails, &inbox->emails, hashed);
        found = email != NUMBER_NONE && !email_index_find(mirror->emails, email)->is_gone;
    }
    pthread_mutex_unlock(&mirror->write_lock);
    return found;
}

/* ---------------------------------------------------------------- from the cache */

/* Nobody reads yet. */
static int add(struct mirror *mirror, struct inbox *inbox, const struct email_frame *frame,
               struct hashed_text key, struct hashed_text name, uint64_t position)
{
    struct email_room room;
    const struct email_entry entry = {
        .position = position,
        .name = email_index_keep_texts(mirror->emails, name.text, key.text),
        .date_ms = frame->date_ms,
        .json_len = frame->json_len,
        .line_len = frame->line_len,
        .inbox = frame->inbox & EMAIL_INBOX_MAX,
        .is_held = (frame->flags & EMAIL_IS_HELD) != 0,
    };
    int error = entry.name == NULL ? -ENOMEM : email_index_prepare(mirror->emails, &inbox->emails, 1, &room);
    if (error != 0)
        return error;
    email_list_take_room(&inbox->emails, &room);
    email_index_add(mirror->emails, &inbox->emails, &entry, key.hash, name.hash);
    touch_inbox(inbox, frame->seen_ms);
    email_room_release(&room);
    return 0;
}

int mirror_load_email(struct mirror *mirror, const struct email_frame *frame, const struct email_parts *parts,
                      uint64_t position)
{
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, frame->inbox);
    if (inbox == NULL)
        return 0; /* its record was lost; its mail is fetched again */
    const struct hashed_text key = email_index_hash(mirror->emails, parts->key);
    const struct hashed_text name = email_index_hash(mirror->emails, parts->name);
    struct email_entry *entry =
        email_index_find(mirror->emails, email_list_find_key(mirror->emails, &inbox->emails, key));
    if (entry == NULL && email_list_find_name(mirror->emails, &inbox->emails, name) != NUMBER_NONE)
        return 0;
    mirror->loaded_bytes +=
        record_log_frame_bytes(email_frame_len(frame->json_len, frame->key_len, frame->name_len));
    if ((frame->flags & EMAIL_IS_HELD) != 0)
        mirror->shows_held = true;
    if (entry == NULL)
        return add(mirror, inbox, frame, key, name, position);
    if (!entry->is_gone)
        mirror->loaded_bytes -= record_log_frame_bytes(email_entry_record_len(entry));
    replace(mirror, inbox, entry, frame, position);
    return 0;
}

void mirror_load_email_gone(struct mirror *mirror, const struct gone_frame *frame, const char *key)
{
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, frame->inbox);
    if (inbox == NULL)
        return;
    uint32_t number =
        email_list_find_key(mirror->emails, &inbox->emails, email_index_hash(mirror->emails, key));
    struct email_entry *entry = email_index_find(mirror->emails, number);
    if (entry == NULL || entry->is_gone)
        return;
    mirror->loaded_bytes -= record_log_frame_bytes(email_entry_record_len(entry));
    hide(mirror, inbox, entry, frame->changed_ms);
}
