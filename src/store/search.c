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
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/random.h"
#include "mail/search_query.h"
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
};

/* A group of terms (search_query.h) is a bit: bit i is the group that begins with term i. Groups of facts
 * have no bit. */
struct search {
    struct store *store;
    const struct search_query *query;
    struct cancel *cancel;  /* also set when the time-out has passed */
    uint64_t wanted;        /* groups that an email has to match */
    uint64_t unwanted;      /* groups that an email must not match */
    uint64_t with_words;    /* wanted groups that have a word or phrase */
    uint64_t of_content;    /* groups that have a term for attachments */
    uint64_t open;          /* groups that more emails may match: the service cannot find them all */
    GArray *matches;        /* uint64_t by number of the email: the groups that the email matches */
    uint64_t taking;        /* add_hit() adds emails to this group */
    GArray *found;          /* struct dated: the emails that match the query */
    uint32_t unknown_inbox; /* number of the inbox of a hit that the index lacks, or NUMBER_NONE */
    bool is_truncated;      /* other emails may match */
    bool is_service_asked;  /* the service answered every request */
};

struct dated {
    uint32_t email;
    int64_t date_ms;
};

_Static_assert(SEARCH_TERMS_MAX <= 64, "a group has no bit");

/* ---------------------------------------------------------------- groups */

/* Returns the group of the term with this index. */
static uint64_t group_of(const struct search_query *query, size_t term)
{
    while (term > 0 && query->terms[term].is_alternative)
        term--;
    return UINT64_C(1) << term;
}

static bool is_alone(const struct search_query *query, size_t term)
{
    return !query->terms[term].is_alternative && search_query_group_end(query, term) == term + 1;
}

static void read_groups(struct search *search)
{
    for (size_t i = 0; i < search->query->len; i++) {
        const struct search_term *term = &search->query->terms[i];
        uint64_t group = search_term_is_fact(term) ? 0 : group_of(search->query, i);
        if (term->is_negated)
            search->unwanted |= group;
        else
            search->wanted |= group;
        if (term->kind == SEARCH_WORD && !term->is_negated)
            search->with_words |= group;
        if (term->kind == SEARCH_ATTACHMENT || term->kind == SEARCH_NO_ATTACHMENT)
            search->of_content |= group;
    }
}

/* The email exists. */
static void add_hit(struct search *search, uint32_t email)
{
    if (email >= search->matches->len)
        g_array_set_size(search->matches, email + 1);
    g_array_index(search->matches, uint64_t, email) |= search->taking;
}

/* Returns true if the email is shown, and matches the facts of the query. */
static bool matches_facts(const struct search *search, uint32_t email, int64_t *ret_date_ms)
{
    struct index *index = &search->store->index;
    READ_GUARD(&index->read_lock);
    const struct email_entry *entry = email_table_find(&index->emails, email);
    if (entry == NULL || !email_entry_is_shown(entry) || entry->view.inbox == STORE_SENT)
        return false;
    const struct inbox *inbox = inbox_table_get(&index->inboxes, entry->view.inbox);
    *ret_date_ms = entry->view.date_ms;
    return !inbox->row.is_gone &&
           search_query_matches_facts(search->query, inbox->folded_name, entry->view.date_ms);
}

static uint32_t count_numbers(struct index *index)
{
    READ_GUARD(&index->read_lock);
    return index->emails.entries->len;
}

/* Finds the emails that match all wanted groups, and no unwanted one. Passes over open groups if another
 * group with words is not open. */
static void combine_groups(struct search *search)
{
    uint64_t closed = search->wanted & ~search->open;
    uint64_t wanted = (closed & search->with_words) != 0 ? closed : search->wanted;
    g_array_set_size(search->matches, count_numbers(&search->store->index));
    g_array_set_size(search->found, 0);
    for (uint32_t email = 0; email < search->matches->len; email++) {
        uint64_t groups = g_array_index(search->matches, uint64_t, email);
        struct dated dated = {.email = email};
        if ((groups & wanted) == wanted && (groups & search->unwanted) == 0 &&
            matches_facts(search, email, &dated.date_ms))
            g_array_append_val(search->found, dated);
    }
}

static int compare_dates(const void *one, const void *other)
{
    const struct dated *a = one;
    const struct dated *b = other;
    if (a->date_ms != b->date_ms)
        return a->date_ms > b->date_ms ? -1 : 1;
    return a->email < b->email ? -1 : a->email > b->email;
}

