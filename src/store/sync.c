/* SPDX-License-Identifier: MIT */
/*
 * This file defines, from the bottom up: listings of mail, each of one or more requests; passes over the
 * inboxes, their mail, and sent mail; the thread that makes passes; the functions that request passes.
 */
#include "store/sync.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/thread.h"
#include "base/wait.h"
#include "mail/reason.h"
#include "store/index.h"
#include "store/index_changes.h"
#include "store/result_errno.h"
#include "store/search_index.h"
#include "store/store_content.h"
#include "store/store_private.h"

enum {
    FIRST_LIMIT = 100,
    LIMIT_MAX = 10 * 1000 * 1000,
    GROWTH_NEWEST = 4,
    REFUSAL_SYNCS = 3, /* every third complete sync repeats refused requests */
    LISTINGS_AT_ONCE = 4,
    NOT_MODIFIED = 304,
    BAD_REQUEST = 400,
    UNPROCESSABLE = 422,
    TOO_MANY_REQUESTS = 429,

    COMPLETE_INTERVAL_MS = 15 * 60 * 1000,
    INBOXES_LISTED_MAX = 20, /* a poll lists each inbox unless there are more than this */
    INBOXES_INTERVAL_MS =
        60 * 1000, /* pause between lists of inboxes if there are more than INBOXES_LISTED_MAX */
    ROUND_REQUESTS_PER_S = 20,
    BACKOFF_MIN_MS = 1000,
    BACKOFF_MAX_MS = 10 * 1000, /* the longest backoff, unless the poll interval is longer */
    SETTLE_MS = 500, /* pause after a change of the network, which the kernel reports in several steps */
    /* pause between polls after network changes while online; routers and containers cause many changes */
    NETWORK_PACE_MS = 10 * 1000,
    JITTER_PARTS = 10, /* the poll interval varies by up to a tenth, either way */
    REQUESTS_PACE_MS = 250,
};

/* A request for a pass. An awaited request is on its thread's stack; the sync frees the others. */
struct sync_request {
    uint32_t inbox; /* or SYNC_ALL */
    enum sync_depth depth;
    bool is_awaited;
    bool is_done;
    int error;
    char *reason; /* reason for `error`; the waiting thread frees it; NULL if the request is not awaited */
};

/* A round of complete lists of many inboxes, a few with each poll (sync.h). */
struct sync_round {
    uint32_t next; /* number of the next inbox to list; 0 at the beginning of a round */
    bool has_failed;
    unsigned int lost;          /* index.lost when the round began */
    bool has_list;              /* the last request for the list of inboxes succeeded */
    int64_t inboxes_due_ms;     /* monotonic time of the next request for the list of inboxes */
    struct listing_state state; /* state of the listings of all mail at once */
};

struct sync {
    struct store *store;  /* borrowed */
    struct clock *clock;  /* borrowed */
    struct cancel cancel; /* set by sync_stop(); cancels requests to the service */
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_started; /* protected by lock, like all below */
    bool is_stopping;
    bool must_check_contact; /* the thread is to call contact_check() */
    /* Times are monotonic unless the comment says realtime: */
    int64_t index_due_ms;    /* next work on the search index; CLOCK_FOREVER if the index is up to date */
    GQueue waiting;          /* struct sync_request, for the next pass */
    GQueue running;          /* struct sync_request that the current pass serves */
    int64_t requests_due_ms; /* earliest pass for requests of the newest mail */
    struct backoff backoff;
    struct sync_round round;       /* used by the sync thread alone, without the lock */
    int64_t next_ms;               /* next poll; CLOCK_FOREVER if there are no polls */
    int64_t asked_until_ms;        /* the service asked that no poll begin before this time */
    int64_t network_due_ms;        /* earliest poll after the next change of the network while online */
    int64_t complete_due_ms;       /* next complete poll */
    int64_t last_complete_real_ms; /* realtime of the last complete pass that lacked nothing, or 0 */
};

struct sync_pass {
    struct store *store;      /* borrowed */
    struct cancel *cancel;    /* borrowed */
    struct sync_round *round; /* borrowed */
    bool only_known;          /* lists of all inboxes skip emails of unknown inboxes */
    bool is_complete;         /* the pass, or its round, listed everything without a failure */

    pthread_mutex_t lock;   /* protects all below while several threads list inboxes */
    int error;              /* result_errno_of_listing() of the first failure, or 0 */
    char *reason;           /* reason for `error`, or why a list is incomplete; or NULL */
    int64_t retry_after_ms; /* pause that the service asked for, or -1 */
    bool has_answer;        /* result_is_answer() was true for a request */
    bool must_wait;         /* further requests would fail: the pass ends, and the backoff delays the next */
};

/* ---------------------------------------------------------------- one answer */

/* A listing of the mail of one inbox, or of all inboxes at once. */
struct mail_listing {
    struct sync_pass *pass;
    struct index *index;
    struct listing_state *state;
    uint32_t inbox;       /* number of the inbox, or SYNC_ALL */
    const char *inbox_id; /* NULL for all inboxes */
    const char *name;     /* shown to the user */
    uint64_t changes;     /* email_list.changes, if only this listing has changed the inbox since it began */
    struct email_batch batch;
    unsigned int unknown; /* records of the last answer that were new or changed */
};

