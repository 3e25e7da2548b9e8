/* SPDX-License-Identifier: MIT */
/*
 * Turns the outcome of a request to the service into an errno and words for the store's callers.
 */
#ifndef INBOXFS_STORE_RESULT_ERRNO_H
#define INBOXFS_STORE_RESULT_ERRNO_H

#include <stdbool.h>

#include "mail/mail_service.h"

/* Each passes on -EMFILE and -ENFILE: this program has no descriptor for a connection. */

/* For a listing: 0, -EINTR, -EAGAIN, -EACCES, -EHOSTUNREACH, or -EIO: an answer that cannot be used. */
int result_errno_of_listing(const struct service_result *result);

/* For a change to an inbox: 0, -EINTR, -EAGAIN, -EACCES, -EHOSTUNREACH (also: something else answered),
 * -EEXIST, -EINVAL. */
int result_errno_of_change(const struct service_result *result);

/* For content: 0, -EINTR, -EAGAIN, -EACCES, -EHOSTUNREACH, -ETIMEDOUT, -EFBIG; -ENOENT: no such email or
 * attachment, or a service without them; what writing it down said; -EIO: an answer that cannot be used. */
int result_errno_of_content(const struct service_result *result);

/* Returns true if the service itself answered, works, and takes the key. */
bool result_is_answer(const struct service_result *result);

/* Returns true if the service asked for fewer requests: it can be reached, and has too much to do. */
bool result_is_busy(const struct service_result *result);

/* Never NULL. */
const char *result_words(const struct service_result *result);

#endif
