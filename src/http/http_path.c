/* SPDX-License-Identifier: MIT */
/*
 * Paths and queries.
 */
#include "http/http_path.h"

#include <string.h>

static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~.";

static int append_encoded(struct strbuf *path, const char *text, const char *plain)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr(plain, *c) != NULL)
            strbuf_append_char(path, *c);
        else
            strbuf_appendf(path, "%%%02X", (unsigned char)*c);
    }
    return path->error;
}

int http_path_add_segment(struct strbuf *path, const char *segment)
{
    strbuf_append_char(path, '/');
    /* libcurl takes "%2E%2E" for "..", as RFC 3986 has it; a dot encoded twice names nothing that exists,
     * which is what such an id deserves. */
    if (strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0)
        return append_encoded(path, segment[1] == '.' ? "%2E%2E" : "%2E", unreserved);
    return append_encoded(path, segment, unreserved);
}

int http_path_add_query(struct strbuf *path, const char *name, const char *value)
{
    strbuf_append_char(path, memchr(strbuf_str(path), '?', path->len) != NULL ? '&' : '?');
    append_encoded(path, name, unreserved);
    strbuf_append_char(path, '=');
    return append_encoded(path, value, unreserved);
}
