/* SPDX-License-Identifier: MIT */
/*
 * Looks. Nothing is removed on the word of an answer that was cut off, damaged or possibly not all: the
 * service's outcome and the number of its records decide that, not what came of them.
 */
#include "store/look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/mirror_emails.h"
#include "store/mirror_inboxes.h"
#include "store/mirror_view.h"

enum {
    GROWTH_NEWEST = 4,
    GROWTH_COMPLETE = 100 * 1000, /* the second answer is whole, and repeats but the first */
    GROWTH_CAREFUL = 4,           /* where so much was refused */
    NOT_MODIFIED = 304,
};

struct look {
    struct mirror *mirror;
    struct look_memory *memory;
    struct mail_service *service;
    struct cancel *cancel;
    const char *inbox_id; /* NULL: all inboxes */
    uint32_t inbox;       /* its number */
    bool with_held;
    struct email_batch batch;
    int error;            /* what kept records that had arrived from the mirror */
    unsigned int unknown; /* records in it that were not known, or not as they are now */
    unsigned int limit;   /* of the last question that was answered */
    bool has_changed;     /* any answer brought something unknown */
    bool is_unchanged;    /* the last answer: as the one before to the same question */
};

/* ---------------------------------------------------------------- one answer */

static int flush(struct look *look)
{
    int error = email_batch_flush(&look->batch, look->mirror);
    if (look->error == 0)
        look->error = error;
    return look->error;
}

static int put(struct look *look, uint32_t inbox, const struct email_record *record)
{
    enum mirror_put outcome;
    int error = mirror_put_email(look->mirror, &look->batch, inbox, record, &outcome);
    if (error == 0 && outcome != MIRROR_UNCHANGED) {
        look->unknown++;
        look->has_changed = true;
    }
    return error != 0 ? error : look->error;
}

static int take_of_inbox(void *context, struct email_record *record)
{
    struct look *look = context;
    if (record == NULL)
        return flush(look);
    /* What a service lists unasked is not held back, whatever its status. */
    record->is_held = record->is_held && look->with_held;
    return put(look, look->inbox, record);
}

static int find_inbox_of(struct look *look, const char *id, uint32_t *ret_inbox)
{
    struct inbox_record record = {0};
    int error = inbox_record_from_id(id, &record);
    if (error == 0)
        error = mirror_put_inbox(look->mirror, &record, INBOX_FROM_MAIL, 0, ret_inbox);
    inbox_record_release(&record);
    return error;
}

static int take_of_all(void *context, struct email_record *record)
{
    struct look *look = context;
    uint32_t inbox;
    int error = record == NULL || record->inbox_id == NULL ? flush(look) : 0;
    if (record == NULL || error != 0)
        return error;
    if (record->inbox_id == NULL && mirror_has_home(look->mirror, record->key))
        return 0;
    record->is_held = false;
    error = record->inbox_id == NULL ? mirror_put_inbox_of_no_name(look->mirror, &inbox)
                                     : find_inbox_of(look, record->inbox_id, &inbox);
    return error != 0 ? error : put(look, inbox, record);
}

static void end_answer(struct look *look, struct service_result *ret)
{
    if (flush(look) != 0 && ret->outcome == SERVICE_OK) {
        service_result_release(ret);
        *ret = (struct service_result){.outcome = SERVICE_RETRY,
                                       .http_status = 200,
                                       .error = -look->error,
                                       .retry_after_ms = -1,
                                       .detail = strdup(strerror(-look->error))};
    }
    look->error = 0;
}

/* The number of records in the answer. */
static unsigned int ask(struct look *look, unsigned int limit, bool may_be_unchanged,
                        struct service_result *ret)
{
    unsigned int count = 0;
    const struct email_query query = {
        .inbox_id = look->inbox_id,
        .limit = limit,
        .known = mirror_email_numbers(look->mirror),
        .with_invalid = look->with_held,
        .may_be_unchanged = may_be_unchanged && !atomic_load(&look->mirror->has_lost),
    };
    look->batch.look = mirror_begin_look(look->mirror);
    look->unknown = 0;
    look->service->ops->list_emails(look->service, &query,
                                    look->inbox_id != NULL ? take_of_inbox : take_of_all, look, look->cancel,
                                    &count, ret);
    end_answer(look, ret);
    look->is_unchanged = ret->outcome == SERVICE_OK && ret->http_status == NOT_MODIFIED;
    if (ret->outcome == SERVICE_OK)
        look->limit = limit;
    return count;
}

/* ---------------------------------------------------------------- as many answers as it takes */

/* Where the service refuses to list so many, what it gave before has to do. */
static bool refuses_number(const struct look *look, const struct service_result *result)
{
    return result->outcome == SERVICE_REJECTED && look->limit > 0;
}

static void set_ok(struct service_result *result)
{
    service_result_release(result);
    *result = (struct service_result){.outcome = SERVICE_OK, .http_status = 200, .retry_after_ms = -1};
}

/* True: the last answer held all there is. (More records than asked for: the service knows no limit.) */
static bool ask_newest(struct look *look, struct service_result *ret)
{
    for (unsigned int limit = LOOK_FIRST_LIMIT;; limit *= GROWTH_NEWEST) {
        unsigned int count = ask(look, limit, true, ret);
        if (refuses_number(look, ret))
            set_ok(ret);
        else if (ret->outcome == SERVICE_OK && count != limit)
            return true;
        if (ret->outcome != SERVICE_OK || look->unknown == 0 || limit > LOOK_LIMIT_MAX / GROWTH_NEWEST)
            return false;
        service_result_release(ret);
    }
}