/* Returns true if the user hid this sent mail, which then remains quarantined. */
static bool is_hidden(struct index *index, const char *key)
{
    READ_GUARD(&index->read_lock);
    uint32_t number = email_list_find_key(&index->inboxes.sent.emails, key);
    const struct email_entry *entry = email_table_find(&index->emails, number);
    return entry != NULL && entry->view.is_quarantined;
}

/* Adds the inbox that an email names, or the one of emails that name none. Sets *ret_inbox to NUMBER_NONE if
 * the email is to be skipped. */
static int put_inbox_of_email(struct mail_listing *listing, const struct email_record *record,
                              uint32_t *ret_inbox)
{
    struct index *index = listing->index;
    struct inbox_record named = {0};
    *ret_inbox = NUMBER_NONE;
    if (record->inbox_id != NULL) {
        int error = inbox_record_from_id(record->inbox_id, &named);
        if (error == 0)
            error = index_put_inbox(index, &named, INBOX_FROM_MAIL, 0, ret_inbox);
        inbox_record_release(&named);
        return error;
    }
    /* index_has_key_in_named_inbox() does not see emails of the batch. */
    int error = email_batch_flush(&listing->batch, index);
    if (error != 0 || index_has_key_in_named_inbox(index, record->key))
        return error;
    return index_put_inbox_of_no_name(index, ret_inbox);
}

static int take_email(void *context, struct email_record *record)
{
    struct mail_listing *listing = context;
    struct index *index = listing->index;
    uint32_t inbox = listing->inbox;
    bool is_changed = false;
    int error = 0;
    if (inbox == STORE_SENT)
        record->is_quarantined = is_hidden(index, record->key);
    else if (!listing->state->with_quarantined)
        record->is_quarantined = false; /* whatever its status: the list is of valid emails */
    if (inbox == SYNC_ALL && !listing->pass->only_known)
        error = put_inbox_of_email(listing, record, &inbox);
    else if (inbox == SYNC_ALL &&
             (record->inbox_id == NULL || !index_find_inbox_by_id(index, record->inbox_id, &inbox)))
        inbox = NUMBER_NONE;
    if (error != 0 || inbox == NUMBER_NONE)
        return error;
    error = index_put_email(index, &listing->batch, inbox, record, &is_changed);
    if (error == 0 && is_changed) {
        listing->unknown++;
        listing->changes++;
    }
    return error;
}

static void end_answer(struct mail_listing *listing, struct service_result *ret)
{
    int error = email_batch_flush(&listing->batch, listing->index);
    if (error == 0 || ret->outcome != SERVICE_OK)
        return;
    /* The next answer must not be "not modified", since records of this answer are missing. */
    atomic_fetch_add(&listing->index->lost, 1);
    service_result_release(ret);
    *ret = (struct service_result){.outcome = SERVICE_RETRY,
                                   .http_status = 200,
                                   .error = -error,
                                   .retry_after_ms = -1,
                                   .detail = strdup(strerror(-error))};
}

/* Makes one request. Returns the number of records in the answer, including those that cannot be read. */
static unsigned int request_list(struct mail_listing *listing, unsigned int limit, bool may_be_unchanged,
                                 struct service_result *ret)
{
    unsigned int count = 0;
    bool is_sent = listing->inbox == STORE_SENT;
    const struct email_query query = {
        .inbox_id = is_sent ? NULL : listing->inbox_id,
        .limit = limit,
        .known = index_get_size(listing->index).emails,
        .with_invalid = listing->state->with_quarantined && !is_sent,
        .may_be_unchanged = may_be_unchanged && atomic_load(&listing->index->lost) == 0,
    };
    struct mail_service *service = listing->pass->store->service;
    struct cancel *cancel = listing->pass->cancel;
    listing->batch.listing = index_begin_listing(listing->index);
    listing->unknown = 0;
    if (is_sent)
        service->ops->list_outbound(service, &query, take_email, listing, cancel, &count, ret);
    else
        service->ops->list_emails(service, &query, take_email, listing, cancel, &count, ret);
    end_answer(listing, ret);
    return count;
}

/* ---------------------------------------------------------------- growing limits */

/* "Not modified" means that the answer is equal to the last one to the same request. It may be accepted only
 * if nothing has changed the inbox since. */
static bool may_be_unchanged(const struct mail_listing *listing, enum sync_depth depth)
{
    if (listing->inbox == SYNC_ALL)
        return depth == SYNC_NEWEST;
    return index_count_changes(listing->index, listing->inbox) == listing->state->changes[depth];
}

/* Replaces the answer in `ret` by that to a request with a larger limit. Returns false if the service refuses
 * the limit: the earlier answer remains. */
static bool request_larger_list(struct mail_listing *listing, unsigned int limit, unsigned int *ret_count,
                                struct service_result *ret)
{
    struct service_result larger;
    unsigned int count = request_list(listing, limit, false, &larger);
    if (larger.outcome == SERVICE_REJECTED) {
        service_result_release(&larger);
        return false;
    }
    service_result_release(ret);
    *ret = larger;
    *ret_count = count;
    return true;
}

/* Lists the newest emails. Returns true if the last answer was complete. A service that returns more records
 * than the limit ignores limits, so its answer is complete. */
