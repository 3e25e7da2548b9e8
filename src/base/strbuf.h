/* SPDX-License-Identifier: MIT */
/*
 * A growing string with a ceiling. Text from senders, servers and writers is collected in these, so
 * that nobody can make the program take more memory than was meant. Errors stick: append at will, look once
 * at the end.
 */
#ifndef INBOXFS_BASE_STRBUF_H
#define INBOXFS_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct strbuf {
    char *data;       /* NUL-terminated as soon as anything was appended; NULL before */
    size_t len;       /* bytes, without the NUL */
    size_t capacity;  /* bytes allocated */
    size_t max_bytes; /* len never passes this */
    int error;        /* 0, -ENOMEM, or -EMSGSIZE: the ceiling was met. Once set, appends do nothing */
};

#define STRBUF_INIT(max) ((struct strbuf){.max_bytes = (max)})

/* Makes room for `len` more bytes, so that the following appends of that much cannot fail. 0 or the buffer's
 * sticky error. */
int strbuf_reserve(struct strbuf *buffer, size_t len);

/* All appends return 0 or the buffer's sticky error. */
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

/* Appends what comes from a file, a pipe or a socket, from where it stands to its end. 0, -errno of read(2),
 * or the buffer's sticky error. */
int strbuf_read_to_end(struct strbuf *buffer, int fd);

/* Forgets the content and the error, keeps the memory. */
void strbuf_clear(struct strbuf *buffer);

/* Shortens to `len` bytes; longer than the content: no change. */
void strbuf_truncate(struct strbuf *buffer, size_t len);

void strbuf_release(struct strbuf *buffer);

/* The text, never NULL; valid until the next change. */
const char *strbuf_str(const struct strbuf *buffer);

/* Hands the allocated, NUL-terminated text to the caller (who frees it); NULL when the buffer has an error or
 * there is no memory. The buffer is empty afterwards. `ret_len` may be NULL. */
char *strbuf_take(struct strbuf *buffer, size_t *ret_len);

#define _cleanup_strbuf_ __attribute__((cleanup(strbuf_release)))

#endif
