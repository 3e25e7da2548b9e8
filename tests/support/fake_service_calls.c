/* SPDX-License-Identifier: MIT */
/*
 * The calls of the fake service. A call is recorded, waits at its gate, takes its scripted outcome, and takes
 * effect, all under one lock, except for the sinks of listings.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "mail/json_writer.h"
#include "support/fake_service_state.h"

static struct fake_service *fake_of(struct mail_service *service)
{
    return (struct fake_service *)service;
}

static const char *keep(struct fake_service *fake, const char *text)
{
    return text == NULL ? NULL : fake_keep_bytes(fake, text, strlen(text));
}

/* ---------------------------------------------------------------- the course of a call */

static void set_result(struct service_result *ret, const struct fake_outcome *outcome)
{
    static const struct {
        int http_status;
        int error;
        const char *detail;
    } usual[] = {
        [SERVICE_OK] = {200, 0, NULL},
        [SERVICE_RETRY] = {0, EHOSTUNREACH, "the service cannot be reached"},
        [SERVICE_UNAUTHORIZED] = {401, EACCES, "the key is not valid"},
        [SERVICE_REJECTED] = {422, EINVAL, "the service refuses this"},
        [SERVICE_ABSENT] = {404, ENOSYS, "there is no such endpoint"},
        [SERVICE_UNKNOWN] = {500, EIO, "internal error"},
    };
    *ret = (struct service_result){
        .outcome = outcome->outcome,
        .http_status = outcome->http_status != 0 ? outcome->http_status : usual[outcome->outcome].http_status,
        .error = outcome->error != 0 ? outcome->error : usual[outcome->outcome].error,
        .retry_after_ms = outcome->retry_after_ms > 0 ? outcome->retry_after_ms : -1,
        .is_foreign = outcome->is_foreign,
    };
    const char *detail = outcome->detail != NULL ? outcome->detail : usual[outcome->outcome].detail;
    ret->detail = detail == NULL || ret->error == 0 ? NULL : fake_must(strdup(detail));
}

static bool concerns(const struct fake_outcome *outcome, const struct fake_record *record)
{
    return outcome->of == NULL || (record->text != NULL && strcmp(outcome->of, record->text) == 0);
}

static struct fake_outcome next_outcome_locked(struct fake_service *fake, struct fake_calls *calls,
                                               const struct fake_record *record)
{
    for (size_t i = 0; i < calls->pushed_len; i++) {
        struct fake_outcome outcome = calls->pushed[i];
        if (!concerns(&outcome, record))
            continue;
        calls->pushed_len--;
        memmove(&calls->pushed[i], &calls->pushed[i + 1], (calls->pushed_len - i) * sizeof(outcome));
        return outcome;
    }
    if (fake->is_unreachable)
        return (struct fake_outcome){.outcome = SERVICE_RETRY};
    return calls->usual;
}

/* Waits at the gate. Returns false if the call was cancelled. Calls may share a cancel, which wakes only one
 * of them, so each call polls its cancel every 20 ms. */
static bool pass_gate_locked(struct fake_service *fake, struct fake_calls *calls, struct cancel *cancel)
{
    struct clock *clock = clock_system();
    calls->at_gate++;
    pthread_cond_broadcast(&fake->changed);
    while (calls->gate_is_closed && calls->may_pass == 0 && !cancel_is_set(cancel))
        wait_until(clock, &fake->changed, &fake->lock, clock_monotonic_ms(clock) + 20, cancel);
    calls->at_gate--;
    bool may_pass = !calls->gate_is_closed || calls->may_pass > 0;
    if (calls->gate_is_closed && calls->may_pass > 0)
        calls->may_pass--;
    return may_pass;
}

struct fake_outcome fake_begin_call(struct fake_service *fake, enum fake_call call,
                                    const struct fake_record *record, struct cancel *cancel)
{
    struct fake_calls *calls = &fake->calls[call];
    pthread_mutex_lock(&fake->lock);
    calls->records = fake_must(realloc(calls->records, (calls->len + 1) * sizeof(*calls->records)));
    struct fake_record *kept = &calls->records[calls->len];
    size_t index = calls->len++;
    *kept = *record;
    kept->text = keep(fake, record->text);
    kept->key = keep(fake, record->key);
    kept->bytes = fake_keep_bytes(fake, record->bytes, record->len);
    if (++calls->under_way > calls->most_at_once)
        calls->most_at_once = calls->under_way;
    bool passed = pass_gate_locked(fake, calls, cancel);
    if (passed && !cancel_is_set(cancel))
        return next_outcome_locked(fake, calls, record);
    calls->records[index].was_cancelled = true;
    return (struct fake_outcome){.outcome = SERVICE_RETRY, .error = EINTR, .detail = "cancelled"};
}