static bool request_newest(struct mail_listing *listing, struct service_result *ret)
{
    unsigned int limit = FIRST_LIMIT;
    unsigned int count = request_list(listing, limit, may_be_unchanged(listing, SYNC_NEWEST), ret);
    while (ret->outcome == SERVICE_OK && count == limit && listing->unknown > 0 &&
           limit <= LIMIT_MAX / GROWTH_NEWEST) {
        limit *= GROWTH_NEWEST;
        if (!request_larger_list(listing, limit, &count, ret))
            return false;
    }
    return ret->outcome == SERVICE_OK && count != limit;
}

/* Returns the next limit of 100, 200, 500, 1,000 and so on: a service that refuses LIMIT_MAX probably has one
 * of these as its bound. */
static unsigned int next_limit(unsigned int limit)
{
    unsigned int first_digit = limit;
    while (first_digit >= 10)
        first_digit /= 10;
    return first_digit == 2 ? limit / 2 * 5 : limit * 2;
}

/* Returns true if the last answer was complete. */
static bool request_complete_list(struct mail_listing *listing, size_t known, struct service_result *ret)
{
    unsigned int *max_listed = &listing->state->max_listed;
    unsigned int limit = *max_listed != 0 ? *max_listed : known < FIRST_LIMIT ? FIRST_LIMIT : LIMIT_MAX;
    unsigned int count = request_list(listing, limit, may_be_unchanged(listing, SYNC_COMPLETE), ret);
    bool is_bounded = ret->outcome == SERVICE_REJECTED && limit > FIRST_LIMIT;
    if (is_bounded) {
        service_result_release(ret);
        limit = FIRST_LIMIT;
        count = request_list(listing, limit, false, ret);
    } else if (limit == *max_listed) {
        return ret->outcome == SERVICE_OK && count != limit;
    }
    while (ret->outcome == SERVICE_OK && count == limit && limit < LIMIT_MAX) {
        unsigned int larger = is_bounded ? next_limit(limit) : LIMIT_MAX;
        if (request_larger_list(listing, larger, &count, ret)) {
            limit = larger;
        } else if (is_bounded) {
            *max_listed = limit;
            return false;
        } else {
            is_bounded = true;
        }
    }
    return ret->outcome == SERVICE_OK && count != limit;
}

/* Returns true if the last answer was complete. */
static bool request_to_depth(struct mail_listing *listing, enum sync_depth depth, size_t known,
                             struct service_result *ret)
{
    return depth == SYNC_NEWEST ? request_newest(listing, ret) : request_complete_list(listing, known, ret);
}

/* ---------------------------------------------------------------- listings */

/* A refusal may be a temporary fault, so each REFUSAL_SYNCS-th complete sync forgets refusals. */
static void count_complete_sync(struct listing_state *state)
{
    if (++state->complete_syncs % REFUSAL_SYNCS != 0)
        return;
    state->max_listed = 0;
    state->refuses_quarantine = false;
}

/* Makes the next answers full ones, not "not modified". */
static void require_full_answers(struct listing_state *state)
{
    state->changes[SYNC_NEWEST] = state->changes[SYNC_COMPLETE] = UINT64_MAX;
}

/* Earlier answers do not apply to a request with another with_quarantined. */
static void set_with_quarantined(struct listing_state *state, bool with_quarantined)
{
    if (state->with_quarantined != with_quarantined)
        require_full_answers(state);
    state->with_quarantined = with_quarantined;
}

/* Repeats a refused request without with_invalid, which the service may not know. Remembers the refusal only
 * if its HTTP status may be due to the parameter, and the repetition succeeds. */
static bool request_with_or_without_quarantined(struct mail_listing *listing, enum sync_depth depth,
                                                size_t known, struct service_result *ret)
{
    bool is_complete = request_to_depth(listing, depth, known, ret);
    if (!listing->state->with_quarantined || ret->outcome != SERVICE_REJECTED)
        return is_complete;
    bool is_refused = ret->http_status == BAD_REQUEST || ret->http_status == UNPROCESSABLE;
    service_result_release(ret);
    set_with_quarantined(listing->state, false);
    is_complete = request_to_depth(listing, depth, known, ret);
    listing->state->refuses_quarantine = is_refused && ret->outcome == SERVICE_OK;
    return is_complete;
}

/* Fills in the listing from its inbox. Returns false if there is no such inbox. */
static bool find_inbox(struct mail_listing *listing, size_t *ret_known)
{
    if (listing->inbox == SYNC_ALL) {
        listing->name = "all inboxes";
        listing->state = &listing->pass->round->state;
        *ret_known = index_count_shown(listing->index).emails;
        return true;
    }
    READ_GUARD(&listing->index->read_lock);
    struct inbox *inbox = inbox_table_get(&listing->index->inboxes, listing->inbox);
    if (inbox == NULL || inbox->row.is_gone)
        return false;
    listing->inbox_id = inbox->row.id;
    listing->name = inbox->row.name != NULL ? inbox->row.name : "sent mail";
    listing->state = &inbox->listings;
    listing->changes = inbox->emails.changes;
    *ret_known = inbox->emails.live + inbox->emails.quarantined;
    return true;
}

/* Only an Extended service lists quarantined emails and sent mail. */
static bool is_extended(const struct sync_pass *pass)
{
    struct service_capabilities capabilities;
    pass->store->service->ops->get_capabilities(pass->store->service, &capabilities);
    return capabilities.inbox_list == CAPABILITY_PRESENT;
}

/* Removes the emails that the answer confirms to be gone, and records whether the index equals the answer. An
 * incomplete or damaged answer removes nothing. */
