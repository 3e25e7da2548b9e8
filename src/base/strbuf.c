/* SPDX-License-Identifier: MIT */
/*
 * A buffer doubles its memory when it grows.
 */
#include "base/strbuf.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_CAPACITY = 64
};

int strbuf_reserve(struct strbuf *buffer, size_t len)
{
    if (buffer->error != 0)
        return buffer->error;
    if (len > buffer->max_bytes || buffer->len > buffer->max_bytes - len)
        return buffer->error = -EMSGSIZE;

    size_t needed = buffer->len + len + 1;
    if (needed <= buffer->capacity)
        return 0;

    size_t capacity = buffer->capacity == 0 ? FIRST_CAPACITY : 2 * buffer->capacity;
    if (capacity < needed)
        capacity = needed;
    buffer->data = g_realloc(buffer->data, capacity);
    buffer->capacity = capacity;
    buffer->data[buffer->len] = '\0';
    return 0;
}

int strbuf_append_str(struct strbuf *buffer, const char *text)
{
    return strbuf_append(buffer, text, strlen(text));
}

int strbuf_vappendf(struct strbuf *buffer, const char *format, va_list arguments)
{
    if (buffer->error != 0)
        return buffer->error;

    va_list measuring;
    va_copy(measuring, arguments);
    int len = vsnprintf(NULL, 0, format, measuring);
    va_end(measuring);
    if (len < 0)
        return buffer->error = -EINVAL;

    int error = strbuf_reserve(buffer, (size_t)len);
    if (error != 0)
        return error;
    vsnprintf(buffer->data + buffer->len, (size_t)len + 1, format, arguments);
    buffer->len += (size_t)len;
    return 0;
}

int strbuf_appendf(struct strbuf *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int error = strbuf_vappendf(buffer, format, arguments);
    va_end(arguments);
    return error;
}

int strbuf_read_to_end(struct strbuf *buffer, int fd)
{
    char block[64 * 1024];
    ssize_t len;
    while ((len = TEMP_FAILURE_RETRY(read(fd, block, sizeof(block)))) > 0)
        if (strbuf_append(buffer, block, (size_t)len) != 0)
            return buffer->error;
    return len < 0 ? -errno : 0;
}

void strbuf_clear(struct strbuf *buffer)
{
    buffer->error = 0;
    strbuf_truncate(buffer, 0);
}

void strbuf_truncate(struct strbuf *buffer, size_t len)
{
    if (len > buffer->len || buffer->data == NULL)
        return;
    buffer->len = len;
    buffer->data[len] = '\0';
}

void strbuf_release(struct strbuf *buffer)
{
    free(buffer->data);
    *buffer = STRBUF_INIT(buffer->max_bytes);
}

const char *strbuf_str(const struct strbuf *buffer)
{
    return buffer->data == NULL ? "" : buffer->data;
}

char *strbuf_take(struct strbuf *buffer, size_t *ret_len)
{
    if (strbuf_reserve(buffer, 0) != 0) {
        strbuf_release(buffer);
        return NULL;
    }
    char *data = buffer->data;
    if (ret_len != NULL)
        *ret_len = buffer->len;
    *buffer = STRBUF_INIT(buffer->max_bytes);
    return data;
}
