/* SPDX-License-Identifier: MIT */
/*
 * Readers: each takes the lock for reading once, for as long as it fills in views.
 */
#include "store/mirror_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mail/address.h"

enum {
    SKIP_MAX = 4096 /* entries that are gone, passed over under one lock */
};

static void view_inbox(const struct inbox *inbox, struct inbox_view *ret)
{
    *ret = (struct inbox_view){
        .number = inbox->number,
        .name = inbox->name,
        .id = inbox->row.id,
        .address = inbox->row.address,
        .json_len = inbox->row.json_len,
        .changed_ms = inbox->changed_ms,
        .record_ms = inbox->row.record_ms,
        .emails = inbox->emails.live,
        .held = inbox->emails.held,
        .index_bytes = inbox->emails.index_bytes,
    };
}

static void view_email(uint32_t number, const struct email_entry *entry, struct email_view *ret)
{
    *ret = (struct email_view){
        .number = number,
        .inbox = entry->inbox,
        .name = entry->name,
        .json_len = entry->json_len,
        .date_ms = entry->date_ms,
        .is_held = entry->is_held,
    };
}

/* NULL: no such inbox, or gone. */
static const struct inbox *get_live_locked(const struct mirror *mirror, uint32_t number)
{
    const struct inbox *inbox = inbox_table_get(&mirror->inboxes, number);
    return inbox == NULL || inbox->is_gone ? NULL : inbox;
}

bool mirror_find_inbox(struct mirror *mirror, const char *name, struct inbox_view *ret)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct inbox *inbox = inbox_table_find_name(&mirror->inboxes, name);
    if (inbox != NULL)
        view_inbox(inbox, ret);
    pthread_rwlock_unlock(&mirror->read_lock);
    return inbox != NULL;
}

bool mirror_get_inbox(struct mirror *mirror, uint32_t number, struct inbox_view *ret)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct inbox *inbox = get_live_locked(mirror, number);
    if (inbox != NULL)
        view_inbox(inbox, ret);
    pthread_rwlock_unlock(&mirror->read_lock);
    return inbox != NULL;
}

static bool find(struct mirror *mirror, uint32_t inbox_number, const char *name, bool is_held,
                 struct email_view *ret)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct inbox *inbox = get_live_locked(mirror, inbox_number);
    uint32_t number = inbox == NULL ? NUMBER_NONE
                                    : email_list_find_name(mirror->emails, &inbox->emails,
                                                           email_index_hash(mirror->emails, name));
    const struct email_entry *entry = email_index_find(mirror->emails, number);
    bool found = entry != NULL && !entry->is_gone && entry->is_held == is_held;
    if (found)
        view_email(number, entry, ret);
    pthread_rwlock_unlock(&mirror->read_lock);
    return found;
}

bool mirror_find_email(struct mirror *mirror, uint32_t inbox, const char *name, struct email_view *ret)
{
    return find(mirror, inbox, name, false, ret);
}

bool mirror_find_held(struct mirror *mirror, uint32_t inbox, const char *name, struct email_view *ret)
{
    return find(mirror, inbox, name, true, ret);
}

bool mirror_shows_held(struct mirror *mirror)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    bool shows_held = mirror->shows_held;
    pthread_rwlock_unlock(&mirror->read_lock);
    return shows_held;
}

bool mirror_get_email(struct mirror *mirror, uint32_t number, struct email_view *ret)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct email_entry *entry = email_index_find(mirror->emails, number);
    if (entry != NULL)
        view_email(number, entry, ret);
    pthread_rwlock_unlock(&mirror->read_lock);
    return entry != NULL;
}

/* The number of the text that an email's record is now, and its length; false: no such email. */
static bool find_text(struct mirror *mirror, uint32_t number, uint64_t *ret_text, size_t *ret_len)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct email_entry *entry = email_index_find(mirror->emails, number);
    if (entry != NULL) {
        *ret_text = entry->text;
        *ret_len = entry->json_len;
    }
    pthread_rwlock_unlock(&mirror->read_lock);
    return entry != NULL;
}

/* With no lock held. A text that was replaced and deleted while it was read is read in its new form instead.
 */
int mirror_read_email(struct mirror *mirror, uint32_t email, char **ret_json, size_t *ret_len)
{
    uint64_t text = 0;
    uint64_t tried;
    int error;
    if (!find_text(mirror, email, &text, ret_len))
        return -ENOENT;
    do {
        tried = text;
        error = records_read_text(&mirror->records, text, *ret_len, ret_json);
    } while (error == -EIO && find_text(mirror, email, &text, ret_len) && text != tried);
    if (error == -EIO)
        mirror_note_lost(mirror);
    return error;
}

int mirror_read_inbox(struct mirror *mirror, uint32_t number, char **ret_json, size_t *ret_len)
{
    int error = -ENOENT;
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct inbox *inbox = get_live_locked(mirror, number);
    if (inbox != NULL) {
        *ret_len = inbox->row.json_len;
        *ret_json = malloc(*ret_len + 1);
        error = *ret_json == NULL ? -ENOMEM : 0;
    }
    if (error == 0)
        memcpy(*ret_json, inbox->json, *ret_len + 1);
    pthread_rwlock_unlock(&mirror->read_lock);
    return error;
}