static void compare_with_answer(struct mail_listing *listing, uint32_t inbox, enum sync_depth depth,
                                bool is_complete, const struct service_result *result)
{
    struct listing_state *state = listing->state;
    bool is_lacking = false;
    if (is_complete && result->http_status != NOT_MODIFIED && result->error == 0)
        listing->changes += index_remove_unseen(listing->index, inbox, listing->batch.listing,
                                                state->with_quarantined, &is_lacking);
    bool is_equal = index_count_changes(listing->index, inbox) == listing->changes;
    state->changes[depth] = is_equal ? listing->changes : UINT64_MAX;
    if (is_lacking)
        require_full_answers(state);
}

/* Lists the mail of an inbox (waits for the network), with quarantined emails unless the service refuses
 * them; or the mail of all inboxes in one list (SYNC_ALL). After SERVICE_OK the index has all records of the
 * answer that can be read. Sets a reason in `ret` also if the listing succeeded but may lack emails. */
static void list_mail(struct sync_pass *pass, uint32_t inbox, enum sync_depth depth,
                      struct service_result *ret)
{
    struct index *index = &pass->store->index;
    size_t known = 0;
    struct mail_listing listing = {.pass = pass, .index = index, .inbox = inbox};
    *ret = (struct service_result){.outcome = SERVICE_OK, .retry_after_ms = -1};
    if (!find_inbox(&listing, &known))
        return; /* another thread removed the inbox */
    struct listing_state *state = listing.state;
    if (depth == SYNC_COMPLETE)
        count_complete_sync(state);
    set_with_quarantined(state, is_extended(pass) && !state->refuses_quarantine);
    bool is_complete = request_with_or_without_quarantined(&listing, depth, known, ret);
    if (is_complete)
        state->max_listed = 0;
    /* A list of all inboxes is complete for the emails alone that name no inbox. */
    if (inbox == SYNC_ALL)
        inbox = pass->only_known ? NUMBER_NONE : index_find_inbox_of_no_name(index);
    compare_with_answer(&listing, inbox, depth, is_complete, ret);
    if (state->with_quarantined && ret->outcome == SERVICE_OK && inbox != STORE_SENT)
        index_set_quarantine_shown(index);
    if (is_complete || (depth == SYNC_COMPLETE && ret->outcome == SERVICE_OK))
        index_end_backfilling(index, inbox);
    if (ret->outcome == SERVICE_OK && ret->error == 0 && state->max_listed != 0)
        ret->detail =
            g_strdup_printf("the service lists no more than %u emails of %s at once, so some may be missing "
                            "(every third complete sync asks for more)",
                            state->max_listed, listing.name);
    email_batch_release(&listing.batch);
}

/* ---------------------------------------------------------------- the outcome of a pass */

/* Returns true if every other request would fail as well. After another request was answered, a time-out or
 * an error page of a proxy does not count. */
static bool stops_pass_locked(const struct sync_pass *pass, const struct service_result *result)
{
    if (result->outcome == SERVICE_UNAUTHORIZED)
        return true;
    if (result->is_foreign)
        return !pass->has_answer;
    if (result->outcome != SERVICE_RETRY)
        return false;
    if (result->http_status == 0)
        return result->error != ETIMEDOUT || !pass->has_answer;
    return result->http_status == TOO_MANY_REQUESTS;
}

/* Adds the outcome of one request to the outcome of the pass, and releases `result`. */
static void report_result(struct sync_pass *pass, struct service_result *result)
{
    const struct index *index = &pass->store->index;
    int error = result_errno_of_listing(result);
    if (result->outcome == SERVICE_OK && result->http_status == 0)
        return; /* no request was made, since the inbox is gone */
    if (result->error == EDQUOT) {
        free(result->detail);
        result->detail = g_strdup_printf("no more is kept of one account than %zu emails, and %" PRIu64
                                         " MB of their records",
                                         index->max.emails, index->max.bytes / 1000 / 1000);
    }
    pthread_mutex_lock(&pass->lock);
    pass->has_answer |= result_is_answer(result);
    if (pass->error == 0 && (error != 0 || (result->detail != NULL && pass->reason == NULL))) {
        pass->error = error;
        free(pass->reason);
        pass->reason = strdup(result_reason(result));
    }
    pass->must_wait |= error != 0 && stops_pass_locked(pass, result);
    pass->retry_after_ms = MAX(pass->retry_after_ms, result->retry_after_ms);
    pthread_mutex_unlock(&pass->lock);
    contact_report(&pass->store->contact, result);
    service_result_release(result);
}

/* Reports the reason of the pass and, if every request failed, that the service is offline. */
static void report_pass(struct sync_pass *pass)
{
    const char *reason = pass->reason != NULL ? pass->reason : "the service is in trouble";
    if (pass->error == -EINTR)
        return;
    /* Until the round ends, a later part does not clear the reason of an earlier one. */
    if (pass->error != 0 || pass->reason != NULL || !pass->round->has_failed)
        contact_report_sync(&pass->store->contact, pass->error != 0 ? reason : pass->reason);
    if (pass->error == 0 || pass->has_answer)
        return;
    pass->must_wait = true;
    contact_report_offline(&pass->store->contact, reason);
}

/* ---------------------------------------------------------------- the list of inboxes */

struct inboxes_listing {
    struct index *index;
    uint32_t number;
};

