/* SPDX-License-Identifier: MIT */
/*
 * From the bottom up: one listing of mail (as many questions as it takes), one run (the inboxes, their mail,
 * what was sent), the thread that starts runs, and those who ask for one.
 */
#include "store/sync.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/random.h"
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
    GROWTH_COMPLETE = 100 * 1000, /* the second answer is whole, and only what was in the first comes twice */
    GROWTH_CAREFUL = 4,           /* where so much was refused */
    REFUSAL_SYNCS = 3,            /* complete ones, after which what the service refused is asked for again */
    LISTINGS_AT_ONCE = 4,
    NOT_MODIFIED = 304,
    BAD_REQUEST = 400,
    UNPROCESSABLE = 422,
    TOO_MANY_REQUESTS = 429,

    COMPLETE_INTERVAL_MS = 15 * 60 * 1000,
    INBOXES_LISTED_MAX = 20,         /* one by one, in a poll */
    INBOXES_INTERVAL_MS = 60 * 1000, /* the list of more than these is long */
    ROUND_REQUESTS_PER_S = 20,
    BACKOFF_MIN_MS = 1000,
    BACKOFF_MAX_MS = 10 * 1000,  /* or the poll interval; a connection that nobody answers takes 5 s more */
    SETTLE_MS = 500,             /* the network is changed in several steps */
    NETWORK_PACE_MS = 10 * 1000, /* while the service answers: routers announce themselves, containers come */
    JITTER_PARTS = 10,           /* of an interval, either way */
    REQUESTS_PACE_MS = 250,
};

/* A request for a run. Those with somebody waiting live on that thread's stack, the others are freed when
 * done.
 */
struct sync_request {
    struct sync_request *next;
    uint32_t inbox; /* or SYNC_ALL */
    enum sync_depth depth;
    bool is_awaited;
    bool is_done;
    int error;
    char *words;
};

/* Complete lists of many inboxes, some with each poll. */
struct sync_round {
    uint32_t next; /* the first inbox that is still to be listed */
    bool has_failed;
    unsigned int lost;          /* records that were lost when it began */
    bool has_list;              /* the service has a list of inboxes */
    int64_t inboxes_due_ms;     /* when to ask for it again, monotonic */
    struct listing_state state; /* of the list of all mail */
};

struct sync {
    struct store *store;  /* borrowed */
    struct clock *clock;  /* borrowed */
    struct cancel cancel; /* of the request to the service under way */
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_started; /* protected by lock, like all below */
    bool is_stopping;
    bool must_check_contact; /* whether the service answers */
    int64_t index_due_ms;    /* when to bring the search index up to date, monotonic; CLOCK_FOREVER: it is */
    struct sync_request *waiting; /* for the next run */
    struct sync_request *running; /* taken up by the run under way */
    int64_t requests_due_ms;      /* of the next run for a request that is not urgent, monotonic */
    struct backoff backoff;
    struct sync_round round;       /* the thread's alone */
    int64_t next_ms;               /* of the next poll, monotonic; CLOCK_FOREVER: none */
    int64_t asked_until_ms;        /* the service asked not to be polled before, monotonic */
    int64_t network_due_ms;        /* of the next poll for a change of the network while online, monotonic */
    int64_t complete_due_ms;       /* of the next complete poll, monotonic */
    int64_t last_complete_real_ms; /* of the last complete run that lacked nothing, realtime; 0: never */
};

/* ---------------------------------------------------------------- one answer */

/* One listing of the mail of one inbox, or of all at once. */
struct mail_listing {
    struct index *index;
    struct listing_state *state;
    struct mail_service *service;
    struct cancel *cancel;
    const char *inbox_id; /* NULL: all inboxes */
    const char *name;     /* in words */
    uint32_t inbox;       /* its number */
    bool with_held;       /* what rules of the inbox hold back, too */
    bool only_known;      /* of all inboxes: mail of others is passed over, for these are listed */
    struct email_batch batch;
    int error;            /* why records that arrived are not in the index; 0: they are */
    int unread;           /* the positive errno, where some of the last answer cannot be read; 0: all can */
    char *words;          /* that go with it; owned */
    unsigned int unknown; /* records in it that were not known, or not as they are now */
    unsigned int limit;   /* of the last question that was answered */
    unsigned int count;   /* of the records in that answer */
    uint64_t before;      /* the changes of the inbox when this began */
    uint64_t changes;     /* that this has made */
    bool is_unchanged;    /* the last answer: as the one before to the same question */
};

static int flush(struct mail_listing *listing)
{
    int error = email_batch_flush(&listing->batch, listing->index);
    if (listing->error == 0)
        listing->error = error;
    return listing->error;
}

static int put(struct mail_listing *listing, uint32_t inbox, const struct email_record *record)
{
    enum index_put outcome;
    int error = index_put_email(listing->index, &listing->batch, inbox, record, &outcome);
    if (error == 0 && outcome != INDEX_UNCHANGED) {
        listing->unknown++;
        listing->changes++;
    }
    return error != 0 ? error : listing->error;
}

static int take_email_of_inbox(void *context, struct email_record *record)
{
    struct mail_listing *listing = context;
    if (record == NULL)
        return flush(listing);
    /* An email that a service lists unasked is not held back, whatever its status. */
    record->is_held = record->is_held && listing->with_held;
    return put(listing, listing->inbox, record);
}

/* Mail that the user hid is held back, known or still to come. */
static bool is_hidden(struct index *index, const char *key)
{
    READ_GUARD(&index->read_lock);
    const struct hashed_text hashed = email_table_hash(&index->emails, key);
    uint32_t number = email_list_find_key(&index->emails, &index->inboxes.sent.emails, hashed);
    const struct email_entry *entry = email_table_find(&index->emails, number);
    return entry != NULL && entry->is_held;
}

