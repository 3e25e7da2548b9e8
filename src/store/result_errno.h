/* SPDX-License-Identifier: MIT */
/*
 * Turn the outcome of a request to the service into an errno and a reason for the store's callers. The three
 * result_errno_ functions return 0 on success; -EINTR when the request was cancelled; -EAGAIN when the
 * service is busy (429, 503); -EACCES when the service refuses the key; -EHOSTUNREACH when the service cannot
 * be reached; -EMFILE or -ENFILE when no descriptor was left for a connection.
 */
#ifndef INBOXFS_STORE_RESULT_ERRNO_H
#define INBOXFS_STORE_RESULT_ERRNO_H

#include <stdbool.h>

#include "mail/mail_service.h"

/* For a listing. Return: also -EIO when the answer cannot be used; -EDQUOT when the account exceeds the
 * store's bounds; -ENOSPC or -EROFS when the cache does not take the emails; -EFBIG. */
int result_errno_of_listing(const struct service_result *result);

/* For a change to an inbox. Return: also -EEXIST when the inbox exists; -EINVAL when the service refused the
 * change; -EHOSTUNREACH also when something else answered in the service's place. */
int result_errno_of_change(const struct service_result *result);

/* For content. Return: also -ETIMEDOUT; -EFBIG when the content is too long; -ENOENT when the service has no
 * such email or attachment, or no content; the error of a write to the cache; -EIO when the answer cannot be
 * used. */
int result_errno_of_content(const struct service_result *result);

/* Returns true if the service itself answered, works, and takes the key. */
bool result_is_answer(const struct service_result *result);

/* Returns true if the service asked for fewer requests (429, 503). */
bool result_is_busy(const struct service_result *result);

/* Returns the reason, never NULL. Borrowed from `result`. */
const char *result_reason(const struct service_result *result);

#endif
