/* SPDX-License-Identifier: MIT */
/*
 * Evidence of absence.
 */
#include "api/list_absence.h"

#include <errno.h>

#include "base/cleanup.h"

enum {
    PROBE_TIMEOUT_MS = 20 * 1000
};

static int stop_at_once(void *context, const char *text, size_t len)
{
    (void)context, (void)text, (void)len;
    return -ECANCELED;
}

/* Whether the key is good, asked of an endpoint that every server has. A server that does not know `limit` is
 * hung up on after the first record. */
static bool is_key_accepted(struct api_service *api, struct cancel *cancel, struct service_result *ret)
{
    _cleanup_(list_reader_release) struct list_reader reader;
    list_reader_init(&reader, EMAIL_RECORD_MAX_BYTES, 1, stop_at_once, NULL);
    const struct list_call call = {
        .target = API_PREFIX "/email?limit=1",
        .timeout_ms = PROBE_TIMEOUT_MS,
        .reader = &reader,
        .cancel = cancel,
    };
    struct list_answer answer;
    service_result_release(ret);
    list_call(api, &call, &answer, ret);
    if (ret->outcome != SERVICE_OK && !answer.is_stopped)
        return false;
    capability_memory_note_authenticated(&api->memory);
    return true;
}

static bool looks_absent(struct api_service *api, enum optional_endpoint endpoint,
                         const struct service_result *result, bool is_no_list)
{
    int status = result->http_status;
    if (status == 404 || status == 405 || status == 501)
        return true;
    /* A page where a list was a minute ago is a fault, not an absence. */
    return is_no_list && capability_memory_find(&api->memory, endpoint) != CAPABILITY_PRESENT;
}

static void set_absent(struct service_result *ret, enum optional_endpoint endpoint, int status)
{
    api_result_set(ret, SERVICE_ABSENT, ENOSYS,
                   endpoint == ENDPOINT_INBOX_LIST ? "the service has no list of inboxes"
                                                   : "the service has no list of sent mail");
    ret->http_status = status;
}

bool list_absence_skips(struct api_service *api, enum optional_endpoint endpoint, struct service_result *ret)
{
    *ret = (struct service_result){.retry_after_ms = -1};
    if (!capability_memory_skips(&api->memory, endpoint))
        return false;
    set_absent(ret, endpoint, 0);
    return true;
}

void list_absence_judge(struct api_service *api, enum optional_endpoint endpoint,
                        const struct list_answer *answer, struct cancel *cancel, struct service_result *ret)
{
    if (ret->outcome == SERVICE_OK)
        capability_memory_note(&api->memory, endpoint, true);
    if (ret->outcome == SERVICE_OK || !looks_absent(api, endpoint, ret, answer->is_no_list))
        return;
    int status = ret->http_status;
    if (!capability_memory_is_authenticated(&api->memory) && !is_key_accepted(api, cancel, ret))
        return;
    capability_memory_note(&api->memory, endpoint, false);
    set_absent(ret, endpoint, status);
}
