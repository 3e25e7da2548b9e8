/* SPDX-License-Identifier: MIT */
/*
 * The header lines of a request. Nothing that comes from outside can add a line of its own.
 */
#ifndef INBOXFS_HTTP_HTTP_HEAD_H
#define INBOXFS_HTTP_HTTP_HEAD_H

#include <curl/curl.h>

#include "http/http_client.h"

enum {
    HTTP_HEAD_LINES_MAX = 6,
    HTTP_HEAD_LINE_MAX_BYTES = 512,
};

/* What all requests of a client share. Only read. */
struct http_target {
    char *base_url;
    char *unix_socket;   /* or NULL */
    char *authorization; /* the whole header line, or NULL */
    bool uses_proxy;     /* the environment's proxy may be used */
};

/* libcurl borrows a list of headers: the nodes can stand on the stack, and the key is not copied. */
struct http_head {
    struct curl_slist nodes[HTTP_HEAD_LINES_MAX];
    char content_type[HTTP_HEAD_LINE_MAX_BYTES];
    char if_none_match[HTTP_HEAD_LINE_MAX_BYTES];
    unsigned int len;
};

/* Fills `head` (all zeros before), which must not move afterwards; it borrows from `target`. 0, or -EINVAL
 * for a value with a line break in it, or too long. */
int http_head_build(struct http_head *head, const struct http_target *target,
                    const struct http_request *request);

#endif