/* Lists the newest STORE_SEARCH_MAX emails. */
static void list_newest(const struct search *search, struct store_search *ret)
{
    GArray *found = search->found;
    g_array_sort(found, compare_dates);
    *ret = (struct store_search){.emails = g_new(uint32_t, STORE_SEARCH_MAX),
                                 .len = MIN(found->len, (size_t)STORE_SEARCH_MAX),
                                 .is_truncated = search->is_truncated || found->len > STORE_SEARCH_MAX,
                                 .is_service_asked = search->is_service_asked};
    for (size_t i = 0; i < ret->len; i++)
        ret->emails[i] = g_array_index(found, struct dated, i).email;
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

static void take_hit(void *context, uint32_t email)
{
    struct search *search = context;
    struct email_view view;
    if (store_get_email(search->store, email, &view))
        add_hit(search, email);
}

/* Sets is_truncated if the email, whose content was not fetched, matches the query with some attachments. */
static void take_unread(void *context, uint32_t email)
{
    struct search *search = context;
    uint64_t groups = email < search->matches->len ? g_array_index(search->matches, uint64_t, email) : 0;
    int64_t date_ms;
    if (((groups | search->of_content) & search->wanted) == search->wanted &&
        (groups & search->unwanted) == 0)
        search->is_truncated |= matches_facts(search, email, &date_ms);
}

static void search_locally(struct search *search)
{
    const struct search_query *query = search->query;
    bool needs_index = (search->wanted | search->unwanted) != 0;
    bool is_complete = !needs_index || process_pending(search);
    size_t end;
    for (size_t i = 0; i < query->len; i = end) {
        end = search_query_group_end(query, i);
        if (search_term_is_fact(&query->terms[i]))
            continue;
        search->taking = group_of(query, i);
        is_complete &= search_index_find(&search->store->cache, &query->terms[i], end - i, take_hit, search,
                                         search->cancel) == 0;
    }
    search->is_truncated |= !is_complete;
}

/* ---------------------------------------------------------------- the service */

/* Skips emails whose inbox is unknown or gone. */
static int take_record(void *context, struct email_record *record)
{
    struct search *search = context;
    struct index *index = &search->store->index;
    bool has_inbox = record->inbox_id != NULL && record->inbox_id[0] != '\0';
    READ_GUARD(&index->read_lock);
    const struct inbox *inbox =
        has_inbox ? inbox_table_find_id(&index->inboxes, record->inbox_id) : index->inboxes.of_no_name;
    if (inbox == NULL || inbox->row.is_gone)
        return 0;
    uint32_t email = email_list_find_key(&inbox->emails, record->key);
    if (email_table_find(&index->emails, email) != NULL)
        add_hit(search, email);
    else
        search->unknown_inbox = inbox->row.number;
    return 0;
}

/* Adds the hits of the service to the groups search->taking (0 for none). */
static enum service_outcome list_from_service(struct search *search, const struct email_query *query,
                                              unsigned int *ret_count)
{
    struct mail_service *service = search->store->service;
    struct service_result result;
    *ret_count = 0;
    service->ops->list_emails(service, query, take_record, search, search->cancel, ret_count, &result);
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
    search->taking = 0;
    enum service_outcome outcome = list_from_service(search, &query, &count);
    *ret_can_search = outcome == SERVICE_OK && count == 0;
    /* A count above zero proves that the service answered, even if the answer was cut off. */
    return outcome == SERVICE_OK || outcome == SERVICE_REJECTED || outcome == SERVICE_ABSENT || count > 0;
}

/* Returns true if there are emails, and the service has a list of inboxes and (tested hourly) can search. */
static bool can_search(struct search *search)
{
    struct store *store = search->store;
    struct service_capabilities capabilities;
    store->service->ops->get_capabilities(store->service, &capabilities);
    if (capabilities.inbox_list == CAPABILITY_ABSENT || index_count_shown(&store->index).emails == 0)
        return false;
    int64_t now_ms = clock_monotonic_ms(store->index.clock);
    if (now_ms < atomic_load(&store->searcher.can_until_ms))
        return true;
    bool can_search;
    if (now_ms < atomic_load(&store->searcher.cannot_until_ms) || !test_ability(search, &can_search))
        return false;
    atomic_store(can_search ? &store->searcher.can_until_ms : &store->searcher.cannot_until_ms,
                 now_ms + ABILITY_LASTS_MS);
    return can_search;
}

/* Returns the id of the only inbox that `in:` allows; NULL if the query has no `in:` or allows several. */
static const char *only_inbox(const struct search *search)
{
    struct index *index = &search->store->index;
    struct search_query wanted = {.len = 0};
    const char *id = NULL;
    for (size_t i = 0; i < search->query->len; i++)
        if (search->query->terms[i].kind == SEARCH_IN && is_alone(search->query, i))
            wanted.terms[wanted.len++] = search->query->terms[i];
    READ_GUARD(&index->read_lock);
    for (uint32_t i = 0; wanted.len > 0 && i < index->inboxes.items->len; i++) {
        const struct inbox *inbox = inbox_table_get(&index->inboxes, i);
        if (inbox == NULL || inbox->row.is_gone ||
            !search_query_matches_facts(&wanted, inbox->folded_name, 0))
            continue;
        if (id != NULL)
            return NULL;
        id = inbox->row.id;
    }
    return id;
}

struct word {
    const char *text;
    uint64_t group;
    bool is_alone; /* the group has no other term */
};

static int compare_lengths(const void *one, const void *other)
{
    size_t a = strlen(((const struct word *)one)->text);
    size_t b = strlen(((const struct word *)other)->text);
    return a > b ? -1 : a < b;
}

/* Lists the words and phrases of the query, the longest first. Returns their number. */
static size_t list_words(const struct search_query *query, struct word ret_words[SEARCH_TERMS_MAX])
{
    size_t len = 0;
    for (size_t i = 0; i < query->len; i++)
        if (query->terms[i].kind == SEARCH_WORD)
            ret_words[len++] = (struct word){query->terms[i].text, group_of(query, i), is_alone(query, i)};
    qsort(ret_words, len, sizeof(*ret_words), compare_lengths);
    return len;
}

/* Adds the service's hits for one word to its group. Returns false if the service did not answer. */
static bool request_word(struct search *search, const char *inbox_id, const struct word *word)
{
    struct email_query query = {.inbox_id = inbox_id, .limit = STORE_SEARCH_MAX, .search_term = word->text};
    unsigned int count;
    search->taking = word->group;
    enum service_outcome outcome = list_from_service(search, &query, &count);
    if (outcome == SERVICE_REJECTED) {
        query.limit = LIMIT_AFTER_REFUSAL;
        outcome = list_from_service(search, &query, &count);
    }
    if (count >= query.limit) {
        search->open |= word->group;
        search->is_truncated = true;
    }
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
        else if (words[i].is_alone)
            search->open |= words[i].group;
    }
    /* A group can be passed over only if the service answered for the others. */
    if (!is_answered)
        search->open = 0;
    return is_answered;
}

