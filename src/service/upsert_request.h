/* SPDX-License-Identifier: MIT */
/*
 * A request to create or update an inbox (interface, POST /api/v1/inbox/upsert), read and checked.
 */
#ifndef INBOXFS_SERVICE_UPSERT_REQUEST_H
#define INBOXFS_SERVICE_UPSERT_REQUEST_H

#include <jansson.h>

#include "service/validate.h"

struct upsert_request {
    const char *id;   /* borrowed from the body; NULL: to be created */
    json_t *settings; /* every settable field of the published record, defaults filled in; owned */
};

/* `body` is borrowed for as long as the request lives. What is wrong is added to `validation`, and then the
 * request is not to be used but for its release. 0 or -ENOMEM. */
int upsert_request_read(json_t *body, struct validation *validation, struct upsert_request *ret_request);
void upsert_request_release(struct upsert_request *request);

#endif
