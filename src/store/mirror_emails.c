/* SPDX-License-Identifier: MIT */
/*
 * Emails come one record at a time: what is slow (the cache, larger tables) happens before readers are shut
 * out, for as short a moment as it takes to put numbers into tables.
 */
#include "store/mirror_emails.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/file_name.h"

/* What is told once the locks are released. */
struct change {
    uint32_t email;
    enum mirror_put put;
    bool is_news;
    char *path;
};

static bool name_is_reserved(const char *name)
{
    return strcmp(name, "inbox.json") == 0 || strcmp(name, "index.jsonl") == 0;
}

/* "STEM.json", or with more of the key where that is taken. Caller frees; NULL without memory. */
static char *choose_name(const struct mirror *mirror, const struct email_list *list,
                         const struct email_record *record)
{
    for (unsigned int attempt = 0;; attempt++) {
        _cleanup_free_ char *stem =
            attempt == 0 ? strdup(record->stem) : file_name_stem_unique(record->stem, record->key, attempt);
        char *name = NULL;
        if (stem == NULL || asprintf(&name, "%s.json", stem) < 0)
            return NULL;
        if (!name_is_reserved(name) && email_list_find_name(mirror->emails, list, name) == NUMBER_NONE)
            return name;
        free(name);
    }
}

static const struct email_frame *append(struct mirror *mirror, uint32_t inbox, const char *name,
                                        const struct email_record *record, int64_t undated_ms)
{
    const struct email_frame frame = {
        .inbox = inbox,
        .json_len = (uint32_t)record->json_len,
        .date_ms = record->has_date ? record->date_ms : undated_ms,
        .seen_ms = clock_realtime_ms(mirror->clock),
        .key_len = (uint32_t)strlen(record->key),
        .name_len = (uint32_t)strlen(name),
    };
    const struct email_parts parts = {.key = record->key, .name = name, .json = record->json};
    return email_frame_append(mirror->log, &frame, &parts);
}

static void touch_inbox(struct inbox *inbox, int64_t now_ms)
{
    if (inbox->changed_ms < now_ms)
        inbox->changed_ms = now_ms;
}

static int add(struct mirror *mirror, struct inbox *inbox, const struct email_frame *frame,
               uint32_t *ret_number)
{
    struct email_room room;
    struct email_parts parts;
    email_frame_get_parts(frame, &parts);
    int error = email_index_prepare(mirror->emails, &inbox->emails, parts.name, &room);
    if (error != 0)
        return error;
    pthread_rwlock_wrlock(&mirror->read_lock);
    *ret_number = email_index_add(mirror->emails, &inbox->emails, &room, frame);
    touch_inbox(inbox, frame->seen_ms);
    pthread_rwlock_unlock(&mirror->read_lock);
    email_room_release(&room);
    return 0;
}

static void replace(struct mirror *mirror, struct inbox *inbox, struct email_entry *entry,
                    const struct email_frame *frame)
{
    pthread_rwlock_wrlock(&mirror->read_lock);
    if (entry->is_gone)
        inbox->emails.live++;
    entry->is_gone = false;
    entry->frame = frame;
    entry->json_len = frame->json_len;
    entry->date_ms = frame->date_ms;
    touch_inbox(inbox, frame->seen_ms);
    pthread_rwlock_unlock(&mirror->read_lock);
}

static void hide(struct mirror *mirror, struct inbox *inbox, struct email_entry *entry, int64_t now_ms)
{
    pthread_rwlock_wrlock(&mirror->read_lock);
    entry->is_gone = true;
    inbox->emails.live--;
    touch_inbox(inbox, now_ms);
    pthread_rwlock_unlock(&mirror->read_lock);
}

/* ---------------------------------------------------------------- from the service */

static bool has_same_text(const struct email_entry *entry, const struct email_record *record)
{
    struct email_parts parts;
    if (entry->json_len != record->json_len)
        return false;
    email_frame_get_parts(entry->frame, &parts);
    return memcmp(parts.json, record->json, record->json_len) == 0;
}

static int add_new_locked(struct mirror *mirror, struct inbox *inbox, const struct email_record *record,
                          struct change *change)
{
    _cleanup_free_ char *name = choose_name(mirror, &inbox->emails, record);
    if (name == NULL)
        return -ENOMEM;
    const struct email_frame *frame =
        append(mirror, inbox->number, name, record, clock_realtime_ms(mirror->clock));
    if (frame == NULL)
        return -ENOMEM;
    int error = add(mirror, inbox, frame, &change->email);
    if (error != 0)
        return error;
    change->put = MIRROR_ADDED;
    change->is_news = !inbox->is_quiet;
    if (change->is_news && asprintf(&change->path, "inboxes/%s/%s", inbox->name, name) < 0)
        change->path = NULL;
    return 0;
}

static int update_locked(struct mirror *mirror, struct inbox *inbox, struct email_entry *entry,
                         const struct email_record *record, struct change *change)
{
    bool returns = entry->is_gone;
    if (!returns && has_same_text(entry, record))
        return 0;
    const struct email_frame *frame =
        append(mirror, inbox->number, entry->name, record, entry->frame->date_ms);
    if (frame == NULL)
        return -ENOMEM;
    replace(mirror, inbox, entry, frame);
    change->put = returns ? MIRROR_ADDED : MIRROR_CHANGED;
    return 0;
}

