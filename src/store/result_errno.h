/* SPDX-License-Identifier: MIT */
/*
 * What a service's outcome means to a caller in the store: an errno and words.
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

/* Whether it came to an answer of the service's own that shows that it works, and takes the key. */
bool result_is_answer(const struct service_result *result);

/* Whether the service asked to be left alone for a while: it is there, and has too much to do. */
bool result_is_busy(const struct service_result *result);

/* Never NULL. */
const char *result_words(const struct service_result *result);

#endif
