/* SPDX-License-Identifier: MIT */
/*
 * A search (store_search(), store.h) finds the emails of each group of terms, in the local search index and
 * by the service, and then intersects the groups. The service also searches bodies and attachments that were
 * never fetched. It gets one request for each word or phrase, so that a query means the same to the service
 * and to the search index. If the service does not answer, or cannot search, the search index alone gives the
 * result.
 *
 * A server may ignore search_term and list every email (docs/INTERFACE.md, GET /api/v1/email). Therefore the
 * first request has a random term that no email contains.
 */
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/random.h"
#include "mail/search_query.h"
#include "store/bounded_call.h"
#include "store/index.h"
#include "store/search_index.h"
#include "store/store.h"
#include "store/store_private.h"
#include "store/sync.h"

enum {
    SEARCH_TIMEOUT_MS = 10 * 1000,
    OFFLINE_TIMEOUT_MS = 2 * 1000, /* time-out unless the contact is online */
    CATCH_UP_TIMEOUT_MS = 1000,
    SERVICE_WORDS_MAX = 4,     /* only the longest words are requested */
    LIMIT_AFTER_REFUSAL = 100, /* if the service refuses the limit STORE_SEARCH_MAX */
    ABILITY_LASTS_MS = 60 * 60 * 1000,
    SYNC_INTERVAL_MS = 30 * 1000,
    EMAILS_AT_ONCE = 64,
};

/* A group of terms that are texts (search_query.h), and the emails that match one of them. Facts have no
 * group: an email that contradicts them gets into no group. A query without a wanted text has a group without
 * terms, which all emails match. */
struct group {
    const struct search_term *terms;
    size_t len;
    bool is_negated;
    bool is_open;       /* emails that `emails` lacks may match, too: the service cannot find them all */
    GHashTable *emails; /* a set of numbers of emails */
};

struct search {
    struct store *store;
    const struct search_query *query;
    struct cancel *cancel; /* also set when the time-out has passed */
    struct group groups[SEARCH_TERMS_MAX + 1];
    size_t groups_len;
    bool has_unwanted;       /* a group is negated */
    GHashTable *inbox_names; /* folded names by number of the inbox; owns the names */
    GHashTable *taking;      /* take_hit() adds to this set */
    GHashTable *found;       /* the result; NULL before the first */
    uint32_t unknown_inbox;  /* number of the inbox of a hit that the index lacks, or NUMBER_NONE */
    bool is_truncated;       /* other emails may match */
    bool is_service_asked;   /* the service answered every request */
};

/* ---------------------------------------------------------------- groups */

static void add_group(struct search *search, const struct search_term *terms, size_t len, bool is_negated)
{
    search->groups[search->groups_len++] = (struct group){
        .terms = terms, .len = len, .is_negated = is_negated, .emails = g_hash_table_new(NULL, NULL)};
}

static void make_groups(struct search *search)
{
    const struct search_query *query = search->query;
    bool has_wanted = false;
    size_t end;
    for (size_t i = 0; i < query->len; i = end) {
        const struct search_term *first = &query->terms[i];
        end = search_query_group_end(query, i);
        if (search_term_is_fact(first))
            continue;
        add_group(search, first, end - i, first->is_negated);
        has_wanted |= !first->is_negated;
        search->has_unwanted |= first->is_negated;
    }
    if (!has_wanted)
        add_group(search, NULL, 0, false);
}

static gboolean is_member(gpointer email, gpointer value, gpointer emails)
{
    return g_hash_table_contains(emails, email);
}

static gboolean is_not_member(gpointer email, gpointer value, gpointer emails)
{
    return !g_hash_table_contains(emails, email);
}

static void add_member(gpointer email, gpointer value, gpointer emails)
{
    g_hash_table_add(emails, email);
}

static bool has_words(const struct group *group)
{
    for (size_t i = 0; i < group->len; i++)
        if (group->terms[i].kind == SEARCH_WORD)
            return true;
    return false;
}

/* Sets search.found to the emails that all wanted groups have, and no unwanted one. Passes over open groups
 * if another group with words is not open. */
