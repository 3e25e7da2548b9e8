/* SPDX-License-Identifier: MIT */
/*
 * Which endpoint a method and path mean: one table.
 */
#ifndef INBOXFS_SERVICE_ROUTER_H
#define INBOXFS_SERVICE_ROUTER_H

#include <stdbool.h>
#include <stddef.h>

#include "service/endpoints.h"

enum route_body {
    ROUTE_NO_BODY,   /* one that comes is thrown away */
    ROUTE_JSON_BODY, /* application/json, collected in memory */
    ROUTE_FORM_BODY, /* multipart/form-data, collected in a file */
};

struct route {
    const char *method;
    const char *pattern; /* "*" stands for a segment that is a parameter */
    int (*answer)(struct request *request, struct reply *reply);
    enum route_body body;
    size_t body_max_bytes;
};

/* Finds the route of a request by its target and fills in its path and parameters. NULL: the reply says why
 * (400, 404, 405). */
const struct route *router_find(struct request *request, const char *method, struct reply *reply);

#endif