static int take_sent(void *context, struct email_record *record)
{
    struct mail_listing *listing = context;
    if (record == NULL)
        return flush(listing);
    record->is_held = is_hidden(listing->index, record->key);
    return put(listing, INDEX_SENT, record);
}

static int find_inbox_of(struct mail_listing *listing, const char *id, uint32_t *ret_inbox)
{
    struct inbox_record record = {0};
    int error = inbox_record_from_id(id, &record);
    if (error == 0)
        error = index_put_inbox(listing->index, &record, INBOX_FROM_MAIL, 0, ret_inbox);
    inbox_record_release(&record);
    return error;
}

static int take_email_of_known(struct mail_listing *listing, struct email_record *record)
{
    uint32_t inbox;
    if (record->inbox_id == NULL || !index_find_inbox_by_id(listing->index, record->inbox_id, &inbox))
        return listing->error;
    record->is_held = record->is_held && listing->with_held;
    return put(listing, inbox, record);
}

static int take_email_of_any(void *context, struct email_record *record)
{
    struct mail_listing *listing = context;
    uint32_t inbox;
    if (listing->only_known && record != NULL)
        return take_email_of_known(listing, record);
    int error = record == NULL || record->inbox_id == NULL ? flush(listing) : 0;
    if (record == NULL || error != 0)
        return error;
    if (record->inbox_id == NULL && index_has_assigned(listing->index, record->key))
        return 0;
    record->is_held = false;
    error = record->inbox_id == NULL ? index_put_inbox_of_no_name(listing->index, &inbox)
                                     : find_inbox_of(listing, record->inbox_id, &inbox);
    return error != 0 ? error : put(listing, inbox, record);
}

static void end_answer(struct mail_listing *listing, struct service_result *ret)
{
    if (flush(listing) != 0 && ret->outcome == SERVICE_OK) {
        /* To the service it went well: asked the same again, it could say that nothing has changed. */
        atomic_fetch_add(&listing->index->lost, 1);
        service_result_release(ret);
        *ret = (struct service_result){.outcome = SERVICE_RETRY,
                                       .http_status = 200,
                                       .error = -listing->error,
                                       .retry_after_ms = -1,
                                       .detail = strdup(strerror(-listing->error))};
    }
    listing->error = 0;
}

/* Asks once. Returns the number of records in the answer. end_listing() reports records that cannot be read;
 * the answer counts like any other. */
static unsigned int ask(struct mail_listing *listing, unsigned int limit, bool may_be_unchanged,
                        struct service_result *ret)
{
    unsigned int count = 0;
    bool is_sent = listing->inbox == INDEX_SENT;
    const struct email_query query = {
        .inbox_id = is_sent ? NULL : listing->inbox_id,
        .limit = limit,
        .known = index_get_size(listing->index).emails,
        .with_invalid = listing->with_held && !is_sent,
        .may_be_unchanged = may_be_unchanged && atomic_load(&listing->index->lost) == 0,
    };
    const struct mail_service_ops *ops = listing->service->ops;
    listing->batch.listing = index_begin_listing(listing->index);
    listing->unknown = 0;
    if (is_sent)
        ops->list_outbound(listing->service, &query, take_sent, listing, listing->cancel, &count, ret);
    else
        ops->list_emails(listing->service, &query,
                         listing->inbox_id != NULL ? take_email_of_inbox : take_email_of_any, listing,
                         listing->cancel, &count, ret);
    end_answer(listing, ret);
    listing->is_unchanged = ret->outcome == SERVICE_OK && ret->http_status == NOT_MODIFIED;
    if (ret->outcome == SERVICE_OK) {
        listing->limit = limit;
        listing->count = count;
        listing->unread = ret->error;
        free(listing->words);
        listing->words = TAKE_PTR(ret->detail);
    }
    return count;
}

/* ---------------------------------------------------------------- as many answers as it takes */

/* Returns true if the service refuses the higher limit: the answer before is then the last. */
static bool refuses_number(const struct mail_listing *listing, const struct service_result *result)
{
    return result->outcome == SERVICE_REJECTED && listing->limit > 0;
}

static void set_ok(struct service_result *result)
{
    service_result_release(result);
    *result = (struct service_result){.outcome = SERVICE_OK, .http_status = 200, .retry_after_ms = -1};
}

/* "Unchanged" means the answer before to the same question. So it may be said only where the inbox still
 * shows that answer: nothing has changed in it since, whoever did it. */
static bool has_changed_since(const struct mail_listing *listing, uint64_t changes)
{
    return listing->inbox_id != NULL && index_count_changes(listing->index, listing->inbox) != changes;
}

/* True: the last answer held all there is. (More records than asked for: the service knows no limit.) */
static bool ask_newest(struct mail_listing *listing, struct service_result *ret)
{
    for (unsigned int limit = FIRST_LIMIT;; limit *= GROWTH_NEWEST) {
        bool may_be_unchanged =
            limit == FIRST_LIMIT && !has_changed_since(listing, listing->state->changes_at_newest);
        unsigned int count = ask(listing, limit, may_be_unchanged, ret);
        if (refuses_number(listing, ret))
            set_ok(ret);
        else if (ret->outcome == SERVICE_OK && count != limit)
            return true;
        if (ret->outcome != SERVICE_OK || listing->unknown == 0 || limit > LIMIT_MAX / GROWTH_NEWEST)
            return false;
        service_result_release(ret);
    }
}

/* A number between one that the service lists (listing->limit) and one that it refuses. */
static unsigned int limit_below(const struct mail_listing *listing, unsigned int refused)
{
    unsigned int middle = listing->limit + (refused - listing->limit) / 2;
    return listing->limit < middle / GROWTH_CAREFUL ? listing->limit * GROWTH_CAREFUL : middle;
}

