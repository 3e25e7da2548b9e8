/* SPDX-License-Identifier: MIT */
/*
 * The service's address as a user may write it, and the one form of it that names the service: scheme and
 * host in lower case, default port left out, no slash at the end, no /api/v1. The account's state is kept
 * under that form.
 */
#ifndef INBOXFS_API_BASE_URL_H
#define INBOXFS_API_BASE_URL_H

#include <stdbool.h>

/* Checks whether the URL can be used, and in which form. 0; -EINVAL (not http or https, credentials or a
 * query in it); -EACCES (plain HTTP to a host that is not loopback, without `allow_http`); -ENOMEM.
 * *ret_base: the one form (caller frees). *ret_reason on failure: words (caller frees). */
int base_url_check(const char *url, bool allow_http, char **ret_base, char **ret_reason);

#endif
