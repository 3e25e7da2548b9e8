/* SPDX-License-Identifier: MIT */
/*
 * The table.
 */
#include "api/outcome.h"

#include <errno.h>

#include "base/cleanup.h"

/* The first row that fits counts. */
static const struct {
    int first;
    int last;
    enum service_outcome outcome;
    int error;
} by_status[] = {
    {200, 299, SERVICE_OK, 0},
    {300, 399, SERVICE_REJECTED, EIO}, /* redirects are not followed */
    {401, 401, SERVICE_UNAUTHORIZED, EACCES},
    {403, 403, SERVICE_UNAUTHORIZED, EACCES},
    {408, 408, SERVICE_UNKNOWN, ETIMEDOUT},
    {409, 409, SERVICE_REJECTED, EEXIST},
    {413, 413, SERVICE_REJECTED, EFBIG},
    {429, 429, SERVICE_RETRY, EAGAIN},
    {400, 499, SERVICE_REJECTED, EINVAL},
    {503, 503, SERVICE_RETRY, EAGAIN},
    {504, 504, SERVICE_UNKNOWN, ETIMEDOUT},
    {500, 599, SERVICE_UNKNOWN, EIO},
};

static void decide_by_status(int status, struct service_result *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(by_status); i++) {
        if (status >= by_status[i].first && status <= by_status[i].last) {
            ret->outcome = by_status[i].outcome;
            ret->error = by_status[i].error;
            return;
        }
    }
    ret->outcome = SERVICE_UNKNOWN; /* 600 and up: HTTP knows no such thing */
    ret->error = EIO;
}

static int error_without_answer(int error)
{
    switch (error) {
    case -ECANCELED:
        return EINTR;
    case -EHOSTUNREACH:
    case -ETIMEDOUT:
    case -ENOMEM:
        return -error;
    case -ECONNRESET:
        return EHOSTUNREACH;
    default:
        return EIO;
    }
}

void outcome_decide(const struct http_response *response, bool is_safe, struct service_result *ret)
{
    *ret =
        (struct service_result){.http_status = response->status, .retry_after_ms = response->retry_after_ms};
    /* A refusal is one even when the rest of its words got lost on the way. A success is one only whole. */
    if (response->error == 0 || response->status >= 300) {
        decide_by_status(response->status, ret);
    } else {
        ret->outcome = response->is_written ? SERVICE_UNKNOWN : SERVICE_RETRY;
        ret->error = error_without_answer(response->error);
    }
    if (is_safe && ret->outcome == SERVICE_UNKNOWN)
        ret->outcome = SERVICE_RETRY;
}