static void combine_groups(struct search *search)
{
    bool passes_open = false;
    GHashTable *found = NULL;
    for (size_t i = 0; i < search->groups_len; i++) {
        const struct group *group = &search->groups[i];
        passes_open |= !group->is_negated && !group->is_open && has_words(group);
    }
    for (size_t i = 0; i < search->groups_len; i++) {
        const struct group *group = &search->groups[i];
        if (group->is_negated || (group->is_open && passes_open))
            continue;
        if (found != NULL) {
            g_hash_table_foreach_remove(found, is_not_member, group->emails);
            continue;
        }
        found = g_hash_table_new(NULL, NULL);
        g_hash_table_foreach(group->emails, add_member, found);
    }
    for (size_t i = 0; i < search->groups_len; i++)
        if (search->groups[i].is_negated)
            g_hash_table_foreach_remove(found, is_member, search->groups[i].emails);
    g_clear_pointer(&search->found, g_hash_table_unref);
    search->found = found;
}

/* ---------------------------------------------------------------- hits */

/* Returns NULL if the inbox is gone. */
static const char *folded_name(struct search *search, uint32_t inbox)
{
    struct inbox_view view;
    char *name = g_hash_table_lookup(search->inbox_names, GUINT_TO_POINTER(inbox));
    if (name != NULL || !store_get_inbox(search->store, inbox, &view))
        return name;
    name = search_fold(view.name);
    if (name != NULL)
        g_hash_table_insert(search->inbox_names, GUINT_TO_POINTER(inbox), name);
    return name;
}

/* Adds the email if it is shown, and meets the facts of the query. */
static void take_view(struct search *search, const struct email_view *view)
{
    const char *inbox = view->is_quarantined ? NULL : folded_name(search, view->inbox);
    if (inbox != NULL && search_query_matches_facts(search->query, inbox, view->date_ms))
        g_hash_table_add(search->taking, GUINT_TO_POINTER(view->number));
}