/* Finds the largest number that the service lists, to about a quarter. True: the last answer held all there
 * is. */
static bool ask_up_to_refusal(struct mail_listing *listing, unsigned int refused, struct service_result *ret)
{
    while (refused - listing->limit > listing->limit / 4) {
        unsigned int limit = limit_below(listing, refused);
        service_result_release(ret);
        unsigned int count = ask(listing, limit, false, ret);
        if (refuses_number(listing, ret))
            refused = limit;
        else if (ret->outcome != SERVICE_OK || count != limit)
            return ret->outcome == SERVICE_OK;
    }
    if (refuses_number(listing, ret))
        set_ok(ret);
    listing->state->max_listed = listing->limit;
    return false;
}

static unsigned int next_limit(unsigned int limit)
{
    return limit <= LIMIT_MAX / GROWTH_COMPLETE ? limit * GROWTH_COMPLETE : (unsigned int)LIMIT_MAX;
}

/* Limits are steps of a fixed ladder, so that the same question is asked again the next time and can be
 * answered with "unchanged". */
static unsigned int first_limit(const struct mail_listing *listing, size_t known)
{
    unsigned int limit = FIRST_LIMIT;
    while (limit <= known && limit < LIMIT_MAX)
        limit = next_limit(limit);
    return listing->state->max_listed != 0 && listing->state->max_listed < limit ? listing->state->max_listed
                                                                                 : limit;
}

/* True: the last answer held all there is. */
static bool ask_complete(struct mail_listing *listing, size_t known, struct service_result *ret)
{
    for (unsigned int limit = first_limit(listing, known);;) {
        bool may_be_unchanged = limit == listing->state->complete_limit &&
                                !has_changed_since(listing, listing->state->changes_at_complete);
        unsigned int count = ask(listing, limit, may_be_unchanged, ret);
        if (refuses_number(listing, ret))
            return ask_up_to_refusal(listing, limit, ret);
        bool begins_too_high = ret->outcome == SERVICE_REJECTED && limit > FIRST_LIMIT;
        if (!begins_too_high && (ret->outcome != SERVICE_OK || count != limit))
            return ret->outcome == SERVICE_OK;
        if (!begins_too_high && (limit == listing->state->max_listed || limit == LIMIT_MAX))
            return false;
        limit = begins_too_high ? (unsigned int)FIRST_LIMIT : next_limit(limit);
        service_result_release(ret);
    }
}

/* True: the last answer held all there is. */
static bool ask_to_depth(struct mail_listing *listing, enum sync_depth depth, size_t known,
                         struct service_result *ret)
{
    return depth == SYNC_NEWEST ? ask_newest(listing, ret) : ask_complete(listing, known, ret);
}

/* ---------------------------------------------------------------- listings */

/* A refusal may be a passing fault, so it does not count for ever. */
static void forget_refusals(struct listing_state *state)
{
    if (++state->complete_syncs % REFUSAL_SYNCS != 0)
        return;
    state->max_listed = 0;
    state->refuses_held = false;
}

static char *describe_max_listed(const struct mail_listing *listing)
{
    char *words;
    if (asprintf(&words,
                 "the service lists no more than %u emails of %s at once, so some may be missing "
                 "(every third complete sync asks for more)",
                 listing->state->max_listed, listing->name) < 0)
        return NULL;
    return words;
}

/* `ret` has words also for a list that did not fail and is not all there is. */
static void end_listing(struct mail_listing *listing, bool is_complete, struct service_result *ret)
{
    email_batch_release(&listing->batch);
    if (is_complete)
        listing->state->max_listed = 0;
    if (ret->outcome == SERVICE_OK) {
        ret->error = listing->unread;
        ret->detail = TAKE_PTR(listing->words);
        if (ret->error == 0 && listing->state->max_listed != 0)
            ret->detail = describe_max_listed(listing);
    }
    free(listing->words);
}

/* A change by another thread meanwhile may be older than the answers, or newer. */
static void note_shown(const struct mail_listing *listing, enum sync_depth depth, bool is_complete)
{
    struct listing_state *state = listing->state;
    uint64_t changes = listing->before + listing->changes;
    if (has_changed_since(listing, changes))
        changes = UINT64_MAX;
    if (is_complete) {
        state->complete_limit = listing->limit;
        state->changes_at_complete = changes;
    }
    if (depth == SYNC_NEWEST && listing->limit > 0)
        state->changes_at_newest = changes;
}

/* The next answers may not be that nothing has changed. */
static void forget_answers(struct listing_state *state)
{
    state->changes_at_newest = state->changes_at_complete = UINT64_MAX;
}

/* The answers before were to another question. */
static void set_with_held(struct mail_listing *listing, bool with_held)
{
    struct listing_state *state = listing->state;
    if (state->with_held != with_held)
        forget_answers(state);
    state->with_held = listing->with_held = with_held;
}

/* A service may not know the question for what it holds back, and answer with an error. Whatever it says
 * then, it is asked without; that is remembered where it can be about the question. */
static bool ask_for_inbox(struct mail_listing *listing, enum sync_depth depth, size_t known,
                          struct service_result *ret)
{
    bool is_complete = ask_to_depth(listing, depth, known, ret);
    if (!listing->with_held || ret->outcome != SERVICE_REJECTED || listing->limit > 0)
        return is_complete;
    bool is_refused = ret->http_status == BAD_REQUEST || ret->http_status == UNPROCESSABLE;
    service_result_release(ret);
    set_with_held(listing, false);
    is_complete = ask_to_depth(listing, depth, known, ret);
    listing->state->refuses_held = is_refused && ret->outcome == SERVICE_OK;
    return is_complete;
}

