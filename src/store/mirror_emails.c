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

/* What the cache has lost is not the same, so that it is written once more. */
static bool has_same_text(struct mirror *mirror, const struct email_entry *entry,
                          const struct email_record *record)
{
    _cleanup_free_ char *known = NULL;
    return entry->json_len == record->json_len &&
           records_read_text(&mirror->records, entry->text, entry->json_len, &known) == 0 &&
           memcmp(known, record->json, record->json_len) == 0;
}

static enum mirror_put compare(struct mirror *mirror, const struct email_entry *entry,
                               const struct email_record *record)
{
    if (entry == NULL || entry->is_gone)
        return MIRROR_ADDED;
    if (entry->is_held != record->is_held)
        return MIRROR_MOVED;
    return has_same_text(mirror, entry, record) ? MIRROR_UNCHANGED : MIRROR_CHANGED;
}

/* -EAGAIN: the batch is to be flushed first. */
static int put_locked(struct mirror *mirror, struct email_batch *batch, uint32_t inbox_number,
                      const struct email_record *record, enum mirror_put *put)
{
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, inbox_number);
    if (inbox == NULL || inbox->is_gone)
        return -ENOENT;
    if (record->json_len > EMAIL_RECORD_MAX_BYTES || strlen(record->key) > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    const struct hashed_text key = email_index_hash(mirror->emails, record->key);
    if (batch->len > 0 &&
        (batch->inbox != inbox_number || email_batch_is_full(batch) || email_batch_has_key(batch, key.hash)))
        return -EAGAIN;
    uint32_t email = email_list_find_key(mirror->emails, &inbox->emails, key);
    struct email_entry *entry = email_index_find(mirror->emails, email);
    char buffer[NAME_MAX_BYTES];
    struct hashed_text name = {.text = NULL};
    *put = compare(mirror, entry, record);
    if (entry != NULL)
        entry->seen_in = batch->look;
    if (*put == MIRROR_UNCHANGED)
        return 0;
    int error = entry != NULL ? 0 : choose_name(mirror, &inbox->emails, record, buffer, &name);
    if (error != 0)
        return error;
    if (entry == NULL && email_batch_has_name(batch, name.hash))
        return -EAGAIN;
    batch->inbox = inbox_number;
    return email_batch_add_locked(batch, mirror, *put, email, record, key, name);
}

int mirror_put_email(struct mirror *mirror, struct email_batch *batch, uint32_t inbox,
                     const struct email_record *record, enum mirror_put *ret_put)
{
    int error;
    enum mirror_put put = MIRROR_UNCHANGED;
    do {
        pthread_mutex_lock(&mirror->write_lock);
        error = put_locked(mirror, batch, inbox, record, &put);
        pthread_mutex_unlock(&mirror->write_lock);
    } while (error == -EAGAIN && (error = email_batch_flush(batch, mirror)) == 0);
    if (error == 0)
        *ret_put = put;
    return error;
}

/* ---------------------------------------------------------------- removing */

/* Emails from `place` on that `look` did not meet: how many. *place moves on. */
static size_t find_unseen(const struct mirror *mirror, const struct inbox *inbox, uint32_t look,
                          bool with_held, size_t *place, uint32_t ret_emails[EMAIL_BATCH_MAX])
{
    size_t len = 0;
    for (; *place < inbox->emails.len && len < EMAIL_BATCH_MAX; ++*place) {
        uint32_t email = inbox->emails.order[*place];
        const struct email_entry *entry = email_index_find(mirror->emails, email);
        if (!entry->is_gone && entry->seen_in != look && (!entry->is_held || with_held))
            ret_emails[len++] = email;
    }
    return len;
}

static void hide(struct mirror *mirror, struct inbox *inbox, const uint32_t *emails, size_t len,
                 int64_t now_ms)
{
    pthread_rwlock_wrlock(&mirror->read_lock);
    for (size_t i = 0; i < len; i++) {
        struct email_entry *entry = email_index_find(mirror->emails, emails[i]);
        email_list_count_out(&inbox->emails, entry);
        entry->is_gone = true;
    }
    if (inbox->changed_ms < now_ms)
        inbox->changed_ms = now_ms;
    pthread_rwlock_unlock(&mirror->read_lock);
}

/* What is not written for want of memory or disk is found to be gone again after the next start. */
static void write_gone(struct mirror *mirror, const uint32_t *emails, size_t len, int64_t now_ms)
{
    int error = mirror_begin_write_locked(mirror);
    if (error != 0)
        return;
    for (size_t i = 0; i < len && error == 0; i++) {
        const struct email_entry *entry = email_index_find(mirror->emails, emails[i]);
        struct email_row row = mirror_email_row(emails[i], entry, now_ms);
        if ((row.text & RECORDS_IN_MEMORY) == 0)
            error = records_put_email(&mirror->records, &row);
    }
    if (error == 0)
        (void)records_commit(&mirror->records);
    else
        records_abandon(&mirror->records);
}

/* The place to go on from. */
static size_t remove_some(struct mirror *mirror, uint32_t inbox_number, uint32_t look, bool with_held,
                          size_t place, uint32_t ret_emails[EMAIL_BATCH_MAX], size_t *ret_len)
{
    pthread_mutex_lock(&mirror->write_lock);
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, inbox_number);
    size_t len = inbox == NULL ? 0 : find_unseen(mirror, inbox, look, with_held, &place, ret_emails);
    if (len > 0) {
        int64_t now_ms = clock_realtime_ms(mirror->clock);
        hide(mirror, inbox, ret_emails, len, now_ms);
        write_gone(mirror, ret_emails, len, now_ms);
    }
    pthread_mutex_unlock(&mirror->write_lock);
    *ret_len = len;
    return place;
}

void mirror_remove_unseen(struct mirror *mirror, uint32_t inbox_number, uint32_t look, bool with_held)
{
    uint32_t emails[EMAIL_BATCH_MAX];
    size_t place = 0;
    size_t len;
    /* What the user hid of sent mail stays hidden, whether the service lists it now or later. */
    with_held = with_held && mirror->records.list != RECORDS_SENT;
    do {
        place = remove_some(mirror, inbox_number, look, with_held, place, emails, &len);
        for (size_t i = 0; i < len; i++)
            mirror_tell_email(mirror, emails[i], STORE_REMOVED);
    } while (len > 0);
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
