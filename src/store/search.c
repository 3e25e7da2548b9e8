/* SPDX-License-Identifier: MIT */
/*
 * A search (store_search(), store.h) joins the hits of the service with the hits of the local search index.
 * The service also searches bodies and attachments that were never fetched. The store makes one request for
 * each word or phrase and intersects the answers, so that a query means the same to the service and to the
 * search index. If the service does not answer, or cannot search, the search index alone gives the result.
 *
 * A server may ignore search_term and list every email (docs/INTERFACE.md, GET /api/v1/email). Therefore the
 * first request has a random term that no email contains.
 */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
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

/* ---------------------------------------------------------------- emails found */

struct search_hits {
    GHashTable *emails; /* a set of numbers of emails */
    bool is_truncated;  /* other emails may match */
};

static struct search_hits search_hits_new(void)
{
    return (struct search_hits){.emails = g_hash_table_new(NULL, NULL)};
}

static void search_hits_release(struct search_hits *hits)
{
    g_hash_table_unref(hits->emails);
}

#define _cleanup_hits_ _cleanup_(search_hits_release)

static void search_hits_clear(struct search_hits *hits)
{
    g_hash_table_remove_all(hits->emails);
    hits->is_truncated = false;
}

static gboolean is_member(gpointer email, gpointer value, gpointer hits)
{
    return g_hash_table_contains(hits, email);
}

static void add_member(gpointer email, gpointer value, gpointer hits)
{
    g_hash_table_add(hits, email);
}

static gboolean is_not_member(gpointer email, gpointer value, gpointer hits)
{
    return !g_hash_table_contains(hits, email);
}

