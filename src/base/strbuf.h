/* SPDX-License-Identifier: MIT */
/*
 * A growing string with a maximal length, so that a text from a sender, a server or a writer uses a bounded
 * amount of memory. Errors are sticky: append without checks, and check once at the end.
 */
#ifndef INBOXFS_BASE_STRBUF_H
#define INBOXFS_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct strbuf {
    char *data;       /* NUL-terminated; NULL before the first append */
    size_t len;       /* length in bytes, without the NUL */
    size_t capacity;  /* number of bytes allocated */
    size_t max_bytes; /* bound of `len` */
    int error;        /* 0; or -EMSGSIZE after an append over max_bytes: further appends do nothing */
};

#define STRBUF_INIT(max) ((struct strbuf){.max_bytes = (max)})

/* Makes room for `len` more bytes, so that appending them cannot fail. Return: 0 or buffer->error. */
int strbuf_reserve(struct strbuf *buffer, size_t len);

/* All appends return 0 or buffer->error. */
static inline int strbuf_append(struct strbuf *buffer, const void *bytes, size_t len)
{
    bool has_room =
        buffer->error == 0 && len < buffer->capacity - buffer->len && len <= buffer->max_bytes - buffer->len;
    if (!has_room && strbuf_reserve(buffer, len) != 0)
        return buffer->error;
    if (len > 0)
        memcpy(buffer->data + buffer->len, bytes, len);
    buffer->len += len;
    buffer->data[buffer->len] = '\0';
    return 0;
}

static inline int strbuf_append_char(struct strbuf *buffer, char c)
{
    return strbuf_append(buffer, &c, 1);
}

int strbuf_append_str(struct strbuf *buffer, const char *text);
int strbuf_appendf(struct strbuf *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
int strbuf_vappendf(struct strbuf *buffer, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* Appends all bytes of a file, pipe or socket, up to its end. Return: 0; -errno of read(2); or
 * buffer->error. */
int strbuf_read_to_end(struct strbuf *buffer, int fd);

/* Empties the buffer and resets its error, but keeps its memory. */
void strbuf_clear(struct strbuf *buffer);

/* Shortens the content to `len` bytes; does nothing if it is shorter. */
void strbuf_truncate(struct strbuf *buffer, size_t len);

void strbuf_release(struct strbuf *buffer);

/* Returns the text, never NULL, which is borrowed until the next change. */
const char *strbuf_str(const struct strbuf *buffer);

/* Moves the NUL-terminated text to the caller, who frees it, and empties the buffer. Returns NULL when the
 * buffer has an error. `ret_len` may be NULL. */
char *strbuf_take(struct strbuf *buffer, size_t *ret_len);

#define _cleanup_strbuf_ __attribute__((cleanup(strbuf_release)))

#endif
