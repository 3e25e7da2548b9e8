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

static int errno_of_retry(const struct service_result *result)
{
    switch (result->error) {
    case EINTR:
    case EAGAIN:
    case EDQUOT: /* the store's bound for the account */
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
    switch (result->outcome) {
    case SERVICE_OK:
        return -result->error;
    case SERVICE_RETRY:
        return result->error == EIO ? -EIO : errno_of_retry(result);
    case SERVICE_UNAUTHORIZED:
        return -EACCES;
    case SERVICE_UNKNOWN:
        return result->error == EIO && result->http_status < 300 ? -EIO : -EHOSTUNREACH;
    case SERVICE_REJECTED:
    case SERVICE_ABSENT:
        break;
    }
    return -EIO;
}

int result_errno_of_change(const struct service_result *result)
{
    switch (result->outcome) {
    case SERVICE_OK:
        return 0;
    case SERVICE_RETRY:
        return errno_of_retry(result);
    case SERVICE_UNAUTHORIZED:
        return -EACCES;
    case SERVICE_UNKNOWN:
        return -EHOSTUNREACH;
    case SERVICE_REJECTED:
        if (result->is_foreign)
            return -EHOSTUNREACH;
        return result->error == EEXIST ? -EEXIST : -EINVAL;
    case SERVICE_ABSENT:
        break;
    }
    return -EINVAL;
}

int result_errno_of_content(const struct service_result *result)
{
    switch (result->outcome) {
    case SERVICE_OK:
        return 0;
    case SERVICE_RETRY:
        return -result->error;
    case SERVICE_UNAUTHORIZED:
        return -EACCES;
    case SERVICE_UNKNOWN:
        return -EIO;
    case SERVICE_REJECTED:
        return result->error == ENOENT || result->error == EFBIG ? -result->error : -EIO;
    case SERVICE_ABSENT:
        break;
    }
    return -ENOENT;
}

bool result_is_answer(const struct service_result *result)
{
    if (result->is_foreign)
        return false;
    switch (result->outcome) {
    case SERVICE_OK:
    case SERVICE_REJECTED:
    case SERVICE_ABSENT:
        return true;
    case SERVICE_RETRY:
        return result->http_status == TOO_MANY_REQUESTS ||
               (result->http_status >= 200 && result->http_status < 300);
    case SERVICE_UNAUTHORIZED:
    case SERVICE_UNKNOWN:
        break;
    }
    return false;
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
