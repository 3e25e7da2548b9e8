/* SPDX-License-Identifier: MIT */
/*
 * A request as an endpoint sees it: its head was checked, its key is in force, its route was found, and its
 * body has arrived in full, within the route's limit.
 */
#ifndef INBOXFS_SERVICE_REQUEST_H
#define INBOXFS_SERVICE_REQUEST_H

#include <jansson.h>
#include <microhttpd.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "service/reply.h"
#include "service/service.h"
#include "service/tables.h"

enum {
    REQUEST_PARAMETERS_MAX = 2,
    REQUEST_PARAMETER_SIZE = 64, /* an id has 36 characters */
};

/* The one account of the service: what the endpoints work on. */
struct service_context {
    struct database *database;
    int pool_fd;        /* directory with a file for each attachment of the pool, its id as name */
    const char *domain; /* of all inboxes */
    /* Further names that clients may call the service by, NULL at the end; or NULL. */
    const char *const *hosts;
    enum service_tier tier; /* decides how many emails a day */
    bool has_relay;         /* for mail to other domains */
};

/* Which emails a request is about. */
enum email_side {
    SIDE_RECEIVED,
    SIDE_SENT,
};

struct request {
    struct MHD_Connection *connection;
    const struct service_context *context;
    enum email_side side;
    char parameters[REQUEST_PARAMETERS_MAX][REQUEST_PARAMETER_SIZE]; /* what stands in the path for ids */
    struct strbuf body;
};

/* A header's value, or NULL. */
const char *request_header(const struct request *request, const char *name);

/* The body's JSON object. NULL: it is none, and the reply says so. The caller owns it. */
json_t *request_read_object(const struct request *request, struct reply *reply);

/* The file in a multipart/form-data body (RFC 7578). The body is a stranger's: it is read within its bounds,
 * and not changed. */
struct multipart_file {
    char *name;         /* the file's, UTF-8, valid by file_name_is_valid(); a path before it is cut off */
    char *content_type; /* "type/subtype", "application/octet-stream" where none or a bad one is given */
    const char *bytes;  /* within the body */
    size_t len;
};

/* The first part named `field` that carries a file name. `content_type` is the request's header. 0, -EBADMSG
 * (the body is no such form, or cut short), -ENOENT (no such part), -EINVAL (its file name is not usable),
 * -ENOMEM. */
int multipart_find_file(const char *content_type, const char *body, size_t len, const char *field,
                        struct multipart_file *ret_file);
void multipart_file_release(struct multipart_file *file);

#endif