static int take_inbox(void *context, struct inbox_record *record)
{
    const struct inboxes_listing *listing = context;
    return index_put_inbox(listing->index, record, INBOX_LISTED, listing->number, NULL);
}

/* Returns false if the service has no list of inboxes, or if the request failed. */
static bool list_inboxes(struct sync_pass *pass)
{
    struct index *index = &pass->store->index;
    struct mail_service *service = pass->store->service;
    struct inboxes_listing listing = {index, index_begin_listing(index)};
    struct service_result result;
    service->ops->list_inboxes(service, take_inbox, &listing, pass->cancel, &result);
    bool is_listed = result.outcome == SERVICE_OK;
    if (is_listed)
        index_end_inbox_list(index, listing.number);
    if (result.outcome == SERVICE_ABSENT)
        service_result_release(&result);
    else
        report_result(pass, &result);
    return is_listed;
}

/* ---------------------------------------------------------------- mail */

/* Returns false if the listing failed. */
static bool list_and_report(struct sync_pass *pass, uint32_t inbox, enum sync_depth depth)
{
    struct service_result result;
    list_mail(pass, inbox, depth, &result);
    bool is_listed = result.outcome == SERVICE_OK;
    report_result(pass, &result);
    return is_listed;
}

/* Inboxes that several threads list. */
struct inbox_queue {
    struct sync_pass *pass;
    enum sync_depth depth;
    uint32_t of_no_name; /* number of the inbox to skip, or NUMBER_NONE */
    uint32_t next;       /* number of the next inbox; protected by pass->lock */
    uint32_t end;        /* the number of the last inbox, plus 1 */
};

/* Returns NUMBER_NONE if no inbox is left, or if the pass ends early. */
static uint32_t pop_inbox(struct inbox_queue *queue)
{
    struct sync_pass *pass = queue->pass;
    LOCK_GUARD(&pass->lock);
    if (queue->next == queue->of_no_name)
        queue->next++;
    return queue->next < queue->end && !pass->must_wait ? queue->next++ : NUMBER_NONE;
}

static void *list_queued_inboxes(void *argument)
{
    struct inbox_queue *queue = argument;
    for (uint32_t inbox = pop_inbox(queue); inbox != NUMBER_NONE; inbox = pop_inbox(queue))
        list_and_report(queue->pass, inbox, queue->depth);
    return NULL;
}

/* Lists several inboxes at once, so that a large inbox does not delay the others. */
static void list_mail_of_inboxes(struct sync_pass *pass, uint32_t from, uint32_t to, enum sync_depth depth)
{
    pthread_t threads[LISTINGS_AT_ONCE - 1];
    size_t started = 0;
    struct inbox_queue queue = {.pass = pass,
                                .depth = depth,
                                .of_no_name = index_find_inbox_of_no_name(&pass->store->index),
                                .next = from,
                                .end = to};
    while (started < ARRAY_LEN(threads) && started + 1 < to - from &&
           thread_start(&threads[started], "sync-inbox", list_queued_inboxes, &queue) == 0)
        started++;
    list_queued_inboxes(&queue);
    while (started > 0)
        pthread_join(threads[--started], NULL);
}

/* Finds inboxes by the emails that name them, if the service has no list of inboxes. If inboxes are known,
 * and every email names one, lists only the newest emails. Returns false if a request failed. */
static bool find_inboxes_by_mail(struct sync_pass *pass, enum sync_depth depth)
{
    struct index *index = &pass->store->index;
    bool needs_all =
        index_count_inbox_numbers(index) == 0 || index_find_inbox_of_no_name(index) != NUMBER_NONE;
    return list_and_report(pass, SYNC_ALL, needs_all ? depth : SYNC_NEWEST);
}

/* Ignores errors, so that a pass succeeds without the list of sent mail. */
static void list_sent(struct sync_pass *pass, enum sync_depth depth)
{
    struct service_result result;
    if (!is_extended(pass))
        return;
    list_mail(pass, STORE_SENT, depth, &result);
    service_result_release(&result);
}

static void make_full_pass(struct sync_pass *pass, enum sync_depth depth)
{
    struct index *index = &pass->store->index;
    const struct store_listener *listener = &index->listener;
    unsigned int lost = atomic_load(&index->lost);
    bool is_listed = list_inboxes(pass);
    bool is_found = is_listed; /* all inboxes are known */
    uint32_t known = index_count_inbox_numbers(index);
    list_mail_of_inboxes(pass, 0, known, depth);
    if (!is_listed && !pass->must_wait) {
        is_found = find_inboxes_by_mail(pass, depth);
        list_mail_of_inboxes(pass, known, index_count_inbox_numbers(index), depth);
    }
    report_pass(pass);
    /* store_knows_all_mail() is now true; an earlier mount may have found raw messages. */
    if (is_found && depth == SYNC_COMPLETE && !pass->must_wait && index_end_first_sync(index) &&
        store_has_raw(pass->store) && listener->abilities_changed != NULL)
        listener->abilities_changed(listener->context);
    /* The complete lists have restored the records that were lost before the pass. */
    if (depth == SYNC_COMPLETE && pass->error == 0)
        (void)atomic_compare_exchange_strong(&index->lost, &lost, 0);
    if (!pass->must_wait)
        list_sent(pass, depth);
    if (depth == SYNC_COMPLETE)
        index_delete_replaced(index);
}