static int put_locked(struct mirror *mirror, uint32_t inbox_number, const struct email_record *record,
                      uint32_t look, struct change *change)
{
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, inbox_number);
    if (inbox == NULL || inbox->is_gone)
        return -ENOENT;
    if (record->json_len > EMAIL_RECORD_MAX_BYTES || strlen(record->key) > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    change->email = email_list_find_key(mirror->emails, &inbox->emails, record->key);
    struct email_entry *entry = email_index_find(mirror->emails, change->email);
    int error = entry == NULL ? add_new_locked(mirror, inbox, record, change)
                              : update_locked(mirror, inbox, entry, record, change);
    if (error == 0)
        email_index_find(mirror->emails, change->email)->seen_in = look;
    return error;
}

int mirror_put_email(struct mirror *mirror, uint32_t inbox, const struct email_record *record, uint32_t look,
                     enum mirror_put *ret_put)
{
    struct change change = {.put = MIRROR_UNCHANGED};
    pthread_mutex_lock(&mirror->write_lock);
    int error = put_locked(mirror, inbox, record, look, &change);
    pthread_mutex_unlock(&mirror->write_lock);
    if (error != 0)
        return error;

    if (change.put != MIRROR_UNCHANGED)
        mirror_tell_email(mirror, change.email, change.put == MIRROR_ADDED ? STORE_ADDED : STORE_CHANGED);
    if (change.is_news)
        mirror_tell_event(mirror, EVENT_MAIL, change.path, record->key[0] == '~' ? NULL : record->key, NULL);
    free(change.path);
    *ret_put = change.put;
    return 0;
}

static bool remove_locked(struct mirror *mirror, struct inbox *inbox, uint32_t email, uint32_t look)
{
    struct email_entry *entry = email_index_find(mirror->emails, email);
    if (entry->is_gone || entry->seen_in == look)
        return false;
    struct email_parts parts;
    int64_t now_ms = clock_realtime_ms(mirror->clock);
    email_frame_get_parts(entry->frame, &parts);
    /* Not noted for want of memory or disk: found to be gone again after the next start. */
    gone_frame_append(mirror->log, CACHE_EMAIL_GONE, inbox->number, parts.key, now_ms);
    hide(mirror, inbox, entry, now_ms);
    return true;
}

void mirror_remove_unseen(struct mirror *mirror, uint32_t inbox_number, uint32_t look)
{
    for (size_t i = 0;; i++) {
        pthread_mutex_lock(&mirror->write_lock);
        struct inbox *inbox = inbox_table_get(&mirror->inboxes, inbox_number);
        bool is_end = inbox == NULL || i >= inbox->emails.len;
        uint32_t email = is_end ? NUMBER_NONE : inbox->emails.order[i];
        bool removed = !is_end && remove_locked(mirror, inbox, email, look);
        pthread_mutex_unlock(&mirror->write_lock);
        if (is_end)
            return;
        if (removed)
            mirror_tell_email(mirror, email, STORE_REMOVED);
    }
}

bool mirror_has_home(struct mirror *mirror, const char *key)
{
    bool found = false;
    pthread_mutex_lock(&mirror->write_lock);
    for (uint32_t i = 0; i < mirror->inboxes.len && !found; i++) {
        const struct inbox *inbox = mirror->inboxes.items[i];
        if (inbox == NULL || inbox->is_gone || inbox == mirror->inboxes.of_no_name)
            continue;
        uint32_t email = email_list_find_key(mirror->emails, &inbox->emails, key);
        found = email != NUMBER_NONE && !email_index_find(mirror->emails, email)->is_gone;
    }
    pthread_mutex_unlock(&mirror->write_lock);
    return found;
}

/* ---------------------------------------------------------------- from the cache */

int mirror_load_email(struct mirror *mirror, const struct email_frame *frame)
{
    struct email_parts parts;
    uint32_t number;
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, frame->inbox);
    if (inbox == NULL)
        return 0; /* its record was lost; its mail is fetched again */
    email_frame_get_parts(frame, &parts);
    number = email_list_find_key(mirror->emails, &inbox->emails, parts.key);
    struct email_entry *entry = email_index_find(mirror->emails, number);
    if (entry == NULL && email_list_find_name(mirror->emails, &inbox->emails, parts.name) != NUMBER_NONE)
        return 0;
    mirror->loaded_bytes += email_frame_bytes(frame);
    if (entry == NULL)
        return add(mirror, inbox, frame, &number);
    if (!entry->is_gone)
        mirror->loaded_bytes -= email_frame_bytes(entry->frame);
    replace(mirror, inbox, entry, frame);
    return 0;
}

void mirror_load_email_gone(struct mirror *mirror, const struct gone_frame *frame, const char *key)
{
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, frame->inbox);
    if (inbox == NULL)
        return;
    uint32_t number = email_list_find_key(mirror->emails, &inbox->emails, key);
    struct email_entry *entry = email_index_find(mirror->emails, number);
    if (entry == NULL || entry->is_gone)
        return;
    mirror->loaded_bytes -= email_frame_bytes(entry->frame);
    hide(mirror, inbox, entry, frame->changed_ms);
}
