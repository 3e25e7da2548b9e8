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
static bool is_key_refused(struct outbox *outbox, struct cancel *cancel)
{
    struct mail_service *service = outbox->config.service;
    struct email_query query = {.inbox_id = NULL, .limit = 1};
    struct service_result result = {.retry_after_ms = -1};
    unsigned int count = 0;
    service->ops->list_emails(service, &query, ignore_email, NULL, cancel, &count, &result);
    bool is_refused = result.outcome != SERVICE_OK;
    service_result_release(&result);
    return is_refused;
}

static enum attempt_meaning find_meaning(struct outbox *outbox, const struct service_result *result,
                                         struct cancel *cancel)
{
    switch (result->outcome) {
    case SERVICE_OK:
        return ATTEMPT_TAKEN;
    case SERVICE_REJECTED:
    case SERVICE_ABSENT:
        return ATTEMPT_REFUSED;
    case SERVICE_UNAUTHORIZED:
        return result->http_status == 403 && !is_key_refused(outbox, cancel) ? ATTEMPT_REFUSED : ATTEMPT_OPEN;
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

enum attempt_meaning attempt_report(struct outbox *outbox, struct item *item,
                                    const struct service_result *result, struct cancel *cancel)
{
    enum attempt_meaning meaning = find_meaning(outbox, result, cancel);
    enum gate_reason reason = find_reason(result, meaning);
    pthread_mutex_lock(&outbox->lock);
    item->claim = CLAIM_DISK;
    if (result->error == EINTR)
        ; /* cancelled by us: says nothing about the service */
    else if (reason == GATE_OPEN)
        gate_open(&outbox->gate);
    else
        gate_close(&outbox->gate, reason, core_monotonic_ms(outbox), result->retry_after_ms, result->detail);
    core_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
    return meaning;
}

int64_t attempt_delay_ms(const struct service_result *result)
{
    if (result->outcome == SERVICE_UNAUTHORIZED)
        return 0;
    if (result->outcome == SERVICE_RETRY && result->http_status == 0)
        return 0;
    if (result->retry_after_ms > RETRY_AFTER_MAX_MS)
        return RETRY_AFTER_MAX_MS;
    return result->retry_after_ms > 0 ? result->retry_after_ms : -1;
}
