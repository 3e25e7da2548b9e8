/* SPDX-License-Identifier: MIT */
/*
 * Inboxes come and go with the service's list, with what is created here, and with mail that names them.
 */
#include "store/mirror_inboxes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
    INBOX_TEXT_MAX_BYTES = 4 * 1024 * 1024
};

static const char no_name_id[] = "unknown";

/* What is told once the locks are released. */
struct change {
    bool happened;
    enum store_change change;
    uint32_t inbox;
    const char *name; /* lives as long as the mirror */
    const char *id;
    bool is_news;
};

static void tell(const struct mirror *mirror, const struct change *change)
{
    if (!change->happened)
        return;
    mirror_tell_inbox(mirror, change->inbox, change->change);
    _cleanup_free_ char *path = NULL;
    if (change->is_news && asprintf(&path, "inboxes/%s", change->name) >= 0)
        mirror_tell_event(mirror, EVENT_INBOX, path, change->id, NULL);
}

/* ---------------------------------------------------------------- adding and changing */

/* What cannot be written for want of space is found again after the next start. */
static void write_row(struct mirror *mirror, const struct inbox *inbox)
{
    if (mirror_begin_write_locked(mirror) != 0)
        return;
    if (mirror_write_inbox_locked(mirror, inbox) == 0)
        (void)records_commit(&mirror->records);
    else
        records_abandon(&mirror->records);
}

static int put_row(struct mirror *mirror, const struct inbox_row *row)
{
    const struct inbox *before = inbox_table_get(&mirror->inboxes, row->number);
    bool set_changes = before == NULL || before->is_gone || strcmp(before->name, row->name) != 0;
    pthread_rwlock_wrlock(&mirror->read_lock);
    int error = inbox_table_put(&mirror->inboxes, row);
    if (error == 0 && set_changes)
        mirror->inboxes_changed_ms = row->record_ms;
    pthread_rwlock_unlock(&mirror->read_lock);
    if (error == 0)
        write_row(mirror, inbox_table_get(&mirror->inboxes, row->number));
    return error;
}

/* Whether there is nothing in `row` that the inbox does not show already. */
static bool is_up_to_date(const struct inbox *inbox, const struct inbox_row *row)
{
    return !inbox->is_gone && inbox->row.origin >= row->origin && strcmp(inbox->name, row->name) == 0 &&
           inbox->row.json_len == row->json_len && memcmp(inbox->row.json, row->json, row->json_len) == 0;
}

/* Before the first sync only what is made here is news. That the service then lists it, with more of its
 * record, is none. */
static bool is_news(const struct mirror *mirror, const struct inbox *inbox, enum inbox_origin origin,
                    const char *name)
{
    if (origin == INBOX_CREATED)
        return true;
    bool completes = inbox != NULL && !inbox->is_gone && inbox->row.origin == INBOX_CREATED &&
                     strcmp(inbox->name, name) == 0;
    return mirror->records.first_sync_done && !completes;
}

static int write_inbox(struct mirror *mirror, struct inbox *inbox, const struct inbox_record *record,
                       enum inbox_origin origin, const char *name, struct change *change)
{
    int64_t now_ms = clock_realtime_ms(mirror->clock);
    const struct inbox_row row = {
        .number = inbox == NULL ? mirror->inboxes.len : inbox->number,
        .origin = origin,
        .is_quiet =
            inbox == NULL ? !mirror->records.first_sync_done && origin != INBOX_CREATED : inbox->is_quiet,
        .record_ms = now_ms,
        .changed_ms = now_ms,
        .id = record->id,
        .address = record->address,
        .name = name,
        .json = record->json,
        .json_len = record->json_len,
    };
    if (inbox != NULL && is_up_to_date(inbox, &row))
        return 0;
    bool is_new = inbox == NULL || inbox->is_gone;
    bool must_tell = is_news(mirror, inbox, origin, name);
    int error = put_row(mirror, &row);
    if (error != 0)
        return error;
    inbox = inbox_table_get(&mirror->inboxes, row.number);
    *change = (struct change){
        .happened = true,
        .change = is_new ? STORE_ADDED : STORE_CHANGED,
        .inbox = row.number,
        .name = inbox->name,
        .id = inbox->row.id,
        .is_news = must_tell,
    };
    return 0;
}

static int put_locked(struct mirror *mirror, const struct inbox_record *record, enum inbox_origin origin,
                      uint32_t look, struct change *change, uint32_t *ret_number)
{
    struct inbox *inbox = inbox_table_find_id(&mirror->inboxes, record->id);
    if (strlen(record->id) > INBOX_TEXT_MAX_BYTES || record->json_len > INBOX_TEXT_MAX_BYTES)
        return -EMSGSIZE;
    if (inbox == NULL || inbox->is_gone || origin != INBOX_FROM_MAIL) {
        _cleanup_free_ char *name =
            inbox_table_choose_name(&mirror->inboxes, inbox, record->id, record->address);
        int error = name == NULL ? -ENOMEM : write_inbox(mirror, inbox, record, origin, name, change);
        if (error != 0)
            return error;
        inbox = inbox_table_find_id(&mirror->inboxes, record->id);
    }
    if (look != 0)
        inbox->seen_in = look;
    *ret_number = inbox->number;
    return 0;
}