static void list_part_of_round(struct sync_pass *pass, uint32_t inboxes)
{
    struct index *index = &pass->store->index;
    struct sync_round *round = pass->round;
    int64_t poll_ms = pass->store->poll_interval_ms;
    int64_t wanted = inboxes * poll_ms / COMPLETE_INTERVAL_MS + 1;
    int64_t max = ROUND_REQUESTS_PER_S * poll_ms / 1000 + 1;
    uint32_t part = (uint32_t)MIN(wanted, max);
    uint32_t end = inboxes - round->next > part ? round->next + part : inboxes;
    if (round->next == 0) {
        round->lost = atomic_load(&index->lost);
        round->has_failed = false;
    }
    list_mail_of_inboxes(pass, round->next, end, SYNC_COMPLETE);
    if (pass->must_wait)
        return;
    round->has_failed |= pass->error != 0 || pass->reason != NULL;
    round->next = end < inboxes ? end : 0;
    pass->is_complete = round->next == 0 && !round->has_failed;
    if (pass->is_complete)
        (void)atomic_compare_exchange_strong(&index->lost, &round->lost, 0);
}

/* Makes a poll when there are many inboxes (sync.h). */
static void make_poll_of_many(struct sync_pass *pass)
{
    struct index *index = &pass->store->index;
    struct sync_round *round = pass->round;
    uint32_t known = index_count_inbox_numbers(index);
    if (clock_monotonic_ms(index->clock) >= round->inboxes_due_ms) {
        round->has_list = list_inboxes(pass);
        round->inboxes_due_ms = clock_monotonic_ms(index->clock) + INBOXES_INTERVAL_MS;
    }
    pass->only_known = round->has_list;
    if (!pass->must_wait && round->has_list)
        list_and_report(pass, SYNC_ALL, SYNC_NEWEST);
    else if (!pass->must_wait)
        find_inboxes_by_mail(pass, round->next == 0 ? SYNC_COMPLETE : SYNC_NEWEST);
    list_mail_of_inboxes(pass, known, index_count_inbox_numbers(index), SYNC_COMPLETE);
    list_part_of_round(pass, known);
    report_pass(pass);
    if (!pass->must_wait)
        list_sent(pass, round->next == 0 ? SYNC_COMPLETE : SYNC_NEWEST);
    if (!pass->must_wait && round->next == 0) {
        count_complete_sync(&round->state);
        index_delete_replaced(index);
    }
}

/* ---------------------------------------------------------------- when passes are made */

static bool has_request(const GQueue *requests, uint32_t inbox, enum sync_depth least)
{
    for (const GList *item = requests->head; item != NULL; item = item->next) {
        const struct sync_request *request = item->data;
        if (request->inbox == inbox && request->depth >= least)
            return true;
    }
    return false;
}

/* Ends all requests of the current pass for this inbox. */
static void end_requests_locked(struct sync *sync, uint32_t inbox, const struct sync_pass *pass)
{
    for (GList *item = sync->running.head, *next; item != NULL; item = next) {
        struct sync_request *request = item->data;
        next = item->next;
        if (request->inbox != inbox)
            continue;
        g_queue_delete_link(&sync->running, item);
        if (!request->is_awaited) {
            free(request);
            continue;
        }
        request->error = pass->error;
        request->reason = pass->reason == NULL ? NULL : strdup(pass->reason);
        request->is_done = true;
    }
    pthread_cond_broadcast(&sync->changed);
}

static void plan_next_pass_locked(struct sync *sync, const struct sync_pass *pass)
{
    int64_t delay_ms = sync->store->poll_interval_ms;
    int64_t jitter_ms = delay_ms / JITTER_PARTS;
    int64_t now_ms = clock_monotonic_ms(sync->clock);
    if (delay_ms <= 0)
        return;
    delay_ms += arc4random_uniform((uint32_t)(2 * jitter_ms + 1)) - jitter_ms;
    if (pass->must_wait)
        delay_ms = backoff_next_ms(&sync->backoff);
    else
        sync->backoff.attempts = 0;
    sync->next_ms = now_ms + MAX(delay_ms, pass->retry_after_ms);
    sync->asked_until_ms = now_ms + pass->retry_after_ms;
}

/* Returns true if complete lists are spread over polls: with many inboxes, after the first complete pass. */
static bool polls_in_rounds_locked(const struct sync *sync)
{
    return sync->complete_due_ms != 0 && index_count_inbox_numbers(&sync->store->index) > INBOXES_LISTED_MAX;
}

/* Makes a pass over one inbox, or over everything (SYNC_ALL). Releases the lock during the pass. */
static void make_pass_locked(struct sync *sync, uint32_t inbox, enum sync_depth depth)
{
    struct store *store = sync->store;
    struct sync_pass pass = {
        .store = store, .cancel = &sync->cancel, .round = &sync->round, .retry_after_ms = -1};
    pthread_mutex_init(&pass.lock, NULL);
    bool is_spread = depth == SYNC_NEWEST && polls_in_rounds_locked(sync);
    pthread_mutex_unlock(&sync->lock);
    if (inbox != SYNC_ALL) {
        bool has_no_name = index_find_inbox_of_no_name(&store->index) == inbox;
        list_and_report(&pass, has_no_name ? SYNC_ALL : inbox, depth);
    } else if (is_spread) {
        make_poll_of_many(&pass);
    } else {
        sync->round = (struct sync_round){.next = 0};
        make_full_pass(&pass, depth);
        pass.is_complete = depth == SYNC_COMPLETE && pass.error == 0 && pass.reason == NULL;
    }
    if (inbox == SYNC_ALL && !pass.must_wait)
        contents_probe(store->contents);
    pthread_mutex_lock(&sync->lock);
    if (inbox == SYNC_ALL) {
        if (depth == SYNC_COMPLETE && !pass.must_wait)
            sync->complete_due_ms = clock_monotonic_ms(sync->clock) + COMPLETE_INTERVAL_MS;
        if (pass.is_complete)
            sync->last_complete_real_ms = clock_realtime_ms(sync->clock);
        plan_next_pass_locked(sync, &pass);
    }
    end_requests_locked(sync, inbox, &pass);
    free(pass.reason);
    pthread_mutex_destroy(&pass.lock);
}

