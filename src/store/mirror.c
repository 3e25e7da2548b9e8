/* SPDX-License-Identifier: MIT */
/*
 * The mirror's life, and its voice.
 */
#include "store/mirror.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "store/search_feed.h"

static int init(struct mirror *mirror, struct clock *clock, const struct store_listener *listener,
                const struct event_listener *events)
{
    *mirror = (struct mirror){.clock = clock, .listener = *listener, .events = *events};
    mirror->emails = email_index_new();
    if (mirror->emails == NULL)
        return -ENOMEM;
    pthread_mutex_init(&mirror->write_lock, NULL);

    /* A stream of readers must not keep new mail out. */
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&mirror->read_lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    return 0;
}

void mirror_release(struct mirror *mirror)
{
    if (mirror->emails == NULL)
        return;
    inbox_table_release(&mirror->inboxes);
    email_index_free(mirror->emails);
    records_release(&mirror->records);
    pthread_mutex_destroy(&mirror->write_lock);
    pthread_rwlock_destroy(&mirror->read_lock);
    *mirror = (struct mirror){0};
}

/* ---------------------------------------------------------------- the file */

static int load_inbox(void *context, const struct inbox_row *row)
{
    struct mirror *mirror = context;
    if (mirror->inboxes_changed_ms < row->record_ms)
        mirror->inboxes_changed_ms = row->record_ms;
    int error = row->is_gone ? 0 : inbox_table_put(&mirror->inboxes, row);
    return error == -EBADMSG ? 0 : error;
}

/* Nobody reads yet. */
static int add_loaded(struct mirror *mirror, struct inbox *inbox, const struct email_row *row,
                      struct hashed_text key, struct hashed_text name)
{
    struct email_room room;
    const struct email_entry entry = {
        .text = row->text,
        .name = email_index_keep_texts(mirror->emails, row->name, row->key),
        .date_ms = row->date_ms,
        .json_len = row->json_len,
        .line_len = row->line_len,
        .inbox = row->inbox & EMAIL_INBOX_MAX,
        .is_held = row->is_held,
    };
    int error = entry.name == NULL
                    ? -ENOMEM
                    : email_index_prepare(mirror->emails, &inbox->emails, row->number, 1, &room);
    if (error != 0)
        return error;
    email_list_take_room(&inbox->emails, &room);
    email_index_add(mirror->emails, &inbox->emails, row->number, &entry, key.hash, name.hash);
    email_room_release(&room);
    return 0;
}

/* What contradicts what was read before is passed over; so is mail of an inbox whose row was lost. */
static int load_email(void *context, const struct email_row *row)
{
    struct mirror *mirror = context;
    struct inbox *inbox = inbox_table_get(&mirror->inboxes, row->inbox);
    if (inbox == NULL || row->number < email_index_len(mirror->emails)) {
        state_file_note(mirror->records.file, -EUCLEAN);
        return 0;
    }
    if (inbox->changed_ms < row->seen_ms)
        inbox->changed_ms = row->seen_ms;
    if (row->is_gone)
        return 0;
    mirror->shows_held |= row->is_held;
    const struct hashed_text key = email_index_hash(mirror->emails, row->key);
    const struct hashed_text name = email_index_hash(mirror->emails, row->name);
    if (email_list_find_key(mirror->emails, &inbox->emails, key) != NUMBER_NONE ||
        email_list_find_name(mirror->emails, &inbox->emails, name) != NUMBER_NONE)
        return 0;
    return add_loaded(mirror, inbox, row, key, name);
}

int mirror_write_inbox_locked(struct mirror *mirror, const struct inbox *inbox)
{
    struct inbox_row row = inbox->row;
    row.is_quiet = inbox->is_quiet;
    row.is_gone = inbox->is_gone;
    row.changed_ms = inbox->changed_ms;
    return records_put_inbox(&mirror->records, &row);
}

struct email_row mirror_email_row(uint32_t number, const struct email_entry *entry, int64_t seen_ms)
{
    return (struct email_row){
        .number = number,
        .inbox = entry->inbox,
        .json_len = entry->json_len,
        .line_len = entry->line_len,
        .date_ms = entry->date_ms,
        .seen_ms = seen_ms,
        .is_held = entry->is_held,
        .is_gone = entry->is_gone,
        .text = entry->text,
        .key = email_entry_key(entry),
        .name = entry->name,
    };
}

