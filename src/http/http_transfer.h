/* SPDX-License-Identifier: MIT */
/*
 * One request on one libcurl handle: its options, its callbacks, the loop that drives it to its end.
 */
#ifndef INBOXFS_HTTP_HTTP_TRANSFER_H
#define INBOXFS_HTTP_HTTP_TRANSFER_H

#include <curl/curl.h>

#include "http/http_head.h"

/* `multi` holds the connection that is kept; `easy` is reset. Neither is in use elsewhere. */
void http_transfer_run(CURLM *multi, CURL *easy, const struct http_target *target,
                       const struct http_request *request, struct http_response *ret);

#endif