void fake_end_call_locked(struct fake_service *fake, enum fake_call call, const struct fake_outcome *outcome,
                          struct service_result *ret)
{
    set_result(ret, outcome);
    fake->calls[call].under_way--;
    fake->calls[call].ended++;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
}

static bool takes_effect(const struct fake_outcome *outcome)
{
    return outcome->outcome == SERVICE_OK || outcome->happens;
}

static char *id_locked(struct fake_service *fake, const struct fake_outcome *outcome, const char *kind)
{
    char *id;
    if (outcome->id != NULL)
        return fake_must(strdup(outcome->id));
    if (asprintf(&id, "%s-%u", kind, ++fake->last_id) < 0)
        abort();
    return id;
}

static char *answered_id(const struct fake_outcome *outcome, const char *id)
{
    return outcome->outcome == SERVICE_OK && !outcome->without_id ? fake_must(strdup(id)) : NULL;
}

/* ---------------------------------------------------------------- listings */

static void list_inboxes(struct mail_service *service, inbox_sink sink, void *context, struct cancel *cancel,
                         struct service_result *ret)
{
    struct fake_service *fake = fake_of(service);
    const struct fake_record call = {.text = NULL};
    struct fake_outcome outcome = fake_begin_call(fake, FAKE_LIST_INBOXES, &call, cancel);
    _cleanup_json_ json_t *records = fake_must(json_array());
    for (struct fake_inbox *inbox = fake->inboxes; inbox != NULL; inbox = inbox->next)
        if (outcome.outcome == SERVICE_OK || json_array_size(records) < outcome.records)
            json_array_append(records, inbox->record);
    pthread_mutex_unlock(&fake->lock);
    int error = 0;
    for (size_t i = 0; i < json_array_size(records) && error == 0; i++) {
        struct inbox_record record;
        _cleanup_free_ char *text = json_dumps(json_array_get(records, i), JSON_ENCODE_ANY);
        error = inbox_record_from_text(text, strlen(text), &record);
        if (error == 0) {
            error = sink(context, &record);
            inbox_record_release(&record);
        }
    }
    if (error != 0)
        outcome = (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 200, .error = -error};
    pthread_mutex_lock(&fake->lock);
    fake_end_call_locked(fake, FAKE_LIST_INBOXES, &outcome, ret);
}

static struct fake_answer *find_answer_locked(struct fake_service *fake, const struct email_query *query)
{
    struct fake_answer *answer = fake->answers;
    for (; answer != NULL; answer = answer->next) {
        bool same_inbox = query->inbox_id == NULL
                              ? answer->inbox_id == NULL
                              : answer->inbox_id != NULL && strcmp(query->inbox_id, answer->inbox_id) == 0;
        if (same_inbox && answer->limit == query->limit && answer->with_invalid == query->with_invalid)
            break;
    }
    return answer;
}

static void remember_answer_locked(struct fake_service *fake, const struct email_query *query,
                                   const json_t *records)
{
    struct fake_answer *answer = find_answer_locked(fake, query);
    if (answer == NULL) {
        answer = fake_must(calloc(1, sizeof(*answer)));
        answer->inbox_id = query->inbox_id == NULL ? NULL : fake_must(strdup(query->inbox_id));
        answer->limit = query->limit;
        answer->with_invalid = query->with_invalid;
        answer->next = fake->answers;
        fake->answers = answer;
    }
    json_decref(answer->records);
    answer->records = fake_must(json_deep_copy(records));
}

/* A record is valid if its status is missing or "valid", or if a user marked it valid. */
static bool is_valid(const json_t *record)
{
    const char *status = json_string_value(json_object_get(record, "status"));
    return status == NULL || strcmp(status, "valid") == 0 ||
           json_is_true(json_object_get(record, "user_mark_status"));
}

