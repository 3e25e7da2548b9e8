/* SPDX-License-Identifier: MIT */
/*
 * The routes. The path is split before it is decoded, so that a "/" inside an id does not split it.
 */
#include "service/router.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

enum {
    SEGMENTS_MAX = 8,
    SMALL_BODY_MAX_BYTES = 1024 * 1024,
    SEND_BODY_MAX_BYTES = 20 * 1000 * 1000,
    FORM_BODY_MAX_BYTES = 10 * 1000 * 1000 + 64 * 1024, /* a file, and the form around it */
};

/* A fixed segment stands before a parameter in the same place. */
static const struct route routes[] = {
    {"GET", "api/v1/inbox", endpoint_inbox_list, ROUTE_NO_BODY, 0},
    {"POST", "api/v1/inbox/upsert", endpoint_inbox_upsert, ROUTE_JSON_BODY, SMALL_BODY_MAX_BYTES},
    {"GET", "api/v1/email", endpoint_email_list, ROUTE_NO_BODY, 0},
    {"POST", "api/v1/email/add-attachment-to-pool", endpoint_pool_add, ROUTE_FORM_BODY, FORM_BODY_MAX_BYTES},
    {"POST", "api/v1/email/send", endpoint_send, ROUTE_JSON_BODY, SEND_BODY_MAX_BYTES},
    {"GET", "api/v1/email/outbound", endpoint_outbound_list, ROUTE_NO_BODY, 0},
    {"GET", "api/v1/email/outbound/*", endpoint_outbound_content, ROUTE_NO_BODY, 0},
    {"GET", "api/v1/email/outbound/*/attachment/*", endpoint_outbound_attachment, ROUTE_NO_BODY, 0},
    {"GET", "api/v1/email/*", endpoint_email_content, ROUTE_NO_BODY, 0},
    {"GET", "api/v1/email/*/raw", endpoint_email_raw, ROUTE_NO_BODY, 0},
    {"GET", "api/v1/email/*/attachment/*", endpoint_email_attachment, ROUTE_NO_BODY, 0},
    {"POST", "api/v1/email/*/mark/*", endpoint_email_mark, ROUTE_NO_BODY, 0},
};

/* Splits in place; the number of segments, or SIZE_MAX: too many to be any route's. */
static size_t split(char *path, char *segments[SEGMENTS_MAX])
{
    size_t count = 0;
    char *rest = path;
    while (*rest == '/')
        rest++;
    while (rest != NULL && *rest != '\0') {
        if (count == SEGMENTS_MAX)
            return SIZE_MAX;
        segments[count++] = strsep(&rest, "/");
    }
    for (size_t i = 0; i < count; i++)
        MHD_http_unescape(segments[i]);
    return count;
}

static bool matches(const char *pattern, char *const *segments, size_t count, struct request *request)
{
    size_t parameters = 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(pattern, "/");
        bool is_parameter = len == 1 && pattern[0] == '*';
        if (len == 0)
            return false;
        if (is_parameter)
            request->parameters[parameters++] = segments[i];
        else if (strlen(segments[i]) != len || memcmp(segments[i], pattern, len) != 0)
            return false;
        pattern += len + (pattern[len] == '/');
    }
    return *pattern == '\0';
}

/* A path is one resource: the first pattern that fits, with all methods that the table has for it. */
static const struct route *find_method(const struct route *first, const char *method, struct reply *reply)
{
    char allow[sizeof(reply->allow)] = "";
    for (const struct route *route = first; route < routes + ARRAY_LEN(routes); route++) {
        if (strcmp(route->pattern, first->pattern) != 0)
            continue;
        bool is_get = strcmp(route->method, "GET") == 0;
        if (strcmp(route->method, method) == 0 || (is_get && strcmp(method, "HEAD") == 0))
            return route;
        size_t len = strlen(allow);
        snprintf(allow + len, sizeof(allow) - len, "%s%s%s", len > 0 ? ", " : "", route->method,
                 is_get ? ", HEAD" : "");
    }
    reply_error(reply, MHD_HTTP_METHOD_NOT_ALLOWED, "Method Not Allowed");
    memcpy(reply->allow, allow, sizeof(allow));
    return NULL;
}

const struct route *router_find(struct request *request, const char *method, struct reply *reply)
{
    if (strstr(request->target, "%00") != NULL) {
        reply_error(reply, MHD_HTTP_BAD_REQUEST, "The address must not contain a null character.");
        return NULL;
    }
    request->path = strndup(request->target, strcspn(request->target, "?"));
    if (request->path == NULL) {
        reply_failure(reply, -ENOMEM);
        return NULL;
    }
    char *segments[SEGMENTS_MAX];
    size_t count = split(request->path, segments);
    for (size_t i = 0; count <= SEGMENTS_MAX && i < ARRAY_LEN(routes); i++) {
        if (matches(routes[i].pattern, segments, count, request))
            return find_method(&routes[i], method, reply);
    }
    reply_error(reply, MHD_HTTP_NOT_FOUND, "Not Found");
    return NULL;
}