static void search_hits_intersect(struct search_hits *hits, const struct search_hits *other)
{
    g_hash_table_foreach_remove(hits->emails, is_not_member, other->emails);
    hits->is_truncated |= other->is_truncated;
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
static int list_newest(const struct search_hits *hits, struct store *store, bool is_service_asked,
                       struct store_search *ret)
{
    GHashTableIter position;
    gpointer email;
    size_t len = 0;
    _cleanup_free_ struct dated *dated = calloc(g_hash_table_size(hits->emails) + 1, sizeof(*dated));
    uint32_t *emails = calloc(STORE_SEARCH_MAX, sizeof(*emails));
    if (dated == NULL || emails == NULL) {
        free(emails);
        return -ENOMEM;
    }
    g_hash_table_iter_init(&position, hits->emails);
    while (g_hash_table_iter_next(&position, &email, NULL)) {
        struct email_view view = {.date_ms = 0};
        store_get_email(store, GPOINTER_TO_UINT(email), &view);
        dated[len++] = (struct dated){GPOINTER_TO_UINT(email), view.date_ms};
    }
    qsort(dated, len, sizeof(*dated), compare_dates);
    *ret = (struct store_search){.emails = emails,
                                 .len = MIN(len, (size_t)STORE_SEARCH_MAX),
                                 .is_truncated = hits->is_truncated || len > STORE_SEARCH_MAX,
                                 .is_service_asked = is_service_asked};
    for (size_t i = 0; i < ret->len; i++)
        emails[i] = dated[i].email;
    return 0;
}

/* ---------------------------------------------------------------- parts of a query */

/* Returns true if copy_groups() is to copy this group of terms. */
typedef bool (*group_test)(const struct search_term *first, size_t len);

static bool is_wanted_text(const struct search_term *first, size_t len)
{
    return !search_term_is_fact(first) && !first->is_negated;
}

static bool is_unwanted_text(const struct search_term *first, size_t len)
{
    return !search_term_is_fact(first) && first->is_negated;
}

static bool is_inbox(const struct search_term *first, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (first[i].kind != SEARCH_IN)
            return false;
    return true;
}

static bool has_words(const struct search_term *first, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (first[i].kind == SEARCH_WORD)
            return true;
    return false;
}

static bool is_wanted_without_words(const struct search_term *first, size_t len)
{
    return is_wanted_text(first, len) && !has_words(first, len);
}

/* Copies the groups that pass the test. The copy borrows its strings from `query`. Returns false if there is
 * no such group. */
static bool copy_groups(const struct search_query *query, group_test test, struct search_query *ret)
{
    size_t end;
    ret->len = 0;
    for (size_t i = 0; i < query->len; i = end) {
        end = search_query_group_end(query, i);
        if (!test(&query->terms[i], end - i))
            continue;
        memcpy(&ret->terms[ret->len], &query->terms[i], (end - i) * sizeof(query->terms[0]));
        ret->len += end - i;
    }
    return ret->len > 0;
}

/* ---------------------------------------------------------------- a search */

enum {
    SEARCH_TIMEOUT_MS = 10 * 1000,
    OFFLINE_TIMEOUT_MS = 2 * 1000, /* time-out unless the contact is online */
    CATCH_UP_TIMEOUT_MS = 1000,
    SERVICE_TERMS_MAX = 4,     /* only the longest terms are requested, each by itself */
    LIMIT_AFTER_REFUSAL = 100, /* if the service refuses the limit STORE_SEARCH_MAX */
    ABILITY_LASTS_MS = 60 * 60 * 1000,
    SYNC_INTERVAL_MS = 30 * 1000,
    EMAILS_AT_ONCE = 64,
};

struct search {
    struct store *store;
    const struct search_query *query;
    struct cancel *cancel;                                  /* also set when the time-out has passed */
    struct search_hits found;                               /* from the service */
    struct search_hits local;                               /* from the search index */
    struct search_hits unwanted;                            /* emails with a negated text, from both */
    struct search_hits *taking;                             /* take_hit() adds to this set */
    const struct search_term *requested[SERVICE_TERMS_MAX]; /* terms for the service; NULL after the last */
    uint32_t unknown_inbox; /* number of the inbox of a hit that the index lacks, or NUMBER_NONE */
    bool has_facts;
    bool is_service_asked; /* the service answered every request */
};

static bool has_facts(const struct search_query *query)
{
    for (size_t i = 0; i < query->len; i++)
        if (search_term_is_fact(&query->terms[i]))
            return true;
    return false;
}

/* Returns true if the email is shown, and meets the facts of the query. */
static bool is_hit(const struct search *search, uint32_t email)
{
    struct email_view view;
    struct inbox_view inbox;
    if (!store_get_email(search->store, email, &view) || view.is_quarantined)
        return false;
    if (!store_get_inbox(search->store, view.inbox, &inbox))
        return false;
    if (!search->has_facts)
        return true;
    _cleanup_free_ char *name = search_fold(inbox.name);
    return name != NULL && search_query_matches_facts(search->query, name, view.date_ms);
}

static void take_hit(void *context, uint32_t email)
{
    struct search *search = context;
    if (is_hit(search, email))
        g_hash_table_add(search->taking->emails, GUINT_TO_POINTER(email));
}

/* ---------------------------------------------------------------- the local index */

/* Adds the hits of the search index for `part` to `hits`. Returns false if some may be missing. */
static bool find_locally(struct search *search, const struct search_query *part, struct search_hits *hits)
{
    search->taking = hits;
    return search_index_find(&search->store->cache, part, take_hit, search, search->cancel) == 0;
}

/* Indexes the pending emails, for at most a second. Returns false if some may remain. */
static bool process_pending(const struct search *search)
{
    int64_t until_ms = clock_monotonic_ms(clock_system()) + CATCH_UP_TIMEOUT_MS;
    int more = 1;
    while (more > 0 && !cancel_is_set(search->cancel) && clock_monotonic_ms(clock_system()) < until_ms)
        more = search_index_process_pending(&search->store->cache);
    return more == 0;
}

/* Adds an inbox's emails that meet the facts. Returns false after the time-out, or when out of memory. */
static bool add_emails_of_inbox(struct search *search, const struct inbox_view *inbox)
{
    struct email_view emails[EMAILS_AT_ONCE];
    uint64_t positions[EMAILS_AT_ONCE];
    uint64_t position = 0;
    size_t len;
    _cleanup_free_ char *name = search_fold(inbox->name);
    while (name != NULL && !cancel_is_set(search->cancel) &&
           (len = store_list_emails(search->store, inbox->number, position, emails, positions,
                                    EMAILS_AT_ONCE)) > 0) {
        position = positions[len - 1];
        for (size_t i = 0; i < len; i++)
            if (search_query_matches_facts(search->query, name, emails[i].date_ms))
                g_hash_table_add(search->local.emails, GUINT_TO_POINTER(emails[i].number));
    }
    return name != NULL && !cancel_is_set(search->cancel);
}

/* Returns true if the query has terms for attachments, and an email that meets all other terms may have such
 * attachments: its content was not fetched, so its attachments are not known. */
static bool may_have_attachment(struct search *search, const struct search_query *wanted)
{
    _cleanup_hits_ struct search_hits unread = search_hits_new();
    struct search_query query = *wanted;
    bool is_asked = false;
    for (size_t i = 0; i < query.len; i++) {
        if (query.terms[i].kind != SEARCH_ATTACHMENT && query.terms[i].kind != SEARCH_NO_ATTACHMENT)
            continue;
        query.terms[i].kind = SEARCH_UNKNOWN_ATTACHMENT;
        is_asked = true;
    }
    return is_asked && (!find_locally(search, &query, &unread) || g_hash_table_size(unread.emails) > 0);
}

/* Adds the emails that have any of the negated texts to search.unwanted. Returns false if some may be
 * missing.
 */
static bool find_unwanted(struct search *search)
{
    struct search_query unwanted;
    if (!copy_groups(search->query, is_unwanted_text, &unwanted))
        return true;
    for (size_t i = 1; i < unwanted.len; i++)
        unwanted.terms[i].is_alternative = true;
    return find_locally(search, &unwanted, &search->unwanted);
}

static void search_locally(struct search *search)
{
    struct search_query wanted;
    struct search_query unwanted;
    bool has_wanted = copy_groups(search->query, is_wanted_text, &wanted);
    bool needs_index = has_wanted || copy_groups(search->query, is_unwanted_text, &unwanted);
    bool is_complete = !needs_index || process_pending(search);
    is_complete &= find_unwanted(search);
    struct inbox_view inbox;
    uint64_t position = 0;
    if (has_wanted)
        is_complete &= find_locally(search, &wanted, &search->local) && !may_have_attachment(search, &wanted);
    /* Without a wanted text, the facts alone select emails. */
    bool continues = !has_wanted;
    while (continues && store_list_inboxes(search->store, position, &inbox, &position, 1) == 1)
        continues = add_emails_of_inbox(search, &inbox);
    search->local.is_truncated |= !is_complete || (!has_wanted && !continues);
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

static enum search_ability test_ability(struct search *search)
{
    uint64_t noise[2];
    char term[40];
    unsigned int count;
    if (random_bytes(noise, sizeof(noise)) != 0)
        return SEARCH_ABILITY_UNKNOWN;
    snprintf(term, sizeof(term), "%016" PRIx64 "%016" PRIx64, noise[0], noise[1]);
    const struct email_query query = {.limit = 1, .search_term = term};
    enum service_outcome outcome = list_from_service(search, &query, ignore_record, &count);
    /* Even an answer that was cut off has a count. */
    if (count > 0 || outcome == SERVICE_REJECTED || outcome == SERVICE_ABSENT)
        return SEARCH_ABILITY_ABSENT;
    return outcome == SERVICE_OK ? SEARCH_ABILITY_PRESENT : SEARCH_ABILITY_UNKNOWN;
}

/* Returns true if there are emails, and the service has a list of inboxes and (tested hourly) can search. */
static bool has_ability(struct search *search)
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
    enum search_ability ability = searcher->ability;
    bool is_known = ability != SEARCH_ABILITY_UNKNOWN && now_ms - searcher->ability_ms < ABILITY_LASTS_MS;
    pthread_mutex_unlock(&searcher->lock);
    if (!is_known) {
        ability = test_ability(search);
        pthread_mutex_lock(&searcher->lock);
        searcher->ability = ability;
        searcher->ability_ms = now_ms;
        pthread_mutex_unlock(&searcher->lock);
    }
    return ability == SEARCH_ABILITY_PRESENT;
}

/* Returns the id of the only inbox that `in:` allows; NULL if the query has no `in:` or allows several. */
static const char *only_inbox(const struct search *search)
{
    struct search_query inboxes;
    struct inbox_view view;
    uint64_t position = 0;
    const char *id = NULL;
    if (!copy_groups(search->query, is_inbox, &inboxes))
        return NULL;
    while (store_list_inboxes(search->store, position, &view, &position, 1) == 1) {
        _cleanup_free_ char *name = search_fold(view.name);
        if (name == NULL || !search_query_matches_facts(&inboxes, name, 0))
            continue;
        if (id != NULL)
            return NULL;
        id = view.id;
    }
    return id;
}

/* Adds the service's hits for one term. Returns false if the service did not answer. */
static bool request_term(struct search *search, const char *inbox_id, const char *term,
                         struct search_hits *ret_hits)
{
    struct email_query query = {.inbox_id = inbox_id, .limit = STORE_SEARCH_MAX, .search_term = term};
    unsigned int count;
    search->taking = ret_hits;
    enum service_outcome outcome = list_from_service(search, &query, take_record, &count);
    if (outcome == SERVICE_REJECTED) {
        query.limit = LIMIT_AFTER_REFUSAL;
        outcome = list_from_service(search, &query, take_record, &count);
    }
    ret_hits->is_truncated |= count >= query.limit;
    return outcome == SERVICE_OK;
}

static int compare_lengths(const void *one, const void *other)
{
    size_t a = strlen((*(const struct search_term *const *)one)->text);
    size_t b = strlen((*(const struct search_term *const *)other)->text);
    return a > b ? -1 : a < b;
}

/* Chooses the longest words and phrases, since they are the rarest. Returns false if the query has none. */
static bool choose_terms(struct search *search)
{
    const struct search_term *terms[SEARCH_TERMS_MAX];
    size_t len = 0;
    for (size_t i = 0; i < search->query->len; i++)
        if (search->query->terms[i].kind == SEARCH_WORD)
            terms[len++] = &search->query->terms[i];
    qsort(terms, len, sizeof(struct search_term *), compare_lengths);
    memcpy(search->requested, terms,
           (len < SERVICE_TERMS_MAX ? len : SERVICE_TERMS_MAX) * sizeof(struct search_term *));
    return len > 0;
}

static bool is_requested(const struct search *search, const struct search_term *term)
{
    for (size_t i = 0; i < SERVICE_TERMS_MAX; i++)
        if (search->requested[i] == term)
            return true;
    return false;
}

/* Keeps the first answer. Intersects two complete or two truncated answers. Otherwise keeps the complete
 * answer: an email that a truncated answer lacks may have the term all the same. */
static void merge_group_hits(struct search_hits *found, struct search_hits *more, bool is_first)
{
    bool is_truncated = found->is_truncated || more->is_truncated;
    if (is_first || (found->is_truncated && !more->is_truncated)) {
        struct search_hits passed_over = *found;
        *found = *more;
        *more = passed_over;
    } else if (found->is_truncated == more->is_truncated) {
        search_hits_intersect(found, more);
    }
    found->is_truncated = is_truncated;
}

/* Finds the service's hits for the words of a group. If a term of the group is not requested,
 * adds the index's hits for the group. Returns false if the service did not answer. */
static bool request_group(struct search *search, const char *inbox_id, const struct search_term *first,
                          size_t len, struct search_hits *ret_hits)
{
    bool is_answered = true;
    bool is_complete = true;
    for (size_t i = 0; i < len && is_answered; i++) {
        if (is_requested(search, &first[i]))
            is_answered = request_term(search, inbox_id, first[i].text, ret_hits);
        else
            is_complete = false;
    }
    if (is_answered && !is_complete) {
        struct search_query group = {.len = len};
        memcpy(group.terms, first, len * sizeof(*first));
        find_locally(search, &group, ret_hits);
    }
    return is_answered;
}

/* Intersects the hits of all wanted groups. Returns false if the service did not answer for one of them. */
static bool request_wanted(struct search *search, const char *inbox_id, struct search_hits *found)
{
    const struct search_query *query = search->query;
    bool is_first = true;
    size_t end;
    for (size_t i = 0; i < query->len; i = end) {
        const struct search_term *first = &query->terms[i];
        _cleanup_hits_ struct search_hits more = search_hits_new();
        end = search_query_group_end(query, i);
        /* Nothing is known of a group whose only word is not requested. */
        if (!is_wanted_text(first, end - i) || !has_words(first, end - i) ||
            (end - i == 1 && !is_requested(search, first)))
            continue;
        if (!request_group(search, inbox_id, first, end - i, &more))
            return false;
        merge_group_hits(found, &more, is_first);
        if (g_hash_table_size(found->emails) == 0 && !found->is_truncated)
            break;
        is_first = false;
    }
    return true;
}

/* Sets search.found to the service's hits for the query. Returns false, with no hits, if the service did not
 * answer. */
static bool request_all_terms(struct search *search)
{
    const char *inbox_id = only_inbox(search);
    struct search_hits *found = &search->found;
    struct search_query query;
    search_hits_clear(found);
    bool is_answered = request_wanted(search, inbox_id, found);
    for (size_t i = 0; i < SERVICE_TERMS_MAX && search->requested[i] != NULL && is_answered; i++)
        if (search->requested[i]->is_negated)
            is_answered = request_term(search, inbox_id, search->requested[i]->text, &search->unwanted);
    if (!is_answered) {
        search_hits_clear(found);
        return false;
    }
    /* The service only finds words; the search index tests subject:, from:, to: and attachments. */
    if (g_hash_table_size(found->emails) > 0 && copy_groups(search->query, is_wanted_without_words, &query)) {
        _cleanup_hits_ struct search_hits known = search_hits_new();
        find_locally(search, &query, &known);
        search_hits_intersect(found, &known);
    }
    return true;
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
    /* If the local hits alone exceed the maximum, the service is not needed. */
    bool is_local_enough = g_hash_table_size(search->unwanted.emails) == 0 &&
                           g_hash_table_size(search->local.emails) > STORE_SEARCH_MAX;
    if (is_local_enough || !choose_terms(search) || cancel_is_set(search->cancel) || !has_ability(search))
        return;
    search->unknown_inbox = NUMBER_NONE;
    search->is_service_asked = request_all_terms(search);
    if (search->is_service_asked && search->unknown_inbox != NUMBER_NONE && sync_unknown_inbox(search)) {
        /* The new emails may have an unwanted text. */
        (void)process_pending(search);
        (void)find_unwanted(search);
        search->is_service_asked = request_all_terms(search);
    }
}

/* ---------------------------------------------------------------- the service and the index together */

static void search_within_timeout(void *context, struct cancel *cancel)
{
    struct search *search = context;
    search->cancel = cancel;
    search_locally(search);
    search_service(search);
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
    struct search search = {.store = store,
                            .query = &query,
                            .found = search_hits_new(),
                            .local = search_hits_new(),
                            .unwanted = search_hits_new(),
                            .has_facts = has_facts(&query)};
    error = bounded_call(clock, timeout_ms, cancel, search_within_timeout, &search);
    if (error == 0 && cancel_is_set(cancel))
        error = -EINTR;
    if (error == 0) {
        g_hash_table_foreach(search.local.emails, add_member, search.found.emails);
        g_hash_table_foreach_remove(search.found.emails, is_member, search.unwanted.emails);
        search.found.is_truncated |= search.local.is_truncated || search.unwanted.is_truncated;
        error = list_newest(&search.found, store, search.is_service_asked, ret);
    }
    search_hits_release(&search.found);
    search_hits_release(&search.local);
    search_hits_release(&search.unwanted);
    search_query_release(&query);
    return error;
}

void store_search_release(struct store_search *search)
{
    free(search->emails);
    *search = (struct store_search){.len = 0};
}