static bool is_asked_for(const struct fake_email *email, const struct email_query *query)
{
    const char *subject = json_string_value(json_object_get(email->record, "subject"));
    bool is_found =
        query->search_term == NULL || (subject != NULL && strcasestr(subject, query->search_term) != NULL);
    return is_found && (query->with_invalid || is_valid(email->record)) &&
           (query->inbox_id == NULL || strcmp(query->inbox_id, email->inbox_id) == 0);
}

static json_t *select_emails(const struct fake_email *first, const struct email_query *query,
                             const struct fake_outcome *outcome)
{
    json_t *records = fake_must(json_array());
    size_t most = outcome->outcome == SERVICE_OK ? query->limit : outcome->records;
    struct email_query asked = *query;
    if (outcome->ignores_term)
        asked.search_term = NULL;
    for (const struct fake_email *email = first; email != NULL && json_array_size(records) < most;
         email = email->next)
        if (is_asked_for(email, &asked))
            json_array_append(records, email->record);
    return records;
}

/* Removes the record of `outcome->unread` from the list, and counts it. */
static void remove_unread(json_t *records, struct fake_outcome *outcome, unsigned int *ret_count)
{
    for (size_t i = 0; outcome->unread != NULL && i < json_array_size(records); i++) {
        const char *id = json_string_value(json_object_get(json_array_get(records, i), "id"));
        if (id == NULL || strcmp(id, outcome->unread) != 0)
            continue;
        json_array_remove(records, i);
        outcome->error = EIO;
        outcome->detail = "a record cannot be read";
        *ret_count = 1;
    }
}

/* Passes a record to the sink. Returns the sink's error. */
static int deliver(const json_t *object, const struct email_query *query, email_sink sink, void *context)
{
    struct email_record record;
    _cleanup_free_ char *text = fake_must(json_dumps(object, JSON_COMPACT));
    int error = email_record_from_text(text, strlen(text), &record);
    if (error != 0)
        return error;
    if (record.inbox_id == NULL && query->inbox_id != NULL)
        record.inbox_id = query->inbox_id;
    error = sink(context, &record);
    email_record_release(&record);
    return error;
}

static bool is_unchanged_locked(struct fake_service *fake, const struct email_query *query,
                                const json_t *records)
{
    const struct fake_answer *answer = find_answer_locked(fake, query);
    return fake->has_etags && query->may_be_unchanged && answer != NULL &&
           json_equal(answer->records, records);
}

static void list_emails(struct mail_service *service, const struct email_query *query, email_sink sink,
                        void *context, struct cancel *cancel, unsigned int *ret_count,
                        struct service_result *ret)
{
    struct fake_service *fake = fake_of(service);
    const struct fake_record call = {
        .text = query->inbox_id, .key = query->search_term, .limit = query->limit};
    struct fake_outcome outcome = fake_begin_call(fake, FAKE_LIST_EMAILS, &call, cancel);
    *ret_count = 0;
    _cleanup_json_ json_t *records = select_emails(fake->emails, query, &outcome);
    if (outcome.outcome == SERVICE_OK && is_unchanged_locked(fake, query, records)) {
        *ret_count = (unsigned int)json_array_size(records);
        outcome.http_status = 304;
        fake_end_call_locked(fake, FAKE_LIST_EMAILS, &outcome, ret);
        return;
    }
    remove_unread(records, &outcome, ret_count);
    pthread_mutex_unlock(&fake->lock);
    int error = 0;
    for (size_t i = 0; i < json_array_size(records) && error == 0; i++, ++*ret_count)
        error = deliver(json_array_get(records, i), query, sink, context);
    if (error != 0)
        outcome = (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 200, .error = -error};
    pthread_mutex_lock(&fake->lock);
    if (outcome.outcome == SERVICE_OK && outcome.error == 0 && fake->has_etags)
        remember_answer_locked(fake, query, records);
    fake->delivered += *ret_count;
    fake_end_call_locked(fake, FAKE_LIST_EMAILS, &outcome, ret);
}