/* Returns when a pass is to serve the waiting requests, or CLOCK_FOREVER if none waits. Delays requests for
 * the newest mail, since each webhook makes one, and many webhooks should share a pass. */
static int64_t requests_due_ms_locked(const struct sync *sync)
{
    for (const GList *item = sync->waiting.head; item != NULL; item = item->next) {
        const struct sync_request *request = item->data;
        if (request->is_awaited || request->depth == SYNC_COMPLETE)
            return 0;
    }
    return sync->waiting.head != NULL ? sync->requests_due_ms : CLOCK_FOREVER;
}

static void serve_requests_locked(struct sync *sync)
{
    sync->requests_due_ms = clock_monotonic_ms(sync->clock) + REQUESTS_PACE_MS;
    sync->running = sync->waiting;
    g_queue_init(&sync->waiting);
    sync->round.inboxes_due_ms = 0;
    bool is_for_all = has_request(&sync->running, SYNC_ALL, SYNC_NEWEST);
    while (sync->running.head != NULL && !sync->is_stopping) {
        const struct sync_request *first = sync->running.head->data;
        uint32_t inbox = is_for_all ? SYNC_ALL : first->inbox;
        bool is_complete = has_request(&sync->running, inbox, SYNC_COMPLETE);
        make_pass_locked(sync, inbox, is_complete ? SYNC_COMPLETE : SYNC_NEWEST);
        is_for_all = false;
    }
}

/* Indexes some emails, then pauses for as long as that took, so that other threads get turns to write. */
static void process_pending_locked(struct sync *sync)
{
    pthread_mutex_unlock(&sync->lock);
    int64_t started_ms = clock_monotonic_ms(sync->clock);
    bool has_more = search_index_process_pending(&sync->store->cache) > 0;
    int64_t now_ms = clock_monotonic_ms(sync->clock);
    pthread_mutex_lock(&sync->lock);
    sync->index_due_ms = has_more ? now_ms + (now_ms - started_ms) : CLOCK_FOREVER;
}

static void make_due_pass_locked(struct sync *sync, int64_t requests_due_ms, int64_t now_ms)
{
    pthread_mutex_unlock(&sync->lock);
    bool is_cache_new = index_renew_cache(&sync->store->index);
    pthread_mutex_lock(&sync->lock);
    if (is_cache_new)
        sync->complete_due_ms = 0;
    if (requests_due_ms <= now_ms)
        serve_requests_locked(sync);
    else if (clock_monotonic_ms(sync->clock) >= sync->complete_due_ms && !polls_in_rounds_locked(sync))
        make_pass_locked(sync, SYNC_ALL, SYNC_COMPLETE);
    else
        make_pass_locked(sync, SYNC_ALL, SYNC_NEWEST);
    sync->index_due_ms = 0;
}

static void *run_thread(void *argument)
{
    struct sync *sync = argument;
    pthread_mutex_lock(&sync->lock);
    while (!sync->is_stopping) {
        int64_t now_ms = clock_monotonic_ms(sync->clock);
        int64_t requests_due_ms = requests_due_ms_locked(sync);
        int64_t pass_due_ms = MIN(requests_due_ms, sync->next_ms);
        if (pass_due_ms <= now_ms) {
            make_due_pass_locked(sync, requests_due_ms, now_ms);
        } else if (sync->must_check_contact) {
            sync->must_check_contact = false;
            pthread_mutex_unlock(&sync->lock);
            contact_check(&sync->store->contact, sync->store->service, &sync->cancel);
            pthread_mutex_lock(&sync->lock);
        } else if (sync->index_due_ms <= now_ms) {
            process_pending_locked(sync);
        } else {
            clock_wait(sync->clock, &sync->changed, &sync->lock, MIN(pass_due_ms, sync->index_due_ms));
        }
    }
    pthread_mutex_unlock(&sync->lock);
    return NULL;
}

/* ---------------------------------------------------------------- life */

struct sync *sync_new(struct store *store)
{
    struct sync *sync = g_new(struct sync, 1);
    *sync = (struct sync){
        .store = store,
        .clock = store->index.clock,
        .backoff = {.min_ms = BACKOFF_MIN_MS, .max_ms = MAX(store->poll_interval_ms, BACKOFF_MAX_MS)},
        .next_ms = store->poll_interval_ms > 0 ? 0 : CLOCK_FOREVER,
    };
    cancel_init(&sync->cancel);
    pthread_mutex_init(&sync->lock, NULL);
    clock_condition_init(&sync->changed);
    return sync;
}

