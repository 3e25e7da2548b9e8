/* SPDX-License-Identifier: MIT */
/*
 * The base URL of the service. A user may write it in several forms; the normal form has its scheme and host
 * in lower case, and no default port, final slash or /api/v1. The state directory of an account is named
 * after the normal form.
 */
#ifndef INBOXFS_API_BASE_URL_H
#define INBOXFS_API_BASE_URL_H

#include <stdbool.h>

/* Sets *ret_base to the normal form of the URL, or *ret_reason to a sentence; the caller frees both. Return:
 * 0; -EINVAL if the URL is not http(s), has credentials or a query, or is malformed; -EACCES if it is plain
 * HTTP to a host other than loopback, and `allow_http` is false. */
int base_url_check(const char *url, bool allow_http, char **ret_base, char **ret_reason);

#endif