/* Fills in what the listing has to know of its inbox. False: there is none. */
static bool find_inbox(struct mail_listing *listing, size_t *ret_known)
{
    READ_GUARD(&listing->index->read_lock);
    struct inbox *inbox = inbox_table_get(&listing->index->inboxes, listing->inbox);
    if (inbox == NULL || inbox->row.is_gone)
        return false;
    listing->inbox_id = inbox->row.id;
    listing->name = inbox->row.name != NULL ? inbox->row.name : "sent mail";
    listing->state = &inbox->listings;
    listing->before = inbox->emails.changes;
    *ret_known = inbox->emails.live + inbox->emails.held;
    return true;
}

/* Nothing is removed on the word of an answer that was cut off, damaged or possibly not all: the service's
 * outcome and the number of its records decide that, not what came of them. */
static void remove_unseen(struct mail_listing *listing)
{
    bool is_lacking = false;
    listing->changes += index_remove_unseen(listing->index, listing->inbox, listing->batch.listing,
                                            listing->with_held, &is_lacking);
    if (is_lacking)
        forget_answers(listing->state);
}

/* Lists one inbox (waits for the network). `with_held`: what the service holds back as well; where it refuses
 * to tell, without. SERVICE_OK: all that was asked for, and can be read, is in the index. */
static void list_inbox(struct index *index, struct mail_service *service, uint32_t inbox, bool with_held,
                       enum sync_depth depth, struct cancel *cancel, struct service_result *ret)
{
    size_t known = 0;
    struct mail_listing listing = {.index = index, .service = service, .cancel = cancel, .inbox = inbox};
    *ret = (struct service_result){.outcome = SERVICE_OK, .retry_after_ms = -1};
    if (!find_inbox(&listing, &known))
        return; /* it went meanwhile, and nothing is wrong with that */
    if (depth == SYNC_COMPLETE)
        forget_refusals(listing.state);
    set_with_held(&listing, with_held && !listing.state->refuses_held);
    bool is_complete = ask_for_inbox(&listing, depth, known, ret);
    end_listing(&listing, is_complete, ret);
    note_shown(&listing, depth, is_complete);
    if (is_complete && !listing.is_unchanged && ret->error == 0)
        remove_unseen(&listing);
    if (listing.with_held && ret->outcome == SERVICE_OK && inbox != INDEX_SENT)
        index_note_held_shown(index);
    if (is_complete || (depth == SYNC_COMPLETE && ret->outcome == SERVICE_OK))
        index_end_backfilling(index, inbox);
}

/* Lists without asking for an inbox: finds inboxes by the mail that names them, and mail that names none. */
static void list_all(struct index *index, struct mail_service *service, enum sync_depth depth,
                     struct cancel *cancel, struct service_result *ret)
{
    /* Only mail without an inbox is removed here: where it comes back, the next complete list shows it. */
    struct listing_state state = {.max_listed = 0};
    struct mail_listing listing = {
        .index = index, .service = service, .cancel = cancel, .state = &state, .name = "all inboxes"};
    size_t inboxes;
    size_t emails;
    index_count(index, &inboxes, &emails);
    bool is_complete = ask_to_depth(&listing, depth, emails, ret);
    end_listing(&listing, is_complete, ret);
    uint32_t of_no_name = index_find_inbox_of_no_name(index);
    if (!is_complete || listing.is_unchanged || of_no_name == NUMBER_NONE)
        return;
    bool is_lacking;
    if (ret->error == 0)
        index_remove_unseen(index, of_no_name, listing.batch.listing, true, &is_lacking);
    index_end_backfilling(index, of_no_name);
}

/* ---------------------------------------------------------------- a run, and what comes of it */

struct sync_run {
    struct store *store;      /* borrowed */
    struct cancel *cancel;    /* borrowed */
    struct sync_round *round; /* borrowed */
    bool is_complete;         /* together with the runs before, of a round */

    pthread_mutex_t lock;   /* of what follows, while several threads list inboxes */
    int error;              /* of the first failure: result_errno_of_listing(); 0: all went well */
    char *words;            /* that go with it, or say what lists lack though nothing failed; or NULL */
    int64_t retry_after_ms; /* what the service asked for; -1: nothing */
    bool has_answer;        /* some request was answered as it should be, or refused for good */
    bool must_wait;         /* the run ended early, or nothing was answered: not to be asked again at once */
};

static void init_run(struct sync_run *run, struct sync *sync)
{
    *run = (struct sync_run){
        .store = sync->store, .cancel = &sync->cancel, .round = &sync->round, .retry_after_ms = -1};
    pthread_mutex_init(&run->lock, NULL);
}

static void release_run(struct sync_run *run)
{
    free(run->words);
    pthread_mutex_destroy(&run->lock);
}

/* Returns true if asking for something else would fail likewise. One request that takes too long, or that a
 * proxy gives up, is no sign of that where others were answered. */
static bool concerns_all_locked(const struct sync_run *run, const struct service_result *result)
{
    if (result->outcome == SERVICE_UNAUTHORIZED)
        return true;
    if (result->is_foreign)
        return !run->has_answer;
    if (result->outcome != SERVICE_RETRY)
        return false;
    if (result->http_status == 0)
        return result->error != ETIMEDOUT || !run->has_answer;
    return result->http_status == TOO_MANY_REQUESTS;
}

static void report_locked(struct sync_run *run, const struct service_result *result)
{
    int error = result_errno_of_listing(result);
    if (result_is_answer(result))
        run->has_answer = true;
    if (run->error == 0 && (error != 0 || (result->detail != NULL && run->words == NULL))) {
        run->error = error;
        free(run->words);
        run->words = strdup(result_words(result));
    }
    if (error != 0 && concerns_all_locked(run, result))
        run->must_wait = true;
    if (result->retry_after_ms > run->retry_after_ms)
        run->retry_after_ms = result->retry_after_ms;
}

