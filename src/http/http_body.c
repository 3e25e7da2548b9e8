/* SPDX-License-Identifier: MIT */
/*
 * Reading a body piece by piece.
 */
#include "http/http_body.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"

size_t http_body_len(const struct http_body *body)
{
    return body->content_type != NULL ? body->head_len + body->file_len + body->tail_len : 0;
}

static ssize_t copy(char *ret_bytes, size_t room, const void *bytes, size_t len, size_t position)
{
    size_t part = len - position < room ? len - position : room;
    if (part > 0)
        memcpy(ret_bytes, (const char *)bytes + position, part);
    return (ssize_t)part;
}

static ssize_t read_file(char *ret_bytes, size_t room, int fd, size_t len, size_t position)
{
    size_t part = len - position < room ? len - position : room;
    ssize_t got = file_pread_all(fd, ret_bytes, part, (off_t)position);
    return got >= 0 && (size_t)got < part ? -EIO : got;
}

ssize_t http_body_read(const struct http_body *body, size_t position, char *ret_bytes, size_t room)
{
    if (position < body->head_len)
        return copy(ret_bytes, room, body->head, body->head_len, position);
    position -= body->head_len;
    if (position < body->file_len && body->file_bytes != NULL)
        return copy(ret_bytes, room, body->file_bytes, body->file_len, position);
    if (position < body->file_len)
        return read_file(ret_bytes, room, body->fd, body->file_len, position);
    return copy(ret_bytes, room, body->tail, body->tail_len, position - body->file_len);
}
