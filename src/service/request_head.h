/* SPDX-License-Identifier: MIT */
/*
 * Whether a request's header can be believed at all, before the key in it is looked at: it says in one way
 * alone where the request ends, and it was meant for this service.
 */
#ifndef INBOXFS_SERVICE_REQUEST_HEAD_H
#define INBOXFS_SERVICE_REQUEST_HEAD_H

#include <stdbool.h>

#include "service/request.h"

/* Sets the reply (400, 421) where it cannot. `version`: "HTTP/1.1". False: nobody can tell where the next
 * request begins, so that the connection is to end with this one. */
bool request_head_check(const struct request *request, const char *version, struct reply *reply);

/* Whether the body comes in an encoding that has no end. */
bool request_head_is_endless(const struct request *request);

#endif