static void explain_bound(const struct index *index, struct service_result *result)
{
    char *words;
    if (result->error != EDQUOT ||
        asprintf(&words,
                 "no more is kept of one account than %zu emails, and %" PRIu64 " MB of their records",
                 index->max.emails, index->max.bytes / 1000 / 1000) < 0)
        return;
    free(result->detail);
    result->detail = words;
}

/* Takes the outcome of one request into that of the run, and releases it. */
static void report(struct sync_run *run, struct service_result *result)
{
    if (result->outcome == SERVICE_OK && result->http_status == 0)
        return; /* nothing was asked: the inbox went meanwhile */
    explain_bound(&run->store->index, result);
    pthread_mutex_lock(&run->lock);
    report_locked(run, result);
    pthread_mutex_unlock(&run->lock);
    contact_report(&run->store->contact, result);
    service_result_release(result);
}

/* A service that has answered nothing but that it is in trouble is as good as away. */
static void report_end(struct sync_run *run)
{
    const char *words = run->words != NULL ? run->words : "the service is in trouble";
    if (run->error == -EINTR)
        return;
    /* The failure of an earlier part of a round is reported until the round ends. */
    if (run->error != 0 || run->words != NULL || !run->round->has_failed)
        contact_report_sync(&run->store->contact, run->error != 0 ? words : run->words);
    if (run->error == 0 || run->has_answer)
        return;
    run->must_wait = true;
    contact_report_offline(&run->store->contact, words);
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

/* False: the service has no such list, or did not give it now. Having none is not a failure. */
static bool list_inboxes(struct sync_run *run)
{
    struct index *index = &run->store->index;
    struct mail_service *service = run->store->service;
    struct inboxes_listing listing = {index, index_begin_listing(index)};
    struct service_result result;
    service->ops->list_inboxes(service, take_inbox, &listing, run->cancel, &result);
    bool is_listed = result.outcome == SERVICE_OK;
    if (is_listed)
        index_end_inbox_list(index, listing.number);
    if (result.outcome == SERVICE_ABSENT)
        service_result_release(&result);
    else
        report(run, &result);
    return is_listed;
}

/* ---------------------------------------------------------------- mail */

/* Only an Extended service lists what it holds back, and mail that was sent. A Core server
 * is not asked for what it cannot have. */
static bool is_extended(struct mail_service *service)
{
    struct service_capabilities capabilities;
    service->ops->get_capabilities(service, &capabilities);
    return capabilities.inbox_list == CAPABILITY_PRESENT;
}

/* Inboxes that several threads list. */
struct inbox_queue {
    struct sync_run *run;
    enum sync_depth depth;
    uint32_t of_no_name; /* not one of these */
    uint32_t next;       /* protected by run->lock */
    uint32_t end;
};

/* NUMBER_NONE: none is left, or no more are to be listed. */
static uint32_t pop(struct inbox_queue *queue)
{
    struct sync_run *run = queue->run;
    LOCK_GUARD(&run->lock);
    if (queue->next == queue->of_no_name)
        queue->next++;
    return queue->next < queue->end && !run->must_wait ? queue->next++ : NUMBER_NONE;
}

static void *work_off(void *argument)
{
    struct inbox_queue *queue = argument;
    struct sync_run *run = queue->run;
    struct store *store = run->store;
    for (uint32_t inbox; (inbox = pop(queue)) != NUMBER_NONE;) {
        struct service_result result;
        list_inbox(&store->index, store->service, inbox, is_extended(store->service), queue->depth,
                   run->cancel, &result);
        report(run, &result);
    }
    return NULL;
}

/* Several at once, so that a long inbox does not hold up the short ones behind it. */
static void list_mail_of_inboxes(struct sync_run *run, uint32_t from, uint32_t to, enum sync_depth depth)
{
    pthread_t threads[LISTINGS_AT_ONCE - 1];
    size_t started = 0;
    struct inbox_queue queue = {.run = run,
                                .depth = depth,
                                .of_no_name = index_find_inbox_of_no_name(&run->store->index),
                                .next = from,
                                .end = to};
    while (started < ARRAY_LEN(threads) && started + 1 < to - from &&
           thread_start(&threads[started], "sync-inbox", work_off, &queue) == 0)
        started++;
    work_off(&queue);
    while (started > 0)
        pthread_join(threads[--started], NULL);
}

/* Without a list of inboxes they are found by the mail that names them. All of it has to be seen only where
 * nothing is known yet, and where mail that names no inbox has to be compared. */
static bool list_mail_of_all(struct sync_run *run, enum sync_depth depth)
{
    struct index *index = &run->store->index;
    struct service_result result;
    bool needs_all = index_inbox_numbers(index) == 0 || index_find_inbox_of_no_name(index) != NUMBER_NONE;
    list_all(index, run->store->service, needs_all ? depth : SYNC_NEWEST, run->cancel, &result);
    bool is_found = result.outcome == SERVICE_OK;
    report(run, &result);
    return is_found;
}

/* The run does not fail if there is no such list, or if it cannot be had now. */
static void list_sent(struct sync_run *run, enum sync_depth depth)
{
    struct store *store = run->store;
    struct service_result result;
    if (!is_extended(store->service))
        return;
    list_inbox(&store->index, store->service, INDEX_SENT, true, depth, run->cancel, &result);
    service_result_release(&result);
}

/* Maildirs are shown from now on: an earlier mount may have found out that the service has raw messages. */
static void notify_first_sync(struct store *store)
{
    const struct store_listener *listener = &store->index.listener;
    if (store_has_raw(store) && listener->abilities_changed != NULL)
        listener->abilities_changed(listener->context);
}

static void run_all(struct sync_run *run, enum sync_depth depth)
{
    struct index *index = &run->store->index;
    unsigned int lost = atomic_load(&index->lost);
    bool is_listed = list_inboxes(run);
    bool is_found = is_listed; /* which inboxes there are */
    uint32_t known = index_inbox_numbers(index);
    list_mail_of_inboxes(run, 0, known, depth);
    if (!is_listed && !run->must_wait) {
        is_found = list_mail_of_all(run, depth);
        list_mail_of_inboxes(run, known, index_inbox_numbers(index), depth);
    }
    report_end(run);
    if (is_found && depth == SYNC_COMPLETE && !run->must_wait && index_end_first_sync(index))
        notify_first_sync(run->store);
    /* All lists came whole, and what the cache had lost when they began was found to be another. */
    if (depth == SYNC_COMPLETE && run->error == 0)
        (void)atomic_compare_exchange_strong(&index->lost, &lost, 0);
    if (!run->must_wait)
        list_sent(run, depth);
    if (depth == SYNC_COMPLETE)
        index_clean(index);
}

static uint32_t part_of_round(uint32_t inboxes, int64_t poll_interval_ms)
{
    int64_t part = inboxes * poll_interval_ms / COMPLETE_INTERVAL_MS + 1;
    int64_t most = ROUND_REQUESTS_PER_S * poll_interval_ms / 1000 + 1;
    return (uint32_t)(part < most ? part : most);
}

static void list_part_of_round(struct sync_run *run, uint32_t inboxes)
{
    struct index *index = &run->store->index;
    struct sync_round *round = run->round;
    uint32_t part = part_of_round(inboxes, run->store->poll_interval_ms);
    uint32_t end = inboxes - round->next > part ? round->next + part : inboxes;
    if (round->next == 0) {
        round->lost = atomic_load(&index->lost);
        round->has_failed = false;
    }
    list_mail_of_inboxes(run, round->next, end, SYNC_COMPLETE);
    if (run->must_wait)
        return;
    round->has_failed |= run->error != 0 || run->words != NULL;
    round->next = end < inboxes ? end : 0;
    run->is_complete = round->next == 0 && !round->has_failed;
    if (run->is_complete)
        (void)atomic_compare_exchange_strong(&index->lost, &round->lost, 0);
}

/* The newest of all inboxes, in one list. */
static void list_newest_of_known(struct sync_run *run)
{
    struct mail_service *service = run->store->service;
    struct listing_state *state = &run->round->state;
    struct service_result result;
    struct mail_listing listing = {.index = &run->store->index,
                                   .service = service,
                                   .cancel = run->cancel,
                                   .state = state,
                                   .name = "all inboxes",
                                   .only_known = true};
    set_with_held(&listing, is_extended(service) && !state->refuses_held);
    end_listing(&listing, ask_for_inbox(&listing, SYNC_NEWEST, 0, &result), &result);
    report(run, &result);
}

/* A poll where listing inboxes one by one would take too many requests: the newest mail of all in one list,
 * and complete lists of some inboxes, the next ones each time. */
static void run_many(struct sync_run *run)
{
    struct index *index = &run->store->index;
    struct sync_round *round = run->round;
    uint32_t known = index_inbox_numbers(index);
    if (clock_monotonic_ms(index->clock) >= round->inboxes_due_ms) {
        round->has_list = list_inboxes(run);
        round->inboxes_due_ms = clock_monotonic_ms(index->clock) + INBOXES_INTERVAL_MS;
    }
    if (!run->must_wait && round->has_list)
        list_newest_of_known(run);
    else if (!run->must_wait)
        list_mail_of_all(run, round->next == 0 ? SYNC_COMPLETE : SYNC_NEWEST);
    list_mail_of_inboxes(run, known, index_inbox_numbers(index), SYNC_COMPLETE);
    list_part_of_round(run, known);
    report_end(run);
    if (!run->must_wait)
        list_sent(run, round->next == 0 ? SYNC_COMPLETE : SYNC_NEWEST);
    if (!run->must_wait && round->next == 0) {
        forget_refusals(&round->state);
        index_clean(index);
    }
}

static void run_inbox(struct sync_run *run, uint32_t inbox, enum sync_depth depth)
{
    struct store *store = run->store;
    struct service_result result;
    if (index_find_inbox_of_no_name(&store->index) == inbox)
        list_all(&store->index, store->service, depth, run->cancel, &result);
    else
        list_inbox(&store->index, store->service, inbox, is_extended(store->service), depth, run->cancel,
                   &result);
    report(run, &result);
}

/* ---------------------------------------------------------------- when runs are made */

static bool wants(const struct sync_request *request, uint32_t inbox, enum sync_depth least)
{
    for (; request != NULL; request = request->next)
        if (request->inbox == inbox && request->depth >= least)
            return true;
    return false;
}

/* The deepest of what is wanted of this inbox. */
static enum sync_depth depth_of(const struct sync_request *request, uint32_t inbox)
{
    return wants(request, inbox, SYNC_COMPLETE) ? SYNC_COMPLETE : SYNC_NEWEST;
}

/* Hands the outcome to all of the run's requests for this inbox. */
static void tell_requests_locked(struct sync *sync, uint32_t inbox, const struct sync_run *run)
{
    struct sync_request **at = &sync->running;
    while (*at != NULL) {
        struct sync_request *request = *at;
        if (request->inbox != inbox) {
            at = &request->next;
            continue;
        }
        *at = request->next;
        if (!request->is_awaited) {
            free(request);
            continue;
        }
        request->error = run->error;
        request->words = run->words == NULL ? NULL : strdup(run->words);
        request->is_done = true;
    }
    pthread_cond_broadcast(&sync->changed);
}

static int64_t with_jitter(int64_t interval_ms)
{
    uint32_t noise = 0;
    int64_t part = interval_ms / JITTER_PARTS;
    if (random_bytes(&noise, sizeof(noise)) != 0)
        return interval_ms;
    return interval_ms - part + (int64_t)(noise % (uint64_t)(2 * part + 1));
}

static void plan_next_locked(struct sync *sync, const struct sync_run *run)
{
    if (sync->store->poll_interval_ms <= 0)
        return;
    int64_t delay_ms = with_jitter(sync->store->poll_interval_ms);
    if (run->must_wait)
        delay_ms = backoff_next_ms(&sync->backoff);
    else
        backoff_reset(&sync->backoff);
    if (delay_ms < run->retry_after_ms)
        delay_ms = run->retry_after_ms;
    sync->next_ms = clock_monotonic_ms(sync->clock) + delay_ms;
    sync->asked_until_ms = clock_monotonic_ms(sync->clock) + run->retry_after_ms;
}

/* Complete lists are spread over polls: there are many inboxes, and all were listed once. */
static bool is_spread_locked(const struct sync *sync)
{
    return sync->complete_due_ms != 0 && index_inbox_numbers(&sync->store->index) > INBOXES_LISTED_MAX;
}

/* Everything: for those who asked for it, or because it is time. Called with the lock held, which is given up
 * meanwhile. */
static void run_all_locked(struct sync *sync, enum sync_depth depth)
{
    struct sync_run run;
    init_run(&run, sync);
    bool is_spread = depth == SYNC_NEWEST && is_spread_locked(sync);
    pthread_mutex_unlock(&sync->lock);
    if (is_spread) {
        run_many(&run);
    } else {
        sync->round = (struct sync_round){.next = 0};
        run_all(&run, depth);
        run.is_complete = depth == SYNC_COMPLETE && run.error == 0 && run.words == NULL;
    }
    if (!run.must_wait)
        contents_probe(sync->store->contents);
    pthread_mutex_lock(&sync->lock);
    if (depth == SYNC_COMPLETE && !run.must_wait)
        sync->complete_due_ms = clock_monotonic_ms(sync->clock) + COMPLETE_INTERVAL_MS;
    if (run.is_complete)
        sync->last_complete_real_ms = clock_realtime_ms(sync->clock);
    plan_next_locked(sync, &run);
    tell_requests_locked(sync, SYNC_ALL, &run);
    release_run(&run);
}

static void run_inbox_locked(struct sync *sync, uint32_t inbox, enum sync_depth depth)
{
    struct sync_run run;
    init_run(&run, sync);
    pthread_mutex_unlock(&sync->lock);
    run_inbox(&run, inbox, depth);
    pthread_mutex_lock(&sync->lock);
    tell_requests_locked(sync, inbox, &run);
    release_run(&run);
}

/* When the requests that wait are taken up; CLOCK_FOREVER: none waits. Those for the newest mail, which
 * webhooks make, keep a pace: whoever sends many webhooks must not have the service asked for each. */
static int64_t requests_due_ms_locked(const struct sync *sync)
{
    for (const struct sync_request *request = sync->waiting; request != NULL; request = request->next)
        if (request->is_awaited || request->depth == SYNC_COMPLETE)
            return 0;
    return sync->waiting != NULL ? sync->requests_due_ms : CLOCK_FOREVER;
}

static void run_requests_locked(struct sync *sync)
{
    sync->requests_due_ms = clock_monotonic_ms(sync->clock) + REQUESTS_PACE_MS;
    sync->running = sync->waiting;
    sync->waiting = NULL;
    sync->round.inboxes_due_ms = 0;
    if (wants(sync->running, SYNC_ALL, SYNC_NEWEST))
        run_all_locked(sync, depth_of(sync->running, SYNC_ALL));
    while (sync->running != NULL && !sync->is_stopping)
        run_inbox_locked(sync, sync->running->inbox, depth_of(sync->running, sync->running->inbox));
}

static void run_poll_locked(struct sync *sync)
{
    bool is_complete_due =
        clock_monotonic_ms(sync->clock) >= sync->complete_due_ms && !is_spread_locked(sync);
    run_all_locked(sync, is_complete_due ? SYNC_COMPLETE : SYNC_NEWEST);
}

static void check_contact_locked(struct sync *sync)
{
    sync->must_check_contact = false;
    pthread_mutex_unlock(&sync->lock);
    contact_check(&sync->store->contact, sync->store->service, &sync->cancel);
    pthread_mutex_lock(&sync->lock);
}

/* Everything is listed anew where the cache was lost. */
static void renew_cache_locked(struct sync *sync)
{
    pthread_mutex_unlock(&sync->lock);
    bool is_new = index_renew_cache(&sync->store->index);
    pthread_mutex_lock(&sync->lock);
    if (is_new)
        sync->complete_due_ms = 0;
}

/* Rests as long as it works, for whoever reads mail meanwhile. */
static void index_some_locked(struct sync *sync)
{
    pthread_mutex_unlock(&sync->lock);
    int64_t started_ms = clock_monotonic_ms(sync->clock);
    bool has_more = search_index_catch_up(&sync->store->cache) > 0;
    int64_t now_ms = clock_monotonic_ms(sync->clock);
    pthread_mutex_lock(&sync->lock);
    sync->index_due_ms = has_more ? now_ms + (now_ms - started_ms) : CLOCK_FOREVER;
}

static void run_due_locked(struct sync *sync, int64_t requests_due_ms, int64_t now_ms)
{
    renew_cache_locked(sync);
    if (requests_due_ms <= now_ms)
        run_requests_locked(sync);
    else
        run_poll_locked(sync);
    sync->index_due_ms = 0;
}

static int64_t earlier(int64_t one_ms, int64_t other_ms)
{
    return one_ms < other_ms ? one_ms : other_ms;
}

static void *run_thread(void *argument)
{
    struct sync *sync = argument;
    pthread_mutex_lock(&sync->lock);
    while (!sync->is_stopping) {
        int64_t now = clock_monotonic_ms(sync->clock);
        int64_t requests_due_ms = requests_due_ms_locked(sync);
        if (requests_due_ms <= now || sync->next_ms <= now)
            run_due_locked(sync, requests_due_ms, now);
        else if (sync->must_check_contact)
            check_contact_locked(sync);
        else if (sync->index_due_ms <= now)
            index_some_locked(sync);
        else
            clock_wait(sync->clock, &sync->changed, &sync->lock,
                       earlier(earlier(requests_due_ms, sync->next_ms), sync->index_due_ms));
    }
    pthread_mutex_unlock(&sync->lock);
    return NULL;
}

/* ---------------------------------------------------------------- life */

struct sync *sync_new(struct store *store)
{
    struct sync *sync = calloc(1, sizeof(*sync));
    if (sync == NULL)
        return NULL;
    *sync = (struct sync){
        .store = store,
        .clock = store->index.clock,
        .backoff = {.min_ms = BACKOFF_MIN_MS,
                    .max_ms =
                        store->poll_interval_ms > BACKOFF_MAX_MS ? store->poll_interval_ms : BACKOFF_MAX_MS},
        .next_ms = store->poll_interval_ms > 0 ? 0 : CLOCK_FOREVER,
    };
    cancel_init(&sync->cancel);
    pthread_mutex_init(&sync->lock, NULL);
    clock_condition_init(&sync->changed);
    return sync;
}

static void free_requests(struct sync_request *request)
{
    while (request != NULL) {
        struct sync_request *next = request->next;
        free(request->words);
        free(request);
        request = next;
    }
}

void sync_free(struct sync *sync)
{
    if (sync == NULL)
        return;
    free_requests(sync->waiting);
    free_requests(sync->running);
    pthread_cond_destroy(&sync->changed);
    pthread_mutex_destroy(&sync->lock);
    cancel_release(&sync->cancel);
    free(sync);
}

int sync_start(struct sync *sync)
{
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

/* ---------------------------------------------------------------- who asks for a run */

static void append(struct sync_request **list, struct sync_request *request)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = request;
}

static bool take_out(struct sync_request **list, const struct sync_request *request)
{
    for (; *list != NULL; list = &(*list)->next) {
        if (*list == request) {
            *list = request->next;
            return true;
        }
    }
    return false;
}

static void wait_for_run(struct sync *sync, struct sync_request *request, int64_t until_ms,
                         struct cancel *cancel)
{
    int error = 0;
    LOCK_GUARD(&sync->lock);
    append(&sync->waiting, request);
    pthread_cond_broadcast(&sync->changed);
    while (!request->is_done && !sync->is_stopping && error == 0)
        error = wait_until(sync->clock, &sync->changed, &sync->lock, until_ms, cancel);
    if (request->is_done)
        return;
    if (!take_out(&sync->waiting, request))
        take_out(&sync->running, request);
    request->error = error == -ETIMEDOUT ? -EHOSTUNREACH : -EINTR;
}

int sync_wait(struct sync *sync, uint32_t inbox, int64_t until_ms, struct cancel *cancel, char **ret_reason)
{
    struct sync_request request = {.inbox = inbox, .depth = SYNC_COMPLETE, .is_awaited = true};
    wait_for_run(sync, &request, until_ms, cancel);
    if (request.error == 0) {
        free(request.words);
        return 0;
    }
    const char *words = request.error == -EINTR ? "interrupted" : "the service did not list the mail in time";
    *ret_reason = request.words != NULL ? request.words : strdup(words);
    return request.error;
}

/* Returns true if a request that waits for the next run brings as much. One with a waiting thread does not
 * count: that thread may give up. */
static bool is_covered_locked(const struct sync *sync, uint32_t inbox, enum sync_depth depth)
{
    for (const struct sync_request *request = sync->waiting; request != NULL; request = request->next)
        if (!request->is_awaited && request->depth >= depth &&
            (request->inbox == inbox || request->inbox == SYNC_ALL))
            return true;
    return false;
}

void sync_request(struct sync *sync, uint32_t inbox, enum sync_depth depth)
{
    LOCK_GUARD(&sync->lock);
    struct sync_request *request = is_covered_locked(sync, inbox, depth) ? NULL : calloc(1, sizeof(*request));
    if (request != NULL) { /* without memory, the next poll brings it */
        request->inbox = inbox;
        request->depth = depth;
        append(&sync->waiting, request);
        pthread_cond_broadcast(&sync->changed);
    }
}

void sync_get_status(struct sync *sync, struct store_status *ret)
{
    LOCK_GUARD(&sync->lock);
    ret->has_synced = sync->last_complete_real_ms != 0;
    ret->last_full_ms = sync->last_complete_real_ms;
    int64_t wait_ms = sync->next_ms - clock_monotonic_ms(sync->clock); /* negative while one is under way */
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
    int error = sync_wait(store->sync, inbox, CLOCK_FOREVER, cancel, ret_reason);
    if (error == 0 && inbox == SYNC_ALL && contents_await_probe(store->contents, cancel) != 0)
        error = reason_give(ret_reason, -EINTR, "interrupted");
    return error;
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
    backoff_reset(&sync->backoff);
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
