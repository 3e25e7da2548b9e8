/* SPDX-License-Identifier: MIT */
#include "http/http_request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/random.h"

enum {
    BOUNDARY_RANDOM_BYTES = 16
};

/* ---------------------------------------------------------------- body */

size_t http_body_len(const struct http_body *body)
{
    return body->content_type != NULL ? body->head_len + body->file_len + body->tail_len : 0;
}

static ssize_t copy_part(char *ret_bytes, size_t room, const void *bytes, size_t len, size_t position)
{
    size_t part = len - position < room ? len - position : room;
    if (part > 0)
        memcpy(ret_bytes, (const char *)bytes + position, part);
    return (ssize_t)part;
}

static ssize_t read_file_part(char *ret_bytes, size_t room, int fd, size_t len, size_t position)
{
    size_t part = len - position < room ? len - position : room;
    ssize_t got = file_pread_all(fd, ret_bytes, part, (off_t)position);
    return got >= 0 && (size_t)got < part ? -EIO : got;
}

ssize_t http_body_read(const struct http_body *body, size_t position, char *ret_bytes, size_t room)
{
    if (position < body->head_len)
        return copy_part(ret_bytes, room, body->head, body->head_len, position);
    position -= body->head_len;
    if (position < body->file_len && body->file_bytes != NULL)
        return copy_part(ret_bytes, room, body->file_bytes, body->file_len, position);
    if (position < body->file_len)
        return read_file_part(ret_bytes, room, body->fd, body->file_len, position);
    return copy_part(ret_bytes, room, body->tail, body->tail_len, position - body->file_len);
}

/* ---------------------------------------------------------------- path and query */

static int append_encoded(struct strbuf *path, const char *text)
{
    static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~.";
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr(unreserved, *c) != NULL)
            strbuf_append_char(path, *c);
        else
            strbuf_appendf(path, "%%%02X", (unsigned char)*c);
    }
    return path->error;
}

int http_path_add_segment(struct strbuf *path, const char *segment)
{
    strbuf_append_char(path, '/');
    /* libcurl takes "%2E%2E" for ".." (RFC 3986), so the dots are encoded twice. No email has the id that the
     * server then reads. */
    if (strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0)
        return append_encoded(path, segment[1] == '.' ? "%2E%2E" : "%2E");
    return append_encoded(path, segment);
}

int http_path_add_query(struct strbuf *path, const char *name, const char *value)
{
    strbuf_append_char(path, memchr(strbuf_str(path), '?', path->len) != NULL ? '&' : '?');
    append_encoded(path, name);
    strbuf_append_char(path, '=');
    return append_encoded(path, value);
}

/* ---------------------------------------------------------------- multipart */

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

int http_multipart_init(struct http_multipart *multipart, const char *file_name, const char *file_type)
{
    char boundary[2 * BOUNDARY_RANDOM_BYTES + 1];
    int rc = random_hex(boundary, BOUNDARY_RANDOM_BYTES);
    if (rc < 0)
        return rc;
    _cleanup_strbuf_ struct strbuf head = STRBUF_INIT(sizeof(multipart->head) - 1);
    strbuf_appendf(&head, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"", boundary);
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
