/* SPDX-License-Identifier: MIT */
/*
 * Sets of emails.
 */
#include "store/search_hits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/search_record.h"
#include "store/mirror_view.h"
#include "store/store.h"

enum {
    FIRST_CAPACITY = 64
};

void search_hits_release(struct search_hits *hits)
{
    free(hits->emails);
    *hits = (struct search_hits){.len = 0};
}

/* ---------------------------------------------------------------- what is a hit */

static const struct inbox *find_inbox_locked(const struct mirror *mirror, const char *id)
{
    if (id == NULL || id[0] == '\0')
        return mirror->inboxes.of_no_name;
    return inbox_table_find_id(&mirror->inboxes, id);
}

static int find_email_locked(const struct mirror *mirror, const char *inbox_id, const char *key,
                             uint32_t *ret_inbox, uint32_t *ret_email)
{
    const struct inbox *inbox = find_inbox_locked(mirror, inbox_id);
    if (inbox == NULL || inbox->is_gone)
        return -ENODEV;
    *ret_inbox = inbox->number;
    uint32_t email =
        email_list_find_key(mirror->emails, &inbox->emails, email_index_hash(mirror->emails, key));
    if (email == NUMBER_NONE)
        return -ENOENT;
    *ret_email = email;
    return email_entry_is_shown(email_index_find(mirror->emails, email)) ? 0 : -ESTALE;
}

int search_hits_find_email(struct mirror *mirror, const char *inbox_id, const char *key, uint32_t *ret_inbox,
                           uint32_t *ret_email)
{
    pthread_rwlock_rdlock(&mirror->read_lock);
    int error = find_email_locked(mirror, inbox_id, key, ret_inbox, ret_email);
    pthread_rwlock_unlock(&mirror->read_lock);
    return error;
}

static bool accepts_inbox(struct mirror *mirror, const struct search_query *query, uint32_t inbox)
{
    struct inbox_view view;
    if (!search_query_has(query, SEARCH_IN))
        return true;
    _cleanup_free_ char *name = mirror_get_inbox(mirror, inbox, &view) ? search_fold(view.name) : NULL;
    return name != NULL && search_query_accepts(query, SEARCH_IN, name);
}

static bool accepts_sender(struct mirror *mirror, const struct search_query *query, uint32_t email)
{
    struct search_record record;
    _cleanup_free_ char *json = NULL;
    size_t len;
    if (!search_query_has(query, SEARCH_FROM))
        return true;
    if (mirror_read_email(mirror, email, &json, &len) != 0 || search_record_read(json, len, &record) != 0)
        return false;
    bool is_accepted = search_query_accepts(query, SEARCH_FROM, record.sender);
    search_record_release(&record);
    return is_accepted;
}

bool search_hits_accepts(struct mirror *mirror, const struct search_query *query, uint32_t email)
{
    struct email_view view;
    return mirror_get_email(mirror, email, &view) && accepts_inbox(mirror, query, view.inbox) &&
           accepts_sender(mirror, query, email);
}

/* ---------------------------------------------------------------- sets */

int search_hits_add(struct search_hits *hits, uint32_t email)
{
    if (hits->len == STORE_SEARCH_MAX) {
        hits->is_truncated = true;
        return -ENOSPC;
    }
    if (hits->len == hits->capacity) {
        size_t capacity = hits->capacity == 0 ? FIRST_CAPACITY : 2 * hits->capacity;
        uint32_t *emails = realloc(hits->emails, capacity * sizeof(*emails));
        if (emails == NULL)
            return -ENOMEM;
        hits->emails = emails;
        hits->capacity = capacity;
    }
    hits->emails[hits->len++] = email;
    return 0;
}

static int compare_numbers(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one;
    uint32_t b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

static void sort_and_deduplicate(struct search_hits *hits)
{
    size_t kept = 0;
    if (hits->len == 0)
        return;
    qsort(hits->emails, hits->len, sizeof(*hits->emails), compare_numbers);
    for (size_t i = 1; i < hits->len; i++)
        if (hits->emails[i] != hits->emails[kept])
            hits->emails[++kept] = hits->emails[i];
    hits->len = kept + 1;
}

static bool has(const struct search_hits *sorted, uint32_t email)
{
    return sorted->len > 0 &&
           bsearch(&email, sorted->emails, sorted->len, sizeof(email), compare_numbers) != NULL;
}

void search_hits_intersect(struct search_hits *hits, struct search_hits *other)
{
    size_t kept = 0;
    sort_and_deduplicate(hits);
    sort_and_deduplicate(other);
    for (size_t i = 0; i < hits->len; i++)
        if (has(other, hits->emails[i]))
            hits->emails[kept++] = hits->emails[i];
    hits->len = kept;
    hits->is_truncated |= other->is_truncated;
}

int search_hits_unite(struct search_hits *hits, const struct search_hits *other)
{
    sort_and_deduplicate(hits);
    const size_t len = hits->len; /* of the part that is sorted */
    int error = 0;
    for (size_t i = 0; i < other->len && error == 0; i++) {
        const struct search_hits known = {.emails = hits->emails, .len = len};
        if (!has(&known, other->emails[i]))
            error = search_hits_add(hits, other->emails[i]);
    }
    hits->is_truncated |= other->is_truncated;
    sort_and_deduplicate(hits);
    return error == -ENOSPC ? 0 : error;
}

struct dated {
    uint32_t email;
    int64_t date_ms;
};

static int compare_dates(const void *one, const void *other)
{
    const struct dated *a = one;
    const struct dated *b = other;
    if (a->date_ms != b->date_ms)
        return a->date_ms > b->date_ms ? -1 : 1;
    return a->email < b->email ? -1 : a->email > b->email;
}

void search_hits_sort_by_date(struct search_hits *hits, struct mirror *mirror)
{
    _cleanup_free_ struct dated *dated = malloc((hits->len + 1) * sizeof(*dated));
    if (dated == NULL)
        return; /* then they are in another order */
    for (size_t i = 0; i < hits->len; i++) {
        struct email_view view = {.date_ms = 0};
        mirror_get_email(mirror, hits->emails[i], &view);
        dated[i] = (struct dated){hits->emails[i], view.date_ms};
    }
    qsort(dated, hits->len, sizeof(*dated), compare_dates);
    for (size_t i = 0; i < hits->len; i++)
        hits->emails[i] = dated[i].email;
}