size_t mirror_list_inboxes(struct mirror *mirror, uint64_t position, struct inbox_view *ret,
                           uint64_t *ret_positions, size_t max)
{
    size_t filled = 0;
    pthread_rwlock_rdlock(&mirror->read_lock);
    for (; position < mirror->inboxes.len && filled < max; position++) {
        const struct inbox *inbox = get_live_locked(mirror, (uint32_t)position);
        if (inbox == NULL)
            continue;
        view_inbox(inbox, &ret[filled]);
        ret_positions[filled++] = position + 1;
    }
    pthread_rwlock_unlock(&mirror->read_lock);
    return filled;
}

/* As many as there are within the next SKIP_MAX entries; *position moves on. True at the end of the list. */
static bool list_some(struct mirror *mirror, uint32_t inbox_number, bool is_held, uint64_t *position,
                      struct email_view *ret, uint64_t *ret_positions, size_t max, size_t *filled)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct inbox *inbox = get_live_locked(mirror, inbox_number);
    size_t len = inbox == NULL ? 0 : inbox->emails.len;
    for (size_t looked = 0; *position < len && looked < SKIP_MAX && *filled < max; looked++) {
        uint32_t number = inbox->emails.order[(*position)++];
        const struct email_entry *entry = email_index_find(mirror->emails, number);
        if (entry->is_gone || entry->is_held != is_held)
            continue;
        view_email(number, entry, &ret[*filled]);
        ret_positions[(*filled)++] = *position;
    }
    pthread_rwlock_unlock(&mirror->read_lock);
    return *position >= len;
}

static size_t list(struct mirror *mirror, uint32_t inbox, bool is_held, uint64_t position,
                   struct email_view *ret, uint64_t *ret_positions, size_t max)
{
    size_t filled = 0;
    while (filled < max && !list_some(mirror, inbox, is_held, &position, ret, ret_positions, max, &filled))
        continue;
    return filled;
}

size_t mirror_list_emails(struct mirror *mirror, uint32_t inbox, uint64_t position, struct email_view *ret,
                          uint64_t *ret_positions, size_t max)
{
    return list(mirror, inbox, false, position, ret, ret_positions, max);
}

size_t mirror_list_held(struct mirror *mirror, uint32_t inbox, uint64_t position, struct email_view *ret,
                        uint64_t *ret_positions, size_t max)
{
    return list(mirror, inbox, true, position, ret, ret_positions, max);
}

int64_t mirror_inboxes_changed_ms(struct mirror *mirror)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    int64_t changed_ms = mirror->inboxes_changed_ms;
    pthread_rwlock_unlock(&mirror->read_lock);
    return changed_ms;
}

void mirror_count(struct mirror *mirror, size_t *ret_inboxes, size_t *ret_emails)
{
    *ret_inboxes = 0;
    *ret_emails = 0;
    pthread_rwlock_rdlock(&mirror->read_lock);
    for (uint32_t i = 0; i < mirror->inboxes.len; i++) {
        const struct inbox *inbox = get_live_locked(mirror, i);
        if (inbox == NULL)
            continue;
        ++*ret_inboxes;
        *ret_emails += inbox->emails.live;
    }
    pthread_rwlock_unlock(&mirror->read_lock);
}

size_t mirror_email_numbers(struct mirror *mirror)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    size_t numbers = email_index_len(mirror->emails);
    pthread_rwlock_unlock(&mirror->read_lock);
    return numbers;
}

bool mirror_find_inbox_of_no_name(struct mirror *mirror, uint32_t *ret_inbox)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct inbox *inbox = mirror->inboxes.of_no_name;
    bool found = inbox != NULL && !inbox->is_gone;
    if (found)
        *ret_inbox = inbox->number;
    pthread_rwlock_unlock(&mirror->read_lock);
    return found;
}

/* ---------------------------------------------------------------- senders */

/* The inbox with this address, or with NULL the only one that has an address; NULL: none, or several. */
static const struct inbox *find_sender_locked(const struct mirror *mirror, const char *address)
{
    const struct inbox *found = NULL;
    for (uint32_t i = 0; i < mirror->inboxes.len; i++) {
        const struct inbox *inbox = get_live_locked(mirror, i);
        if (inbox == NULL || inbox->row.address == NULL)
            continue;
        if (address != NULL && !address_equals(inbox->row.address, address))
            continue;
        if (address == NULL && found != NULL)
            return NULL;
        found = inbox;
        if (address != NULL)
            break;
    }
    return found;
}

int mirror_find_sender(struct mirror *mirror, const char *address, char **ret_address)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct inbox *inbox = find_sender_locked(mirror, address);
    const char *sender = inbox != NULL ? inbox->row.address : NULL;
    if (sender == NULL && !mirror->inboxes_are_listed)
        sender = address;
    pthread_rwlock_unlock(&mirror->read_lock);
    if (sender == NULL)
        return -EADDRNOTAVAIL;
    *ret_address = strdup(sender);
    return *ret_address == NULL ? -ENOMEM : 0;
}

bool mirror_has_address(struct mirror *mirror, const char *address)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    bool found = find_sender_locked(mirror, address) != NULL;
    pthread_rwlock_unlock(&mirror->read_lock);
    return found;
}
