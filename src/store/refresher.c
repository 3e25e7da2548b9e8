/* SPDX-License-Identifier: MIT */
/*
 * A request is taken up by the run that starts after it was made, never by one under way: that may have
 * asked the service before what the caller wants to see was there.
 */
#include "store/refresher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/random.h"
#include "base/thread.h"
#include "store/outbound.h"
#include "store/result_errno.h"
#include "store/sync_run.h"

enum {
    FULL_INTERVAL_MS = 15 * 60 * 1000,
    BACKOFF_MIN_MS = 1000,
    BACKOFF_MAX_MS = 5 * 60 * 1000,
    RETRY_AFTER_MAX_MS = 60 * 60 * 1000,
    JITTER_PARTS = 10, /* of an interval, either way */
};

/* A wish for a run. Those with somebody waiting live on that thread's stack, the others are freed when done.
 */
struct sync_request {
    struct sync_request *next;
    uint32_t inbox; /* or REFRESHER_ALL */
    bool is_awaited;
    bool is_done;
    int error;
    char *words;
};

struct refresher {
    struct refresher_config config;
    struct cancel cancel; /* of the request to the service under way */
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_started; /* protected by lock, like all below */
    bool is_stopping;
    bool must_check;              /* whether the service answers */
    struct sync_request *waiting; /* for the next run */
    struct sync_request *running; /* taken up by the run under way */
    struct backoff backoff;
    int64_t next_ms;           /* of the next poll, monotonic; CLOCK_FOREVER: none */
    int64_t full_due_ms;       /* of the next complete poll, monotonic */
    int64_t last_full_real_ms; /* of the last complete run without a failure, realtime; 0: never */
};

