/* SPDX-License-Identifier: MIT */
/*
 * Runs.
 */
#include "store/sync_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "store/mirror_inboxes.h"
#include "store/mirror_view.h"
#include "store/result_errno.h"

enum {
    TOO_MANY_REQUESTS = 429,
    LOOKS_AT_ONCE = 4,
};

void sync_run_init(struct sync_run *run, struct mirror *mirror, struct mail_service *service,
                   struct contact *contact, struct cancel *cancel)
{
    *run = (struct sync_run){
        .mirror = mirror,
        .service = service,
        .contact = contact,
        .cancel = cancel,
        .retry_after_ms = -1,
    };
    pthread_mutex_init(&run->lock, NULL);
}

void sync_run_release(struct sync_run *run)
{
    free(run->words);
    run->words = NULL;
    pthread_mutex_destroy(&run->lock);
}

/* Whether asking for something else would come to the same. One request that takes too long is no sign of
 * that where others were answered. */
static bool concerns_all_locked(const struct sync_run *run, const struct service_result *result)
{
    if (result->outcome == SERVICE_UNAUTHORIZED)
        return true;
    if (result->outcome != SERVICE_RETRY)
        return false;
    if (result->http_status == 0)
        return result->error != ETIMEDOUT || !run->has_answer;
    return result->http_status == TOO_MANY_REQUESTS;
}

static void note_locked(struct sync_run *run, const struct service_result *result)
{
    int error = result_errno_of_listing(result);
    if (result_is_answer(result))
        run->has_answer = true;
    if (error != 0 && run->error == 0) {
        run->error = error;
        run->words = strdup(result_words(result));
    }
    if (error != 0 && concerns_all_locked(run, result))
        run->must_wait = true;
    if (result->retry_after_ms > run->retry_after_ms)
        run->retry_after_ms = result->retry_after_ms;
}

/* Takes the outcome of one request into that of the run, and releases it. */
static void note(struct sync_run *run, struct service_result *result)
{
    if (result->outcome == SERVICE_OK && result->http_status == 0)
        return; /* nothing was asked: the inbox went meanwhile */
    pthread_mutex_lock(&run->lock);
    note_locked(run, result);
    pthread_mutex_unlock(&run->lock);
    contact_note(run->contact, result);
    service_result_release(result);
}

/* A service that has answered nothing but that it is in trouble is as good as away. */
static void note_end(struct sync_run *run)
{
    const char *words = run->words != NULL ? run->words : "the service is in trouble";
    if (run->error == -EINTR)
        return;
    contact_note_sync(run->contact, run->error != 0 ? words : NULL);
    if (run->error == 0 || run->has_answer)
        return;
    run->must_wait = true;
    contact_note_offline(run->contact, words);
}

/* ---------------------------------------------------------------- the list of inboxes */

struct inbox_listing {
    struct mirror *mirror;
    uint32_t look;
};

static int take_inbox(void *context, struct inbox_record *record)
{
    const struct inbox_listing *listing = context;
    return mirror_put_inbox(listing->mirror, record, INBOX_LISTED, listing->look, NULL);
}

/* False: the service has no such list, or did not give it now. Having none is not a failure. */
static bool list_inboxes(struct sync_run *run)
{
    struct inbox_listing listing = {run->mirror, mirror_begin_look(run->mirror)};
    uint32_t known_before = mirror_inbox_numbers(run->mirror);
    struct service_result result;
    run->service->ops->list_inboxes(run->service, take_inbox, &listing, run->cancel, &result);
    bool is_listed = result.outcome == SERVICE_OK;
    if (is_listed)
        mirror_end_inbox_list(run->mirror, listing.look, known_before);
    if (result.outcome == SERVICE_ABSENT)
        service_result_release(&result);
    else
        note(run, &result);
    return is_listed;
}

/* ---------------------------------------------------------------- mail */

