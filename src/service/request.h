/* SPDX-License-Identifier: MIT */
/*
 * A request as an endpoint sees it, once all of it has arrived.
 */
#ifndef INBOXFS_SERVICE_REQUEST_H
#define INBOXFS_SERVICE_REQUEST_H

#include <jansson.h>
#include <microhttpd.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "service/account.h"
#include "service/reply.h"

enum {
    REQUEST_PARAMETERS_MAX = 2,
};

struct request {
    struct MHD_Connection *connection;
    const struct account *account;
    char *target;                                   /* path and query as they came */
    char *path;                                     /* the copy that `parameters` point into */
    const char *parameters[REQUEST_PARAMETERS_MAX]; /* what stands in the path for ids, decoded */
    struct strbuf body;
    int body_fd; /* where a form's body is kept instead; -1: nowhere */
    size_t body_len;
};

/* A header's value, or NULL. */
const char *request_header(const struct request *request, const char *name);

/* The body's JSON object. NULL: it is none, and the reply says so. The caller owns it. */
json_t *request_read_object(const struct request *request, struct reply *reply);

/* Answers 304 and true when the client has the state that `etag` names. */
bool request_is_unchanged(const struct request *request, const char *etag, struct reply *reply);

/* Names what this request's answer shows, by the number that counts the changes of it. 0 or -errno. */
int request_make_etag(const struct request *request, sqlite3 *db, int64_t changes,
                      char ret_etag[REPLY_ETAG_SIZE]);

#endif