struct refresher *refresher_new(const struct refresher_config *config)
{
    struct refresher *refresher = calloc(1, sizeof(*refresher));
    if (refresher == NULL)
        return NULL;
    refresher->config = *config;
    refresher->backoff = (struct backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
    refresher->next_ms = config->poll_interval_ms > 0 ? 0 : CLOCK_FOREVER;
    cancel_init(&refresher->cancel);
    pthread_mutex_init(&refresher->lock, NULL);
    clock_condition_init(&refresher->changed);
    return refresher;
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

void refresher_free(struct refresher *refresher)
{
    if (refresher == NULL)
        return;
    free_requests(refresher->waiting);
    free_requests(refresher->running);
    pthread_cond_destroy(&refresher->changed);
    pthread_mutex_destroy(&refresher->lock);
    cancel_release(&refresher->cancel);
    free(refresher);
}

/* ---------------------------------------------------------------- runs */

static bool wants_all(const struct sync_request *request)
{
    for (; request != NULL; request = request->next)
        if (request->inbox == REFRESHER_ALL)
            return true;
    return false;
}

/* Hands the outcome to all of the run's requests for this inbox. */
static void settle_locked(struct refresher *refresher, uint32_t inbox, const struct sync_run *run)
{
    struct sync_request **at = &refresher->running;
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
    pthread_cond_broadcast(&refresher->changed);
}

static int64_t with_jitter(int64_t interval_ms)
{
    uint32_t noise = 0;
    int64_t part = interval_ms / JITTER_PARTS;
    if (random_bytes(&noise, sizeof(noise)) != 0)
        return interval_ms;
    return interval_ms - part + (int64_t)(noise % (uint64_t)(2 * part + 1));
}

static void plan_next_locked(struct refresher *refresher, const struct sync_run *run)
{
    if (refresher->config.poll_interval_ms <= 0)
        return;
    int64_t delay_ms = with_jitter(refresher->config.poll_interval_ms);
    if (run->must_wait)
        delay_ms = backoff_next_ms(&refresher->backoff);
    else
        backoff_reset(&refresher->backoff);
    int64_t asked_ms =
        run->retry_after_ms < RETRY_AFTER_MAX_MS ? run->retry_after_ms : (int64_t)RETRY_AFTER_MAX_MS;
    if (delay_ms < asked_ms)
        delay_ms = asked_ms;
    refresher->next_ms = clock_monotonic_ms(refresher->config.clock) + delay_ms;
}

static void start_run(struct refresher *refresher, struct sync_run *run)
{
    const struct refresher_config *config = &refresher->config;
    sync_run_init(run, config->mirror, config->service, config->contact, (struct cancel *)&refresher->cancel);
}

/* Everything: for those who asked for it, or because it is time. Called with the lock held, which is given up
 * meanwhile. */
static void run_all_locked(struct refresher *refresher, enum look_depth depth)
{
    struct sync_run run;
    bool had_lost = atomic_load(&refresher->config.mirror->has_lost);
    start_run(refresher, &run);
    pthread_mutex_unlock(&refresher->lock);
    sync_run_all(&run, depth);
    /* All lists came whole, and what the cache had lost was found to be another. */
    if (had_lost && depth == LOOK_COMPLETE && run.error == 0)
        atomic_store(&refresher->config.mirror->has_lost, false);
    if (!run.must_wait && refresher->config.outbound != NULL)
        outbound_look(refresher->config.outbound, depth, run.cancel);
    if (depth == LOOK_COMPLETE)
        mirror_give_back(refresher->config.mirror);
    if (run.error == 0 && refresher->config.contents != NULL)
        contents_note_sync(refresher->config.contents);
    pthread_mutex_lock(&refresher->lock);
    if (depth == LOOK_COMPLETE && !run.must_wait)
        refresher->full_due_ms = clock_monotonic_ms(refresher->config.clock) + FULL_INTERVAL_MS;
    if (depth == LOOK_COMPLETE && run.error == 0)
        refresher->last_full_real_ms = clock_realtime_ms(refresher->config.clock);
    plan_next_locked(refresher, &run);
    settle_locked(refresher, REFRESHER_ALL, &run);
    sync_run_release(&run);
}

static void run_inbox_locked(struct refresher *refresher, uint32_t inbox)
{
    struct sync_run run;
    start_run(refresher, &run);
    pthread_mutex_unlock(&refresher->lock);
    sync_run_inbox(&run, inbox);
    pthread_mutex_lock(&refresher->lock);
    settle_locked(refresher, inbox, &run);
    sync_run_release(&run);
}

static void run_requests_locked(struct refresher *refresher)
{
    refresher->running = refresher->waiting;
    refresher->waiting = NULL;
    if (wants_all(refresher->running))
        run_all_locked(refresher, LOOK_COMPLETE);
    while (refresher->running != NULL && !refresher->is_stopping)
        run_inbox_locked(refresher, refresher->running->inbox);
}

static void run_poll_locked(struct refresher *refresher)
{
    bool is_full_due = clock_monotonic_ms(refresher->config.clock) >= refresher->full_due_ms;
    run_all_locked(refresher, is_full_due ? LOOK_COMPLETE : LOOK_NEWEST);
}

static int ignore(void *context, struct email_record *record)
{
    (void)context, (void)record;
    return 0;
}

static void check_contact_locked(struct refresher *refresher)
{
    const struct refresher_config *config = &refresher->config;
    const struct email_query query = {.inbox_id = NULL, .limit = 1};
    struct service_result result;
    unsigned int count;
    refresher->must_check = false;
    pthread_mutex_unlock(&refresher->lock);
    config->service->ops->list_emails(config->service, &query, ignore, NULL, &refresher->cancel, &count,
                                      &result);
    if (result_is_answer(&result))
        contact_note_online(config->contact);
    else if (result.error != EINTR)
        contact_note_offline(config->contact, result_words(&result));
    service_result_release(&result);
    pthread_mutex_lock(&refresher->lock);
}

static void *refresh(void *argument)
{
    struct refresher *refresher = argument;
    struct clock *clock = refresher->config.clock;
    pthread_mutex_lock(&refresher->lock);
    while (!refresher->is_stopping) {
        if (refresher->waiting != NULL)
            run_requests_locked(refresher);
        else if (refresher->next_ms != CLOCK_FOREVER && clock_monotonic_ms(clock) >= refresher->next_ms)
            run_poll_locked(refresher);
        else if (refresher->must_check)
            check_contact_locked(refresher);
        else
            clock_wait(clock, &refresher->changed, &refresher->lock, refresher->next_ms);
    }
    pthread_mutex_unlock(&refresher->lock);
    return NULL;
}

int refresher_start(struct refresher *refresher)
{
    pthread_mutex_lock(&refresher->lock);
    int error = thread_start(&refresher->thread, "refresher", refresh, refresher);
    refresher->is_started = error == 0;
    pthread_mutex_unlock(&refresher->lock);
    return error;
}

void refresher_stop(struct refresher *refresher)
{
    pthread_mutex_lock(&refresher->lock);
    bool was_started = refresher->is_started;
    refresher->is_started = false;
    refresher->is_stopping = true;
    pthread_cond_broadcast(&refresher->changed);
    pthread_mutex_unlock(&refresher->lock);
    cancel_set(&refresher->cancel);
    if (was_started)
        pthread_join(refresher->thread, NULL);
}

/* ---------------------------------------------------------------- requests */

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

static void wait_locked(struct refresher *refresher, struct sync_request *request, struct cancel *cancel)
{
    append(&refresher->waiting, request);
    pthread_cond_broadcast(&refresher->changed);
    while (!request->is_done && refresher->is_started && !cancel_is_set(cancel))
        clock_wait(refresher->config.clock, &refresher->changed, &refresher->lock, CLOCK_FOREVER);
    if (request->is_done)
        return;
    if (!take_out(&refresher->waiting, request))
        take_out(&refresher->running, request);
    request->error = -EINTR;
}

int refresher_sync(struct refresher *refresher, uint32_t inbox, struct cancel *cancel, char **ret_reason)
{
    struct sync_request request = {.inbox = inbox, .is_awaited = true};
    cancel_bind(cancel, &refresher->changed, &refresher->lock);
    pthread_mutex_lock(&refresher->lock);
    wait_locked(refresher, &request, cancel);
    pthread_mutex_unlock(&refresher->lock);
    cancel_unbind(cancel);
    if (request.error == 0) {
        free(request.words);
        return 0;
    }
    *ret_reason = request.words != NULL ? request.words : strdup("interrupted");
    return request.error;
}

void refresher_request(struct refresher *refresher, uint32_t inbox)
{
    struct sync_request *request = calloc(1, sizeof(*request));
    if (request == NULL)
        return; /* the next poll brings it */
    request->inbox = inbox;
    pthread_mutex_lock(&refresher->lock);
    append(&refresher->waiting, request);
    pthread_cond_broadcast(&refresher->changed);
    pthread_mutex_unlock(&refresher->lock);
}

void refresher_check_contact(struct refresher *refresher)
{
    pthread_mutex_lock(&refresher->lock);
    refresher->must_check = true;
    pthread_cond_broadcast(&refresher->changed);
    pthread_mutex_unlock(&refresher->lock);
}

void refresher_get_status(struct refresher *refresher, struct store_status *ret)
{
    struct clock *clock = refresher->config.clock;
    pthread_mutex_lock(&refresher->lock);
    ret->has_synced = refresher->last_full_real_ms != 0;
    ret->last_full_ms = refresher->last_full_real_ms;
    ret->next_poll_ms = refresher->next_ms == CLOCK_FOREVER
                            ? 0
                            : clock_realtime_ms(clock) + refresher->next_ms - clock_monotonic_ms(clock);
    pthread_mutex_unlock(&refresher->lock);
}
