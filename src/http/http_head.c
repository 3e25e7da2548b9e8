/* SPDX-License-Identifier: MIT */
/*
 * The header lines of a request.
 */
#include "http/http_head.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void add_line(struct http_head *head, const char *line)
{
    struct curl_slist *node = &head->nodes[head->len];
    node->data = (char *)(uintptr_t)line; /* libcurl only reads it */
    node->next = NULL;
    if (head->len > 0)
        head->nodes[head->len - 1].next = node;
    head->len++;
}

static int add_value(struct http_head *head, char *line, const char *name, const char *value)
{
    if (value == NULL)
        return 0;
    int len = snprintf(line, HTTP_HEAD_LINE_MAX_BYTES, "%s: %s", name, value);
    if (len < 0 || len >= HTTP_HEAD_LINE_MAX_BYTES || strpbrk(line, "\r\n") != NULL)
        return -EINVAL;
    add_line(head, line);
    return 0;
}

int http_head_build(struct http_head *head, const struct http_target *target,
                    const struct http_request *request)
{
    add_line(head, "User-Agent: inboxfs/" INBOXFS_VERSION);
    add_line(head, request->takes_any_type ? "Accept: */*" : "Accept: application/json");
    add_line(head, "Expect:"); /* no waiting for a 100 Continue */
    if (target->authorization != NULL)
        add_line(head, target->authorization);
    int rc = add_value(head, head->content_type, "Content-Type", request->body.content_type);
    if (rc == 0)
        rc = add_value(head, head->if_none_match, "If-None-Match", request->if_none_match);
    return rc;
}