int mirror_put_inbox(struct mirror *mirror, const struct inbox_record *record, enum inbox_origin origin,
                     uint32_t look, uint32_t *ret_number)
{
    struct change change = {0};
    uint32_t number;
    pthread_mutex_lock(&mirror->write_lock);
    int error = put_locked(mirror, record, origin, look, &change, &number);
    pthread_mutex_unlock(&mirror->write_lock);
    if (error != 0)
        return error;
    tell(mirror, &change);
    if (ret_number != NULL)
        *ret_number = number;
    return 0;
}

static int put_no_name_locked(struct mirror *mirror, struct change *change)
{
    struct inbox *inbox = mirror->inboxes.of_no_name;
    if (inbox != NULL && !inbox->is_gone)
        return 0;
    struct inbox_record record = {0};
    _cleanup_free_ char *name = inbox_table_choose_name(&mirror->inboxes, inbox, no_name_id, NULL);
    int error = name == NULL ? -ENOMEM : inbox_record_from_id(no_name_id, &record);
    if (error == 0)
        error = write_inbox(mirror, inbox, &record, INBOX_OF_NO_NAME, name, change);
    inbox_record_release(&record);
    return error;
}

int mirror_put_inbox_of_no_name(struct mirror *mirror, uint32_t *ret_number)
{
    struct change change = {0};
    pthread_mutex_lock(&mirror->write_lock);
    int error = put_no_name_locked(mirror, &change);
    if (error == 0)
        *ret_number = mirror->inboxes.of_no_name->number;
    pthread_mutex_unlock(&mirror->write_lock);
    tell(mirror, &change);
    return error;
}

void mirror_touch_inboxes(struct mirror *mirror)
{
    int64_t now_ms = clock_realtime_ms(mirror->clock);
    pthread_mutex_lock(&mirror->write_lock);
    pthread_rwlock_wrlock(&mirror->read_lock);
    uint32_t len = mirror->inboxes.len;
    for (uint32_t i = 0; i < len; i++) {
        struct inbox *inbox = inbox_table_get(&mirror->inboxes, i);
        if (inbox != NULL)
            inbox->changed_ms = inbox->changed_ms < now_ms ? now_ms : inbox->changed_ms + 1;
    }
    pthread_rwlock_unlock(&mirror->read_lock);
    pthread_mutex_unlock(&mirror->write_lock);
    for (uint32_t i = 0; i < len; i++)
        mirror_tell_inbox(mirror, i, STORE_CHANGED);
}

/* ---------------------------------------------------------------- removing */

static void hide(struct mirror *mirror, struct inbox *inbox, int64_t now_ms)
{
    pthread_rwlock_wrlock(&mirror->read_lock);
    inbox_table_remove(&mirror->inboxes, inbox);
    inbox->row.record_ms = now_ms;
    mirror->inboxes_changed_ms = now_ms;
    pthread_rwlock_unlock(&mirror->read_lock);
}

static void remove_unlisted_locked(struct mirror *mirror, uint32_t number, uint32_t look,
                                   struct change *change)
{
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, number);
    if (inbox == NULL || inbox->is_gone || inbox->seen_in == look || inbox->row.origin == INBOX_OF_NO_NAME ||
        (inbox->row.origin == INBOX_FROM_MAIL && inbox->emails.live > 0))
        return;
    int64_t now_ms = clock_realtime_ms(mirror->clock);
    hide(mirror, inbox, now_ms);
    write_row(mirror, inbox);
    *change = (struct change){.happened = true, .change = STORE_REMOVED, .inbox = number};
}

void mirror_end_inbox_list(struct mirror *mirror, uint32_t look, uint32_t known_before)
{
    pthread_rwlock_wrlock(&mirror->read_lock);
    mirror->inboxes_are_listed = true;
    pthread_rwlock_unlock(&mirror->read_lock);
    for (uint32_t number = 0; number < known_before; number++) {
        struct change change = {0};
        pthread_mutex_lock(&mirror->write_lock);
        remove_unlisted_locked(mirror, number, look, &change);
        pthread_mutex_unlock(&mirror->write_lock);
        tell(mirror, &change);
    }
}

uint32_t mirror_inbox_numbers(struct mirror *mirror)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    uint32_t numbers = mirror->inboxes.len;
    pthread_rwlock_unlock(&mirror->read_lock);
    return numbers;
}

struct look_memory *mirror_find_look_memory(struct mirror *mirror, uint32_t number)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, number);
    pthread_rwlock_unlock(&mirror->read_lock);
    return inbox == NULL ? NULL : &inbox->looks;
}

void mirror_end_quiet(struct mirror *mirror, uint32_t number)
{
    pthread_mutex_lock(&mirror->write_lock);
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, number);
    if (inbox != NULL && inbox->is_quiet) {
        inbox->is_quiet = false;
        write_row(mirror, inbox);
    }
    pthread_mutex_unlock(&mirror->write_lock);
}
