/* SPDX-License-Identifier: MIT */
/*
 * Multipart framing.
 */
#include "http/http_multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/strbuf.h"

enum {
    BOUNDARY_RANDOM_BYTES = 16
};

static void append_quoted(struct strbuf *head, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\r' || *c == '\n')
            strbuf_appendf(head, "%%%02X", (unsigned char)*c);
        else
            strbuf_append_char(head, (unsigned char)*c < ' ' || *c == 0x7f ? '_' : *c);
    }
}

static bool is_plain_type(const char *type)
{
    static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&^_.+-";
    size_t first = strspn(type, token);
    if (first == 0 || type[first] != '/')
        return false;
    size_t second = strspn(type + first + 1, token);
    return second > 0 && type[first + 1 + second] == '\0' && first + second < 128;
}

int http_multipart_init(struct http_multipart *multipart, const char *field, const char *file_name,
                        const char *file_type)
{
    char boundary[2 * BOUNDARY_RANDOM_BYTES + 1];
    int rc = random_hex(boundary, BOUNDARY_RANDOM_BYTES);
    if (rc < 0)
        return rc;
    _cleanup_strbuf_ struct strbuf head = STRBUF_INIT(sizeof(multipart->head) - 1);
    strbuf_appendf(&head, "--%s\r\nContent-Disposition: form-data; name=\"", boundary);
    append_quoted(&head, field);
    strbuf_append_str(&head, "\"; filename=\"");
    append_quoted(&head, file_name);
    strbuf_appendf(&head, "\"\r\nContent-Type: %s\r\n\r\n",
                   is_plain_type(file_type) ? file_type : "application/octet-stream");
    if (head.error != 0)
        return head.error == -EMSGSIZE ? -ENAMETOOLONG : head.error;
    memcpy(multipart->head, strbuf_str(&head), head.len + 1);
    snprintf(multipart->tail, sizeof(multipart->tail), "\r\n--%s--\r\n", boundary);
    snprintf(multipart->content_type, sizeof(multipart->content_type), "multipart/form-data; boundary=%s",
             boundary);
    return 0;
}