static void list_outbound(struct mail_service *service, const struct email_query *query, email_sink sink,
                          void *context, struct cancel *cancel, unsigned int *ret_count,
                          struct service_result *ret)
{
    struct fake_service *fake = fake_of(service);
    const struct fake_record call = {
        .text = query->inbox_id, .key = query->search_term, .limit = query->limit};
    struct fake_outcome outcome = fake_begin_call(fake, FAKE_LIST_OUTBOUND, &call, cancel);
    struct email_query all = *query;
    all.with_invalid = true; /* with_invalid does not apply to sent mail */
    _cleanup_json_ json_t *records = select_emails(fake->outbound, &all, &outcome);
    pthread_mutex_unlock(&fake->lock);
    int error = 0;
    for (*ret_count = 0; *ret_count < json_array_size(records) && error == 0; ++*ret_count)
        error = deliver(json_array_get(records, *ret_count), query, sink, context);
    if (error != 0)
        outcome = (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 200, .error = -error};
    pthread_mutex_lock(&fake->lock);
    fake_end_call_locked(fake, FAKE_LIST_OUTBOUND, &outcome, ret);
}

/* ---------------------------------------------------------------- changes */

static void upsert_inbox(struct mail_service *service, const char *request, int64_t timeout_ms,
                         struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    struct fake_service *fake = fake_of(service);
    const struct fake_record call = {.text = request, .timeout_ms = timeout_ms};
    struct fake_outcome outcome = fake_begin_call(fake, FAKE_UPSERT, &call, cancel);
    *ret_id = NULL;
    if (takes_effect(&outcome)) {
        json_t *record = fake_must(json_loads(request, 0, NULL));
        const char *given = json_string_value(json_object_get(record, "id"));
        _cleanup_free_ char *id =
            given != NULL ? fake_must(strdup(given)) : id_locked(fake, &outcome, "inbox");
        json_object_set_new(record, "id", json_string(id));
        fake_put_inbox_locked(fake, id, record);
        *ret_id = answered_id(&outcome, id);
    }
    fake_end_call_locked(fake, FAKE_UPSERT, &outcome, ret);
}

static void upload(struct mail_service *service, const struct upload_request *request, struct cancel *cancel,
                   char **ret_id, struct service_result *ret)
{
    struct fake_service *fake = fake_of(service);
    const struct fake_record call = {
        .text = request->name,
        .key = request->content_type,
        .bytes = request->bytes,
        .len = request->len,
    };
    struct fake_outcome outcome = fake_begin_call(fake, FAKE_UPLOAD, &call, cancel);
    _cleanup_free_ char *id = id_locked(fake, &outcome, "attachment");
    *ret_id = answered_id(&outcome, id);
    fake_end_call_locked(fake, FAKE_UPLOAD, &outcome, ret);
}

static void send_email(struct mail_service *service, const struct send_request *request,
                       struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    struct fake_service *fake = fake_of(service);
    const struct fake_record call = {
        .text = request->json, .key = request->idempotency_key, .is_repeat = request->is_repeat};
    struct fake_outcome outcome = fake_begin_call(fake, FAKE_SEND, &call, cancel);
    _cleanup_free_ char *id = id_locked(fake, &outcome, "sent");
    *ret_id = answered_id(&outcome, id);
    if (takes_effect(&outcome)) {
        fake->sent_keys = fake_must(realloc(fake->sent_keys, (fake->sent + 1) * sizeof(*fake->sent_keys)));
        fake->sent_keys[fake->sent++] = fake_must(strdup(request->idempotency_key));
    }
    fake_end_call_locked(fake, FAKE_SEND, &outcome, ret);
}

static void get_capabilities(struct mail_service *service, struct service_capabilities *ret)
{
    struct fake_service *fake = fake_of(service);
    pthread_mutex_lock(&fake->lock);
    *ret = fake->capabilities;
    pthread_mutex_unlock(&fake->lock);
}

static void get_counters(struct mail_service *service, struct service_counters *ret)
{
    struct fake_service *fake = fake_of(service);
    *ret = (struct service_counters){0};
    for (int call = 0; call < FAKE_CALL_KINDS; call++)
        ret->requests += fake_service_count(fake, (enum fake_call)call);
}

const struct mail_service_ops fake_service_ops = {
    .list_inboxes = list_inboxes,
    .list_emails = list_emails,
    .upsert_inbox = upsert_inbox,
    .upload = upload,
    .send = send_email,
    .list_outbound = list_outbound,
    .get_content = fake_get_content,
    .get_bytes = fake_get_bytes,
    .mark_email = fake_mark_email,
    .get_capabilities = get_capabilities,
    .get_counters = get_counters,
};
