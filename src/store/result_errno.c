/* SPDX-License-Identifier: MIT */
/*
 * The errno of an outcome depends on the kind of the request: a list, a change, or content.
 */
#include "store/result_errno.h"

#include <errno.h>

enum {
    TOO_MANY_REQUESTS = 429,
    UNAVAILABLE = 503,
};

/* Returns the errno of a request that the service did not answer, or could not answer now. */
static int errno_without_answer(const struct service_result *result)
{
    if (result->outcome == SERVICE_UNAUTHORIZED)
        return -EACCES;
    if (result->outcome != SERVICE_RETRY)
        return -EHOSTUNREACH;
    switch (result->error) {
    case EINTR:
    case EAGAIN:
    case EDQUOT: /* the account exceeds the store's limit */
    case ENOSPC: /* the disk of the cache is full */
    case EROFS:
    case EFBIG:
    case EMFILE:
    case ENFILE:
        return -result->error;
    default:
        return -EHOSTUNREACH;
    }
}

int result_errno_of_listing(const struct service_result *result)
{
    if (result->outcome == SERVICE_OK)
        return -result->error;
    bool is_refused = result->outcome == SERVICE_REJECTED || result->outcome == SERVICE_ABSENT;
    bool is_unusable =
        result->error == EIO && (result->outcome == SERVICE_RETRY || result->http_status < 300);
    return is_refused || is_unusable ? -EIO : errno_without_answer(result);
}

int result_errno_of_change(const struct service_result *result)
{
    if (result->outcome == SERVICE_OK)
        return 0;
    bool is_refused =
        result->outcome == SERVICE_ABSENT || (result->outcome == SERVICE_REJECTED && !result->is_foreign);
    if (is_refused)
        return result->error == EEXIST ? -EEXIST : -EINVAL;
    return errno_without_answer(result);
}

int result_errno_of_content(const struct service_result *result)
{
    bool has_none = result->error == ENOENT || result->error == EFBIG;
    switch (result->outcome) {
    case SERVICE_OK:
        return 0;
    case SERVICE_RETRY:
        return -result->error;
    case SERVICE_UNAUTHORIZED:
        return -EACCES;
    case SERVICE_ABSENT:
        return -ENOENT;
    default:
        return result->outcome == SERVICE_REJECTED && has_none ? -result->error : -EIO;
    }
}

bool result_is_answer(const struct service_result *result)
{
    bool is_success = result->http_status >= 200 && result->http_status < 300;
    if (result->is_foreign)
        return false;
    if (result->outcome == SERVICE_RETRY)
        return is_success || result->http_status == TOO_MANY_REQUESTS;
    return result->outcome != SERVICE_UNAUTHORIZED && result->outcome != SERVICE_UNKNOWN;
}

bool result_is_busy(const struct service_result *result)
{
    return result->outcome == SERVICE_RETRY &&
           (result->http_status == TOO_MANY_REQUESTS || result->http_status == UNAVAILABLE);
}

const char *result_reason(const struct service_result *result)
{
    return result->detail != NULL ? result->detail : "the service cannot be reached";
}