/* What it holds back, only an Extended service can be asked for. It costs no request of its own. */
static bool tells_of_held(struct mail_service *service)
{
    struct service_capabilities capabilities;
    service->ops->get_capabilities(service, &capabilities);
    return capabilities.inbox_list == CAPABILITY_PRESENT;
}

/* Inboxes to look at, by several threads. */
struct look_queue {
    struct sync_run *run;
    enum look_depth depth;
    uint32_t of_no_name; /* not one of these */
    uint32_t next;       /* protected by run->lock */
    uint32_t end;
};

/* NUMBER_NONE: none is left, or no more are to be looked at. */
static uint32_t pop(struct look_queue *queue)
{
    struct sync_run *run = queue->run;
    pthread_mutex_lock(&run->lock);
    if (queue->next == queue->of_no_name)
        queue->next++;
    uint32_t inbox = queue->next < queue->end && !run->must_wait ? queue->next++ : NUMBER_NONE;
    pthread_mutex_unlock(&run->lock);
    return inbox;
}

static void *work_off(void *argument)
{
    struct look_queue *queue = argument;
    struct sync_run *run = queue->run;
    for (uint32_t inbox; (inbox = pop(queue)) != NUMBER_NONE;) {
        struct service_result result;
        look_at_inbox(run->mirror, run->service, inbox, tells_of_held(run->service), queue->depth,
                      run->cancel, &result);
        note(run, &result);
    }
    return NULL;
}

/* Several at once, so that a long inbox does not hold up the short ones behind it. */
static void look_at_inboxes(struct sync_run *run, uint32_t from, uint32_t to, enum look_depth depth)
{
    pthread_t threads[LOOKS_AT_ONCE - 1];
    size_t started = 0;
    struct look_queue queue = {.run = run, .depth = depth, .next = from, .end = to};
    if (!mirror_find_inbox_of_no_name(run->mirror, &queue.of_no_name))
        queue.of_no_name = NUMBER_NONE;
    while (started < ARRAY_LEN(threads) && started + 1 < to - from &&
           thread_start(&threads[started], "look", work_off, &queue) == 0)
        started++;
    work_off(&queue);
    while (started > 0)
        pthread_join(threads[--started], NULL);
}

/* Without a list of inboxes they are found by the mail that names them. All of it has to be seen only where
 * nothing is known yet, and where mail that names no inbox has to be compared. */
static bool look_without_inboxes(struct sync_run *run, enum look_depth depth)
{
    struct service_result result;
    uint32_t of_no_name;
    bool needs_all =
        mirror_inbox_numbers(run->mirror) == 0 || mirror_find_inbox_of_no_name(run->mirror, &of_no_name);
    look_at_all(run->mirror, run->service, needs_all ? depth : LOOK_NEWEST, run->cancel, &result);
    bool is_found = result.outcome == SERVICE_OK;
    note(run, &result);
    return is_found;
}

void sync_run_all(struct sync_run *run, enum look_depth depth)
{
    bool is_listed = list_inboxes(run);
    bool is_found = is_listed; /* which inboxes there are */
    uint32_t known = mirror_inbox_numbers(run->mirror);
    look_at_inboxes(run, 0, known, depth);
    if (!is_listed && !run->must_wait) {
        is_found = look_without_inboxes(run, depth);
        look_at_inboxes(run, known, mirror_inbox_numbers(run->mirror), depth);
    }
    note_end(run);
    if (is_found && depth == LOOK_COMPLETE && !run->must_wait)
        mirror_end_first_sync(run->mirror);
}

void sync_run_inbox(struct sync_run *run, uint32_t inbox)
{
    struct service_result result;
    uint32_t of_no_name;
    if (mirror_find_inbox_of_no_name(run->mirror, &of_no_name) && inbox == of_no_name)
        look_at_all(run->mirror, run->service, LOOK_COMPLETE, run->cancel, &result);
    else
        look_at_inbox(run->mirror, run->service, inbox, tells_of_held(run->service), LOOK_COMPLETE,
                      run->cancel, &result);
    note(run, &result);
}
