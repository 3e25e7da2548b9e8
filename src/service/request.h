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

/* The one account of the service, on which the endpoints work. */
struct service_context {
    struct database *database;
    int pool_fd;        /* directory with a file for each attachment of the pool, its id as name */
    const char *domain; /* of all inboxes */
    /* Further names that clients may call the service by, NULL at the end; or NULL. */
    const char *const *hosts;
    enum service_tier tier; /* the daily limit */
    bool has_relay;         /* for mail to other domains */
};

/* The emails that a request is about. */
enum email_side {
    SIDE_RECEIVED,
    SIDE_SENT,
};

struct request {
    struct MHD_Connection *connection;
    const struct service_context *context;
    enum email_side side;
    char parameters[REQUEST_PARAMETERS_MAX][REQUEST_PARAMETER_SIZE]; /* the ids in the path */
    struct strbuf body;
};

/* Returns the value of a header, or NULL. */
const char *request_header(const struct request *request, const char *name);

/* Reads the body as a JSON object, which the caller owns. Returns NULL if it is none, and has replied then.
 */
json_t *request_read_object(const struct request *request, struct reply *reply);

/* A file in a multipart/form-data body (RFC 7578), which may hold anything. */
struct multipart_file {
    char *name;         /* the file's, UTF-8, valid by file_name_is_valid(); a path before it is cut off */
    char *content_type; /* "type/subtype"; "application/octet-stream" if the part has none or a bad one */
    const char *bytes;  /* within the body */
    size_t len;
};

/* Finds the first part named `field` that has a file name. `content_type` is the request's header. Return: 0;
 * -EBADMSG if the body is no such form, or is cut short; -ENOENT if it has no such part; -EINVAL if the file
 * name cannot be used; -ENOMEM. */
int multipart_find_file(const char *content_type, const char *body, size_t len, const char *field,
                        struct multipart_file *ret_file);
void multipart_file_release(struct multipart_file *file);

#endif
