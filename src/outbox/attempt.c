/* SPDX-License-Identifier: MIT */
/*
 * Answers and the gate.
 */
#include "outbox/attempt.h"

#include <errno.h>

#include "outbox/core.h"

enum {
    RETRY_AFTER_MAX_MS = 24 * 3600 * 1000
};

void attempt_report(struct outbox *outbox, const struct service_result *result)
{
    int64_t now = core_monotonic_ms(outbox);
    if (result->error == EINTR)
        return; /* cancelled by us: says nothing about the service */
    pthread_mutex_lock(&outbox->lock);
    struct gate *gate = &outbox->gate;
    if (result->outcome == SERVICE_UNAUTHORIZED)
        gate_close(gate, GATE_UNAUTHORIZED, now, result->retry_after_ms, result->detail);
    else if (result->outcome == SERVICE_RETRY && result->http_status != 0)
        gate_close(gate, GATE_BUSY, now, result->retry_after_ms, result->detail);
    else if (result->http_status == 0 && result->outcome != SERVICE_OK)
        gate_close(gate, GATE_UNREACHABLE, now, result->retry_after_ms, result->detail);
    else
        gate_open(gate);
    core_broadcast_locked(outbox);
    pthread_mutex_unlock(&outbox->lock);
}

static int ignore_email(void *context, struct email_record *record)
{
    (void)context;
    (void)record;
    return 0;
}

bool attempt_is_key_refused(struct outbox *outbox, struct cancel *cancel)
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
