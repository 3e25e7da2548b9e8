/* SPDX-License-Identifier: MIT */
/*
 * Answers and the gate.
 */
#include "outbox/attempt.h"

#include <errno.h>
#include <stdbool.h>

#include "outbox/core.h"

enum {
    RETRY_AFTER_MAX_MS = 24 * 3600 * 1000
};

static int ignore_email(void *context, struct email_record *record)
{
    (void)context;
    (void)record;
    return 0;
}

/* True also when that cannot be found out: better to wait than to give up. */
static bool is_key_refused(struct outbox *outbox, struct item *item, struct cancel *cancel)
{
    struct mail_service *service = outbox->config.service;
    struct email_query query = {.inbox_id = NULL, .limit = 1};
    struct service_result result = {.retry_after_ms = -1};
    unsigned int count = 0;
    core_lend(outbox, item);
    service->ops->list_emails(service, &query, ignore_email, NULL, cancel, &count, &result);
    core_take_back(outbox, item);
    bool is_refused = result.outcome != SERVICE_OK;
    service_result_release(&result);
    return is_refused;
}

static enum attempt_meaning find_meaning(struct outbox *outbox, struct item *item,
                                         const struct service_result *result, struct cancel *cancel)
{
    switch (result->outcome) {
    case SERVICE_OK:
        return ATTEMPT_TAKEN;
    case SERVICE_REJECTED:
    case SERVICE_ABSENT:
        return ATTEMPT_REFUSED;
    case SERVICE_UNAUTHORIZED:
        return result->http_status == 403 && !is_key_refused(outbox, item, cancel) ? ATTEMPT_REFUSED
                                                                                   : ATTEMPT_OPEN;
    default:
        return ATTEMPT_OPEN;
    }
}

/* GATE_OPEN where the service answered, whatever it said of this one. */
static enum gate_reason find_reason(const struct service_result *result, enum attempt_meaning meaning)
{
    if (meaning != ATTEMPT_OPEN)
        return GATE_OPEN;
    if (result->outcome == SERVICE_UNAUTHORIZED)
        return GATE_UNAUTHORIZED;
    if (result->http_status == 0)
        return GATE_UNREACHABLE;
    return result->outcome == SERVICE_RETRY ? GATE_BUSY : GATE_OPEN;
}

static void put_off_locked(struct outbox *outbox, struct item *item, int64_t delay_ms)
{
    int64_t own = backoff_next_ms(&item->backoff);
    int64_t delay = delay_ms < own ? own : delay_ms < RETRY_AFTER_MAX_MS ? delay_ms : RETRY_AFTER_MAX_MS;
    item->next_attempt_ms = item->is_woken ? 0 : core_monotonic_ms(outbox) + delay;
}

void attempt_put_off(struct outbox *outbox, struct item *item, int64_t delay_ms)
{
    pthread_mutex_lock(&outbox->lock);
    put_off_locked(outbox, item, delay_ms);
    pthread_mutex_unlock(&outbox->lock);
}

/* While the service does not answer at all, or refuses the key, waiting is the gate's affair alone. */
static void note_answer_locked(struct outbox *outbox, struct item *item, const struct service_result *result,
                               enum attempt_meaning meaning)
{
    struct gate *gate = &outbox->gates[item->envelope.kind];
    enum gate_reason reason = find_reason(result, meaning);
    bool was_closed = gate->reason != GATE_OPEN;
    if (reason == GATE_OPEN)
        gate_open(gate);
    else
        gate_close(gate, reason, core_monotonic_ms(outbox), result->retry_after_ms, result->detail);
    if (item->is_woken)
        gate_wake(gate);
    if (was_closed)
        core_wake_workers_locked(outbox, item->envelope.kind);
    if (reason == GATE_BUSY)
        put_off_locked(outbox, item, result->retry_after_ms);
}

/* That it is busy says neither. */
static void tell_contact(const struct outbox *outbox, const struct service_result *result,
                         enum attempt_meaning meaning)
{
    const struct contact_listener *listener = &outbox->config.contact;
    enum gate_reason reason = find_reason(result, meaning);
    if (listener->asked != NULL && reason != GATE_BUSY)
        listener->asked(listener->context, reason == GATE_OPEN);
}

enum attempt_meaning attempt_report(struct outbox *outbox, struct item *item,
                                    const struct service_result *result, struct cancel *cancel)
{
    enum attempt_meaning meaning = find_meaning(outbox, item, result, cancel);
    bool is_cancelled = result->error == EINTR; /* by us: says nothing about the service */
    pthread_mutex_lock(&outbox->lock);
    item->claim = CLAIM_DISK;
    if (!is_cancelled)
        note_answer_locked(outbox, item, result, meaning);
    core_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
    if (!is_cancelled)
        tell_contact(outbox, result, meaning);
    return meaning;
}
