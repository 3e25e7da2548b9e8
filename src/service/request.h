/* SPDX-License-Identifier: MIT */
/*
 * A request as an endpoint gets it, after server.c has checked the head and the API key, found the route, and
 * received the whole body, within the route's limit.
 */
#ifndef INBOXFS_SERVICE_REQUEST_H
#define INBOXFS_SERVICE_REQUEST_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "mail/mime.h"
#include "service/reply.h"
#include "service/tables.h"

enum {
    REQUEST_PARAMETERS_MAX = 2,
    REQUEST_PARAMETER_SIZE = 64, /* an id has 36 characters */
};

/* The state of the service that all requests share. */
struct service_context {
    struct database *database;
    int pool_fd;        /* directory with a file for each attachment of the pool, named by its id */
    const char *domain; /* these three: see struct service_config */
    const char *const *hosts;
    int64_t daily_limit;
    bool has_relay; /* mail to other domains goes to a relay */
};

/* The emails that a request is about. */
enum email_side {
    SIDE_RECEIVED,
    SIDE_SENT,
};

struct request {
    struct MHD_Connection *connection;
    const struct service_context *context;
    struct connection *reader; /* of a GET, in a read transaction, until the endpoint returns; an endpoint
                                  that takes it sets NULL */
    enum email_side side;
    char parameters[REQUEST_PARAMETERS_MAX]
                   [REQUEST_PARAMETER_SIZE]; /* the segment of the path for each "*" in the route */
    struct strbuf body;
};

/* Returns the value of a header, or NULL. */
const char *request_header(const struct request *request, const char *name);

/* Reads the body as a JSON object, which the caller owns. Returns NULL after a reply of 422. */
json_t *request_read_object(const struct request *request, struct reply *reply);

/* A file in a multipart/form-data body (RFC 7578). */
struct multipart_file {
    char *name; /* valid by file_name_is_valid(), without the client's path; the caller frees the name */
    char content_type[MIME_TYPE_SIZE]; /* "application/octet-stream" if it is missing or malformed */
    const char *bytes;                 /* borrowed from the body */
    size_t len;
};

/* Finds the first part named `field` that has a file name. `content_type` is the request's header. Return: 0;
 * -EBADMSG if the body is no complete form; -ENOENT if it has no such part; -EINVAL if the file name is not
 * valid. */
int multipart_find_file(const char *content_type, const char *body, size_t len, const char *field,
                        struct multipart_file *ret_file);

#endif
