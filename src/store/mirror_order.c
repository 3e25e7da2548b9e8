/* SPDX-License-Identifier: MIT */
/*
 * Order. Numbers of emails grow along the list of an inbox, so a place is found by halving.
 */
#include "store/mirror_order.h"

/* What stands for an id where a record has none begins with this (email_record.h). */
static const char no_id_mark = '~';

const char *mirror_email_id(struct mirror *mirror, uint32_t email)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct email_entry *entry = email_index_find(mirror->emails, email);
    const char *key = entry == NULL ? NULL : email_entry_key(entry);
    pthread_rwlock_unlock(&mirror->read_lock);
    return key == NULL || key[0] == no_id_mark ? NULL : key;
}

static uint32_t find_locked(const struct mirror *mirror, uint32_t number, const char *id)
{
    const struct inbox *inbox = inbox_table_get(&mirror->inboxes, number);
    if (inbox == NULL || inbox->is_gone)
        return NUMBER_NONE;
    uint32_t email =
        email_list_find_key(mirror->emails, &inbox->emails, email_index_hash(mirror->emails, id));
    const struct email_entry *entry = email_index_find(mirror->emails, email);
    return entry == NULL || !email_entry_is_shown(entry) ? NUMBER_NONE : email;
}

bool mirror_find_email_by_id(struct mirror *mirror, uint32_t inbox, const char *id, struct email_view *ret)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    uint32_t email = find_locked(mirror, inbox, id);
    for (uint32_t i = 0; i < mirror->inboxes.len && email == NUMBER_NONE; i++)
        email = find_locked(mirror, i, id);
    const struct email_entry *entry = email_index_find(mirror->emails, email);
    if (entry != NULL)
        *ret = (struct email_view){
            .number = email, .inbox = entry->inbox, .name = entry->name, .date_ms = entry->date_ms};
    pthread_rwlock_unlock(&mirror->read_lock);
    return entry != NULL;
}

bool mirror_find_place(struct mirror *mirror, uint32_t email, uint32_t *ret_inbox, size_t *ret_place)
{
    bool is_found = false;
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct email_entry *entry = email_index_find(mirror->emails, email);
    const struct inbox *inbox = entry == NULL ? NULL : inbox_table_get(&mirror->inboxes, entry->inbox);
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
    pthread_rwlock_unlock(&mirror->read_lock);
    return is_found;
}

/* The numbers at `place`, `place + step` and so on that are not gone. */
static size_t list_locked(const struct mirror *mirror, const struct inbox *inbox, size_t place, int step,
                          uint32_t *ret_emails, size_t max)
{
    size_t len = 0;
    /* Below 0 the place wraps round, and so is beyond the end, too. */
    for (size_t looked = 0; looked < max && place < inbox->emails.len; looked++, place += (size_t)step) {
        uint32_t email = inbox->emails.order[place];
        if (email_entry_is_shown(email_index_find(mirror->emails, email)))
            ret_emails[len++] = email;
    }
    return len;
}

size_t mirror_list_places(struct mirror *mirror, uint32_t number, size_t place, int step,
                          uint32_t *ret_emails, size_t max)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct inbox *inbox = inbox_table_get(&mirror->inboxes, number);
    size_t len = inbox == NULL ? 0 : list_locked(mirror, inbox, place, step, ret_emails, max);
    pthread_rwlock_unlock(&mirror->read_lock);
    return len;
}

size_t mirror_pick_some(struct mirror *mirror, uint32_t *ret_emails, size_t max)
{
    size_t len = 0;
    pthread_rwlock_rdlock(&mirror->read_lock);
    for (uint32_t i = 0; i < mirror->inboxes.len && len < max; i++) {
        const struct inbox *inbox = inbox_table_get(&mirror->inboxes, i);
        if (inbox == NULL || inbox->is_gone || inbox->emails.live == 0)
            continue;
        len += list_locked(mirror, inbox, inbox->emails.len - 1, -1, ret_emails + len, 1);
        if (len < max && inbox->emails.len > 1)
            len += list_locked(mirror, inbox, 0, 1, ret_emails + len, 1);
    }
    pthread_rwlock_unlock(&mirror->read_lock);
    return len;
}