void sync_free(struct sync *sync)
{
    if (sync == NULL)
        return;
    g_queue_clear_full(&sync->waiting, free); /* none is awaited any more */
    g_queue_clear_full(&sync->running, free);
    pthread_cond_destroy(&sync->changed);
    pthread_mutex_destroy(&sync->lock);
    cancel_release(&sync->cancel);
    free(sync);
}

int store_start(struct store *store)
{
    struct sync *sync = store->sync;
    LOCK_GUARD(&sync->lock);
    int error = thread_start(&sync->thread, "sync", run_thread, sync);
    sync->is_started = error == 0;
    return error;
}

void sync_stop(struct sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    bool was_started = sync->is_started;
    sync->is_started = false;
    sync->is_stopping = true;
    pthread_cond_broadcast(&sync->changed);
    pthread_mutex_unlock(&sync->lock);
    cancel_set(&sync->cancel);
    if (was_started)
        pthread_join(sync->thread, NULL);
}

/* ---------------------------------------------------------------- requests for passes */

int sync_wait(struct sync *sync, uint32_t inbox, int64_t until_ms, struct cancel *cancel, char **ret_reason)
{
    struct sync_request request = {.inbox = inbox, .depth = SYNC_COMPLETE, .is_awaited = true};
    int error = 0;
    pthread_mutex_lock(&sync->lock);
    g_queue_push_tail(&sync->waiting, &request);
    pthread_cond_broadcast(&sync->changed);
    while (!request.is_done && !sync->is_stopping && error == 0)
        error = wait_until(sync->clock, &sync->changed, &sync->lock, until_ms, cancel);
    if (!request.is_done) {
        g_queue_remove(&sync->waiting, &request);
        g_queue_remove(&sync->running, &request);
        request.error = error == -ETIMEDOUT ? -EHOSTUNREACH : -EINTR;
    }
    pthread_mutex_unlock(&sync->lock);
    if (request.error == 0) {
        free(request.reason);
        return 0;
    }
    const char *reason =
        request.error == -EINTR ? "interrupted" : "the service did not list the mail in time";
    *ret_reason = request.reason != NULL ? request.reason : strdup(reason);
    return request.error;
}

void sync_request(struct sync *sync, uint32_t inbox, enum sync_depth depth)
{
    LOCK_GUARD(&sync->lock);
    /* The thread of an awaited request may give up, and withdraw the request. */
    for (const GList *item = sync->waiting.head; item != NULL; item = item->next) {
        const struct sync_request *waiting = item->data;
        if (!waiting->is_awaited && waiting->depth >= depth &&
            (waiting->inbox == inbox || waiting->inbox == SYNC_ALL))
            return;
    }
    struct sync_request *request = g_new(struct sync_request, 1);
    *request = (struct sync_request){.inbox = inbox, .depth = depth};
    g_queue_push_tail(&sync->waiting, request);
    pthread_cond_broadcast(&sync->changed);
}

void sync_get_status(struct sync *sync, struct store_status *ret)
{
    LOCK_GUARD(&sync->lock);
    ret->has_synced = sync->last_complete_real_ms != 0;
    ret->last_full_ms = sync->last_complete_real_ms;
    int64_t wait_ms = sync->next_ms - clock_monotonic_ms(sync->clock); /* negative during a poll */
    ret->next_poll_ms =
        sync->next_ms == CLOCK_FOREVER ? 0 : clock_realtime_ms(sync->clock) + (wait_ms > 0 ? wait_ms : 0);
}

/* ---------------------------------------------------------------- store.h */

int store_sync(struct store *store, const char *inbox_name, struct cancel *cancel, char **ret_reason)
{
    uint32_t inbox = SYNC_ALL;
    struct inbox_view view;
    if (inbox_name != NULL) {
        if (!store_find_inbox(store, inbox_name, &view))
            return reason_give(ret_reason, -ENOENT, "there is no inbox of this name");
        inbox = view.number;
    }
    return sync_wait(store->sync, inbox, CLOCK_FOREVER, cancel, ret_reason);
}

void store_request_sync(struct store *store, const char *inbox_id)
{
    uint32_t inbox = SYNC_ALL;
    if (inbox_id != NULL)
        (void)index_find_inbox_by_id(&store->index, inbox_id, &inbox);
    sync_request(store->sync, inbox, SYNC_NEWEST);
}

void store_network_changed(struct store *store)
{
    struct sync *sync = store->sync;
    LOCK_GUARD(&sync->lock);
    int64_t at_ms = clock_monotonic_ms(sync->clock) + SETTLE_MS;
    bool is_online = contact_is_online(&store->contact);
    if (at_ms < sync->asked_until_ms)
        at_ms = sync->asked_until_ms;
    if (is_online && at_ms < sync->network_due_ms)
        at_ms = sync->network_due_ms;
    sync->backoff.attempts = 0;
    if (sync->next_ms == CLOCK_FOREVER) {
        sync->must_check_contact |= !is_online;
    } else if (at_ms < sync->next_ms) {
        sync->next_ms = at_ms;
        sync->network_due_ms = at_ms + NETWORK_PACE_MS;
    }
    pthread_cond_broadcast(&sync->changed);
}

void store_report_contact(struct store *store, bool is_reached)
{
    struct sync *sync = store->sync;
    if (contact_is_online(&store->contact) == is_reached)
        return;
    LOCK_GUARD(&sync->lock);
    sync->must_check_contact = true;
    pthread_cond_broadcast(&sync->changed);
}