/* A number between one that the service lists (look->limit) and one that it refuses. */
static unsigned int limit_below(const struct look *look, unsigned int refused)
{
    unsigned int middle = look->limit + (refused - look->limit) / 2;
    return look->limit < middle / GROWTH_CAREFUL ? look->limit * GROWTH_CAREFUL : middle;
}

/* Finds the largest number that the service lists, to about a quarter. True: the last answer held all there
 * is. */
static bool ask_up_to_refusal(struct look *look, unsigned int refused, struct service_result *ret)
{
    while (refused - look->limit > look->limit / 4) {
        unsigned int limit = limit_below(look, refused);
        service_result_release(ret);
        unsigned int count = ask(look, limit, false, ret);
        if (refuses_number(look, ret))
            refused = limit;
        else if (ret->outcome != SERVICE_OK || count != limit)
            return ret->outcome == SERVICE_OK;
    }
    if (refuses_number(look, ret))
        set_ok(ret);
    look->memory->most = look->limit;
    return false;
}

static unsigned int next_limit(unsigned int limit)
{
    return limit <= LOOK_LIMIT_MAX / GROWTH_COMPLETE ? limit * GROWTH_COMPLETE : (unsigned int)LOOK_LIMIT_MAX;
}

/* Limits are steps of a fixed ladder, so that the same question is asked again the next time and can be
 * answered with "unchanged". */
static unsigned int first_limit(const struct look *look, size_t known)
{
    unsigned int limit = LOOK_FIRST_LIMIT;
    while (limit <= known && limit < LOOK_LIMIT_MAX)
        limit = next_limit(limit);
    return look->memory->most != 0 && look->memory->most < limit ? look->memory->most : limit;
}

/* True: the last answer held all there is. */
static bool ask_complete(struct look *look, size_t known, struct service_result *ret)
{
    for (unsigned int limit = first_limit(look, known);;) {
        unsigned int count = ask(look, limit, look->memory->is_reconciled, ret);
        if (refuses_number(look, ret))
            return ask_up_to_refusal(look, limit, ret);
        bool begins_too_high = ret->outcome == SERVICE_REJECTED && limit > LOOK_FIRST_LIMIT;
        if (!begins_too_high && (ret->outcome != SERVICE_OK || count != limit))
            return ret->outcome == SERVICE_OK;
        if (!begins_too_high && (limit == look->memory->most || limit == LOOK_LIMIT_MAX))
            return false;
        limit = begins_too_high ? (unsigned int)LOOK_FIRST_LIMIT : next_limit(limit);
        service_result_release(ret);
    }
}

/* True: the last answer held all there is. */
static bool ask_to_depth(struct look *look, enum look_depth depth, size_t known, struct service_result *ret)
{
    return depth == LOOK_NEWEST ? ask_newest(look, ret) : ask_complete(look, known, ret);
}

/* ---------------------------------------------------------------- looks */

/* What the mirror shows is the last complete answer as long as nothing was added to it since. */
static void note_reconciled(struct look *look, bool is_complete)
{
    if (is_complete)
        look->memory->is_reconciled = true;
    else if (look->has_changed)
        look->memory->is_reconciled = false;
}

/* A service may not know how to tell of what it holds back, and take that for an error. */
static bool ask_for_inbox(struct look *look, enum look_depth depth, size_t known, struct service_result *ret)
{
    bool is_complete = ask_to_depth(look, depth, known, ret);
    if (!look->with_held || ret->outcome != SERVICE_REJECTED || look->limit > 0)
        return is_complete;
    service_result_release(ret);
    look->with_held = false;
    is_complete = ask_to_depth(look, depth, known, ret);
    look->memory->refuses_held = ret->outcome == SERVICE_OK;
    return is_complete;
}

void look_at_inbox(struct mirror *mirror, struct mail_service *service, uint32_t inbox, bool with_held,
                   enum look_depth depth, struct cancel *cancel, struct service_result *ret)
{
    struct inbox_view view;
    *ret = (struct service_result){.outcome = SERVICE_OK, .retry_after_ms = -1};
    if (!mirror_get_inbox(mirror, inbox, &view))
        return; /* it went meanwhile, and nothing is wrong with that */
    struct look look = {
        .mirror = mirror,
        .service = service,
        .cancel = cancel,
        .inbox_id = view.id,
        .inbox = inbox,
        .memory = mirror_find_look_memory(mirror, inbox),
    };
    look.with_held = with_held && !look.memory->refuses_held;
    bool is_complete = ask_for_inbox(&look, depth, view.emails + view.held, ret);
    email_batch_release(&look.batch);
    note_reconciled(&look, is_complete);
    if (is_complete && !look.is_unchanged)
        mirror_remove_unseen(mirror, inbox, look.batch.look, look.with_held);
    if (look.with_held && ret->outcome == SERVICE_OK)
        mirror_note_held_shown(mirror);
    if (is_complete || (depth == LOOK_COMPLETE && ret->outcome == SERVICE_OK))
        mirror_end_quiet(mirror, inbox);
}

void look_at_all(struct mirror *mirror, struct mail_service *service, enum look_depth depth,
                 struct cancel *cancel, struct service_result *ret)
{
    struct look_memory memory = {0};
    struct look look = {.mirror = mirror, .service = service, .cancel = cancel, .memory = &memory};
    uint32_t of_no_name;
    size_t inboxes;
    size_t emails;
    mirror_count(mirror, &inboxes, &emails);
    bool is_complete = ask_to_depth(&look, depth, emails, ret);
    email_batch_release(&look.batch);
    if (!is_complete || look.is_unchanged || !mirror_find_inbox_of_no_name(mirror, &of_no_name))
        return;
    mirror_remove_unseen(mirror, of_no_name, look.batch.look, true);
    mirror_end_quiet(mirror, of_no_name);
}