static void take_hit(void *context, uint32_t email)
{
    struct search *search = context;
    struct email_view view;
    if (store_get_email(search->store, email, &view))
        take_view(search, &view);
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

/* Lists the newest STORE_SEARCH_MAX hits. Return: 0; -ENOMEM. */
static int list_newest(const struct search *search, struct store_search *ret)
{
    GHashTableIter position;
    gpointer email;
    size_t len = 0;
    _cleanup_free_ struct dated *dated = calloc(g_hash_table_size(search->found) + 1, sizeof(*dated));
    uint32_t *emails = calloc(STORE_SEARCH_MAX, sizeof(*emails));
    if (dated == NULL || emails == NULL) {
        free(emails);
        return -ENOMEM;
    }
    g_hash_table_iter_init(&position, search->found);
    while (g_hash_table_iter_next(&position, &email, NULL)) {
        struct email_view view = {.date_ms = 0};
        store_get_email(search->store, GPOINTER_TO_UINT(email), &view);
        dated[len++] = (struct dated){GPOINTER_TO_UINT(email), view.date_ms};
    }
    qsort(dated, len, sizeof(*dated), compare_dates);
    *ret = (struct store_search){.emails = emails,
                                 .len = MIN(len, (size_t)STORE_SEARCH_MAX),
                                 .is_truncated = search->is_truncated || len > STORE_SEARCH_MAX,
                                 .is_service_asked = search->is_service_asked};
    for (size_t i = 0; i < ret->len; i++)
        emails[i] = dated[i].email;
    return 0;
}

/* ---------------------------------------------------------------- the local index */

/* Indexes the pending emails, for at most a second. Returns false if some may remain. */
static bool process_pending(const struct search *search)
{
    int64_t until_ms = clock_monotonic_ms(clock_system()) + CATCH_UP_TIMEOUT_MS;
    int more = 1;
    while (more > 0 && !cancel_is_set(search->cancel) && clock_monotonic_ms(clock_system()) < until_ms)
        more = search_index_process_pending(&search->store->cache);
    return more == 0;
}

/* Returns false after the time-out. */
static bool take_all_emails(struct search *search, GHashTable *hits)
{
    struct inbox_view inbox;
    uint64_t inbox_position = 0;
    struct email_view emails[EMAILS_AT_ONCE];
    uint64_t positions[EMAILS_AT_ONCE];
    size_t len;
    search->taking = hits;
    while (store_list_inboxes(search->store, inbox_position, &inbox, &inbox_position, 1) == 1) {
        uint64_t position = 0;
        while (!cancel_is_set(search->cancel) &&
               (len = store_list_emails(search->store, inbox.number, position, emails, positions,
                                        EMAILS_AT_ONCE)) > 0) {
            position = positions[len - 1];
            for (size_t i = 0; i < len; i++)
                take_view(search, &emails[i]);
        }
    }
    return !cancel_is_set(search->cancel);
}

/* Returns false if some hits may be missing. */
static bool find_locally(struct search *search, const struct search_query *texts, GHashTable *hits)
{
    search->taking = hits;
    return search_index_find(&search->store->cache, texts, take_hit, search, search->cancel) == 0;
}

/* Returns true if the query has terms for attachments, and an email that meets all other terms may have such
 * attachments: its content was not fetched, so its attachments are not known. */
static bool may_have_attachment(struct search *search)
{
    g_autoptr(GHashTable) unread = g_hash_table_new(NULL, NULL);
    struct search_query wanted = {.len = 0};
    bool is_asked = false;
    for (size_t i = 0; i < search->query->len; i++) {
        struct search_term term = search->query->terms[i];
        if (search_term_is_fact(&term) || term.is_negated)
            continue;
        if (term.kind == SEARCH_ATTACHMENT || term.kind == SEARCH_NO_ATTACHMENT) {
            term.kind = SEARCH_UNKNOWN_ATTACHMENT;
            is_asked = true;
        }
        wanted.terms[wanted.len++] = term;
    }
    return is_asked && (!find_locally(search, &wanted, unread) || g_hash_table_size(unread) > 0);
}

static void search_locally(struct search *search)
{
    bool needs_index = search->groups[0].len > 0;
    bool is_complete = !needs_index || process_pending(search);
    for (size_t i = 0; i < search->groups_len; i++) {
        const struct group *group = &search->groups[i];
        struct search_query texts = {.len = group->len};
        if (group->len == 0) {
            is_complete &= take_all_emails(search, group->emails);
            continue;
        }
        memcpy(texts.terms, group->terms, group->len * sizeof(*group->terms));
        is_complete &= find_locally(search, &texts, group->emails);
    }
    search->is_truncated |= !is_complete || may_have_attachment(search);
}

/* ---------------------------------------------------------------- the service */

/* Skips emails that are gone, or whose inbox is unknown or gone. */
static int take_record(void *context, struct email_record *record)
{
    struct search *search = context;
    struct index *index = &search->store->index;
    const struct email_entry *entry = NULL;
    uint32_t email = NUMBER_NONE;
    bool has_inbox = record->inbox_id != NULL && record->inbox_id[0] != '\0';
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox =
        has_inbox ? inbox_table_find_id(&index->inboxes, record->inbox_id) : index->inboxes.of_no_name;
    bool is_listed = inbox != NULL && !inbox->row.is_gone;
    if (is_listed) {
        email = email_list_find_key(&inbox->emails, record->key);
        entry = email_table_find(&index->emails, email);
        is_listed = entry == NULL || !entry->is_gone;
    }
    if (is_listed && entry == NULL)
        search->unknown_inbox = inbox->row.number;
    pthread_rwlock_unlock(&index->read_lock);
    if (is_listed && entry != NULL)
        take_hit(search, email);
    return 0;
}

static int ignore_record(void *context, struct email_record *record)
{
    (void)context, (void)record;
    return 0;
}

static enum service_outcome list_from_service(struct search *search, const struct email_query *query,
                                              email_sink sink, unsigned int *ret_count)
{
    struct mail_service *service = search->store->service;
    struct service_result result;
    *ret_count = 0;
    service->ops->list_emails(service, query, sink, search, search->cancel, ret_count, &result);
    contact_report(&search->store->contact, &result);
    enum service_outcome outcome = result.outcome;
    service_result_release(&result);
    return outcome;
}

/* Requests a random term, which no email contains. Returns false if the result is not known. */
static bool test_ability(struct search *search, bool *ret_can_search)
{
    char term[33];
    unsigned int count;
    random_hex(term, 16);
    const struct email_query query = {.limit = 1, .search_term = term};
    enum service_outcome outcome = list_from_service(search, &query, ignore_record, &count);
    *ret_can_search = outcome == SERVICE_OK && count == 0;
    /* A count above zero proves that the service answered, even if the answer was cut off. */
    return outcome == SERVICE_OK || outcome == SERVICE_REJECTED || outcome == SERVICE_ABSENT || count > 0;
}

/* Returns true if there are emails, and the service has a list of inboxes and (tested hourly) can search. */
static bool can_search(struct search *search)
{
    struct store *store = search->store;
    struct searcher *searcher = &store->searcher;
    struct service_capabilities capabilities;
    size_t inboxes;
    size_t emails;
    store->service->ops->get_capabilities(store->service, &capabilities);
    index_count_shown(&store->index, &inboxes, &emails);
    if (capabilities.inbox_list == CAPABILITY_ABSENT || emails == 0)
        return false;
    int64_t now_ms = clock_monotonic_ms(store->index.clock);
    pthread_mutex_lock(&searcher->lock);
    bool can_search = searcher->can_search;
    bool is_known = now_ms < searcher->ability_until_ms;
    pthread_mutex_unlock(&searcher->lock);
    if (is_known)
        return can_search;
    if (!test_ability(search, &can_search))
        return false;
    LOCK_GUARD(&searcher->lock);
    searcher->can_search = can_search;
    searcher->ability_until_ms = now_ms + ABILITY_LASTS_MS;
    return can_search;
}

/* Returns the id of the only inbox that `in:` allows; NULL if the query has no `in:` or allows several. */
static const char *only_inbox(struct search *search)
{
    struct search_query inboxes = {.len = 0};
    struct inbox_view view;
    uint64_t position = 0;
    const char *id = NULL;
    for (size_t i = 0; i < search->query->len; i++) {
        const struct search_term *term = &search->query->terms[i];
        bool is_alone = !term->is_alternative && search_query_group_end(search->query, i) == i + 1;
        if (term->kind == SEARCH_IN && is_alone)
            inboxes.terms[inboxes.len++] = *term;
    }
    while (inboxes.len > 0 && store_list_inboxes(search->store, position, &view, &position, 1) == 1) {
        const char *name = folded_name(search, view.number);
        if (name == NULL || !search_query_matches_facts(&inboxes, name, 0))
            continue;
        if (id != NULL)
            return NULL;
        id = view.id;
    }
    return id;
}

struct word {
    const struct search_term *term;
    struct group *group;
};

static int compare_lengths(const void *one, const void *other)
{
    size_t a = strlen(((const struct word *)one)->term->text);
    size_t b = strlen(((const struct word *)other)->term->text);
    return a > b ? -1 : a < b;
}

/* Lists the words and phrases of the query, the longest first. Returns their number. */
static size_t list_words(struct search *search, struct word ret_words[SEARCH_TERMS_MAX])
{
    size_t len = 0;
    for (size_t i = 0; i < search->groups_len; i++) {
        struct group *group = &search->groups[i];
        for (size_t j = 0; j < group->len; j++)
            if (group->terms[j].kind == SEARCH_WORD)
                ret_words[len++] = (struct word){&group->terms[j], group};
    }
    qsort(ret_words, len, sizeof(*ret_words), compare_lengths);
    return len;
}

/* Adds the service's hits for one word to its group. Returns false if the service did not answer. */
static bool request_word(struct search *search, const char *inbox_id, const struct word *word)
{
    struct email_query query = {
        .inbox_id = inbox_id, .limit = STORE_SEARCH_MAX, .search_term = word->term->text};
    unsigned int count;
    search->taking = word->group->emails;
    enum service_outcome outcome = list_from_service(search, &query, take_record, &count);
    if (outcome == SERVICE_REJECTED) {
        query.limit = LIMIT_AFTER_REFUSAL;
        outcome = list_from_service(search, &query, take_record, &count);
    }
    bool is_truncated = count >= query.limit;
    word->group->is_open |= is_truncated;
    search->is_truncated |= is_truncated;
    return outcome == SERVICE_OK;
}

/* Requests the longest words, since they are the rarest. Returns false if the service did not answer. */
static bool request_words(struct search *search, const struct word *words, size_t len)
{
    const char *inbox_id = only_inbox(search);
    bool is_answered = true;
    for (size_t i = 0; i < len && is_answered; i++) {
        if (i < SERVICE_WORDS_MAX)
            is_answered = request_word(search, inbox_id, &words[i]);
        else
            words[i].group->is_open |= words[i].group->len == 1;
    }
    /* A group can be passed over only if the service answered for the others. */
    for (size_t i = 0; i < len && !is_answered; i++)
        words[i].group->is_open = false;
    return is_answered;
}

/* Syncs the inbox of a hit that the index lacks, at most once in SYNC_INTERVAL_MS: the service may find
 * emails that it never lists. Returns true if the sync succeeded. */
static bool sync_unknown_inbox(struct search *search)
{
    struct store *store = search->store;
    struct searcher *searcher = &store->searcher;
    _cleanup_free_ char *reason = NULL;
    int64_t now_ms = clock_monotonic_ms(store->index.clock);
    pthread_mutex_lock(&searcher->lock);
    bool is_due = searcher->synced_ms == 0 || now_ms - searcher->synced_ms >= SYNC_INTERVAL_MS;
    if (is_due)
        searcher->synced_ms = now_ms;
    pthread_mutex_unlock(&searcher->lock);
    return is_due &&
           sync_wait(store->sync, search->unknown_inbox, CLOCK_FOREVER, search->cancel, &reason) == 0;
}

static void search_service(struct search *search)
{
    struct word words[SEARCH_TERMS_MAX];
    size_t len = list_words(search, words);
    if (len == 0 || cancel_is_set(search->cancel) || !can_search(search))
        return;
    search->unknown_inbox = NUMBER_NONE;
    search->is_service_asked = request_words(search, words, len);
    if (search->is_service_asked && search->unknown_inbox != NUMBER_NONE && sync_unknown_inbox(search)) {
        search_locally(search);
        search->is_service_asked = request_words(search, words, len);
    }
}

/* ---------------------------------------------------------------- the index and the service together */

static void search_within_timeout(void *context, struct cancel *cancel)
{
    struct search *search = context;
    search->cancel = cancel;
    search_locally(search);
    combine_groups(search);
    /* If the local hits alone exceed the maximum, the service can only exclude some of them. */
    if (g_hash_table_size(search->found) <= STORE_SEARCH_MAX || search->has_unwanted) {
        search_service(search);
        combine_groups(search);
    }
}

int store_search(struct store *store, const char *text, struct cancel *cancel, struct store_search *ret)
{
    struct clock *clock = store->index.clock;
    int64_t timeout_ms = contact_is_online(&store->contact) ? SEARCH_TIMEOUT_MS : OFFLINE_TIMEOUT_MS;
    struct search_query query;
    _cleanup_free_ char *reason = NULL;
    int error = search_query_parse(text, clock_realtime_ms(clock), &query, &reason);
    if (error != 0)
        return error;
    struct search search = {
        .store = store, .query = &query, .inbox_names = g_hash_table_new_full(NULL, NULL, NULL, free)};
    make_groups(&search);
    error = bounded_call(clock, timeout_ms, cancel, search_within_timeout, &search);
    if (error == 0 && cancel_is_set(cancel))
        error = -EINTR;
    if (error == 0)
        error = list_newest(&search, ret);
    for (size_t i = 0; i < search.groups_len; i++)
        g_hash_table_unref(search.groups[i].emails);
    g_clear_pointer(&search.found, g_hash_table_unref);
    g_hash_table_unref(search.inbox_names);
    search_query_release(&query);
    return error;
}

void store_search_release(struct store_search *search)
{
    free(search->emails);
    *search = (struct store_search){.len = 0};
}