/* All that is known, into a file that was made anew, with the texts that can be read of the one before. */
static int save_all_locked(struct mirror *mirror)
{
    int error = records_put_marks(&mirror->records);
    for (uint32_t i = 0; error == 0 && i < mirror->inboxes.len; i++)
        if (mirror->inboxes.items[i] != NULL)
            error = mirror_write_inbox_locked(mirror, mirror->inboxes.items[i]);
    for (uint32_t i = 0; error == 0 && i < email_index_len(mirror->emails); i++) {
        const struct email_entry *entry = email_index_find(mirror->emails, i);
        if (entry == NULL || entry->is_gone || (entry->text & RECORDS_IN_MEMORY) != 0)
            continue;
        struct email_row row = mirror_email_row(i, entry, 0);
        error = records_put_email(&mirror->records, &row);
        if (records_save_text(&mirror->records, entry->text) != 0)
            atomic_fetch_add(&mirror->lost, 1);
    }
    return error;
}

int mirror_begin_write_locked(struct mirror *mirror)
{
    bool must_save = records_must_save(&mirror->records);
    int error = records_begin(&mirror->records);
    if (error != 0 || !must_save)
        return error;
    records_note_saved(&mirror->records);
    error = save_all_locked(mirror);
    if (error != 0)
        records_abandon(&mirror->records);
    return error;
}

void mirror_repair(struct mirror *mirror)
{
    pthread_mutex_lock(&mirror->write_lock);
    if (records_must_save(&mirror->records) && mirror_begin_write_locked(mirror) == 0)
        (void)records_commit(&mirror->records);
    pthread_mutex_unlock(&mirror->write_lock);
}

int mirror_open(struct mirror *mirror, struct clock *clock, const struct store_listener *listener,
                const struct event_listener *events, struct state_file *file, enum records_list list)
{
    const struct records_visitor visitor = {load_inbox, load_email, mirror};
    int error = init(mirror, clock, listener, events);
    if (error == 0)
        error = records_load(&mirror->records, file, list, &visitor);
    if (error == 0)
        mirror_repair(mirror);
    return error;
}

/* ---------------------------------------------------------------- what others note */

uint32_t mirror_begin_look(struct mirror *mirror)
{
    pthread_mutex_lock(&mirror->write_lock);
    if (++mirror->last_look == 0)
        mirror->last_look = 1;
    uint32_t look = mirror->last_look;
    pthread_mutex_unlock(&mirror->write_lock);
    return look;
}

void mirror_end_first_sync(struct mirror *mirror)
{
    pthread_mutex_lock(&mirror->write_lock);
    if (!mirror->records.first_sync_done) {
        mirror->records.first_sync_done = true;
        /* Unwritten for want of memory or disk: known again after the next start. */
        if (mirror_begin_write_locked(mirror) == 0) {
            (void)records_put_marks(&mirror->records);
            (void)records_commit(&mirror->records);
        }
    }
    pthread_mutex_unlock(&mirror->write_lock);
}

void mirror_note_held_shown(struct mirror *mirror)
{
    pthread_mutex_lock(&mirror->write_lock);
    bool is_news = !mirror->shows_held;
    uint32_t inboxes = mirror->inboxes.len;
    if (is_news) {
        pthread_rwlock_wrlock(&mirror->read_lock);
        mirror->shows_held = true;
        pthread_rwlock_unlock(&mirror->read_lock);
    }
    pthread_mutex_unlock(&mirror->write_lock);
    for (uint32_t i = 0; is_news && i < inboxes; i++)
        mirror_tell_inbox(mirror, i, STORE_CHANGED);
}

void mirror_note_lost(struct mirror *mirror)
{
    if (atomic_fetch_add(&mirror->lost, 1) == 0)
        log_warning("records in the cache cannot be read: the file was changed, or the disk fails; "
                    "'sync' in ctl asks the service for them");
}

void mirror_give_back(struct mirror *mirror)
{
    pthread_mutex_lock(&mirror->write_lock);
    if (atomic_load(&mirror->open_indexes) == 0)
        records_clean(&mirror->records);
    pthread_mutex_unlock(&mirror->write_lock);
}

void mirror_tell_email(const struct mirror *mirror, uint32_t email, enum store_change change)
{
    search_feed_note(mirror->search_feed, email);
    if (mirror->listener.email_changed != NULL)
        mirror->listener.email_changed(mirror->listener.context, email, change);
}

void mirror_tell_inbox(const struct mirror *mirror, uint32_t inbox, enum store_change change)
{
    search_feed_wake(mirror->search_feed);
    if (mirror->listener.inbox_changed != NULL)
        mirror->listener.inbox_changed(mirror->listener.context, inbox, change);
}

void mirror_tell_event(const struct mirror *mirror, enum event_kind kind, const char *path, const char *id,
                       const char *error)
{
    const struct event event = {
        .time_ms = clock_realtime_ms(mirror->clock),
        .kind = kind,
        .path = path,
        .id = id,
        .error = error,
    };
    if (mirror->events.notify != NULL)
        mirror->events.notify(mirror->events.context, &event);
}