/* Syncs the inbox of a hit that the index lacks, at most once in SYNC_INTERVAL_MS: the service may find
 * emails that it never lists. Returns true if the sync succeeded. */
static bool sync_unknown_inbox(struct search *search)
{
    struct store *store = search->store;
    _cleanup_free_ char *reason = NULL;
    int64_t now_ms = clock_monotonic_ms(store->index.clock);
    long long due_ms = atomic_load(&store->searcher.sync_due_ms);
    return now_ms >= due_ms &&
           atomic_compare_exchange_strong(&store->searcher.sync_due_ms, &due_ms, now_ms + SYNC_INTERVAL_MS) &&
           sync_wait(store->sync, search->unknown_inbox, CLOCK_FOREVER, search->cancel, &reason) == 0;
}

static void search_service(struct search *search)
{
    struct word words[SEARCH_TERMS_MAX];
    size_t len = list_words(search->query, words);
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

static void find_emails(struct search *search)
{
    search_locally(search);
    combine_groups(search);
    /* If the local hits alone exceed the maximum, the service can only exclude some of them. */
    if (search->found->len <= STORE_SEARCH_MAX || search->unwanted != 0) {
        search_service(search);
        combine_groups(search);
    }
    if (search->of_content != 0 &&
        search_index_find_unread(&search->store->cache, take_unread, search, search->cancel) != 0)
        search->is_truncated = true;
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
    struct cancel bounded = cancel_bounded(clock, timeout_ms, cancel);
    struct search search = {.store = store,
                            .query = &query,
                            .cancel = &bounded,
                            .matches = g_array_new(false, true, sizeof(uint64_t)),
                            .found = g_array_new(false, false, sizeof(struct dated))};
    read_groups(&search);
    find_emails(&search);
    if (cancel_is_set(cancel))
        error = -EINTR;
    else
        list_newest(&search, ret);
    g_array_unref(search.matches);
    g_array_unref(search.found);
    search_query_release(&query);
    return error;
}

void store_search_release(struct store_search *search)
{
    free(search->emails);
    *search = (struct store_search){.len = 0};
}
