/* SPDX-License-Identifier: MIT */
/*
 * The parts of a request: its body, as one run of bytes wherever the pieces of it are; its path and query;
 * and the framing of a file that is sent as multipart/form-data (RFC 7578). Text of strangers (an id, a
 * file's name) cannot leave the place that it is put in.
 */
#ifndef INBOXFS_HTTP_HTTP_REQUEST_H
#define INBOXFS_HTTP_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/strbuf.h"
#include "base/wait.h"

enum {
    HTTP_PATH_MAX_BYTES = 4096,
    HTTP_MULTIPART_TYPE_BYTES = 128,
    HTTP_MULTIPART_HEAD_BYTES = 2048,
    HTTP_MULTIPART_TAIL_BYTES = 64,
};

/* The bytes of a request: `head`, then `file_len` bytes, which stand at `file_bytes` or (when that is NULL)
 * at the start of `fd`, read by pread; then `tail`. All borrowed until the request is done. */
struct http_body {
    const char *content_type; /* NULL: no body at all */
    const void *head;
    size_t head_len;
    const void *file_bytes;
    int fd;
    size_t file_len;
    const void *tail;
    size_t tail_len;
};

/* Called with the bytes of the answer's body as they arrive. Non-zero (-errno) gives the answer up. */
typedef int (*http_sink)(void *context, int status, const void *bytes, size_t len);

struct http_request {
    const char *method;        /* GET, or POST with a body */
    const char *target;        /* path and query, percent-encoded, from the `/` behind the base URL */
    const char *if_none_match; /* an ETag, or NULL */
    bool takes_any_type;       /* the answer is bytes of whatever kind; else JSON */
    struct http_body body;
    http_sink sink;
    void (*pause)(void *context); /* what has arrived was given to the sink; called before more is waited
                                     for, and at the end. Or NULL */
    void *context;                /* handed to both */
    uint64_t max_body_bytes;      /* an answer with a longer body fails with -EFBIG; at once where its head
                                     tells its length */
    int64_t timeout_ms;           /* for the whole request; 0: as long as it makes progress */
    unsigned int stall_s;  /* the request ends when less than 100 bytes a second come or go for this long;
                              0: only the deadline counts */
    struct cancel *cancel; /* or NULL */
};

/* ---------------------------------------------------------------- body */

/* 0 for a request without a body. */
size_t http_body_len(const struct http_body *body);

/* Up to `room` bytes from `position` on: how many (0 only at the end), or -errno; -EIO when the file is
 * shorter than was said. */
ssize_t http_body_read(const struct http_body *body, size_t position, char *ret_bytes, size_t room);

/* ---------------------------------------------------------------- path and query */

/* What is put in is percent-encoded (RFC 3986), all but letters, digits and `-._~`. Both: 0 or the buffer's
 * error. */

/* "/" and the segment. An id of "." or ".." is encoded, too: a server would take it for a folder. */
int http_path_add_segment(struct strbuf *path, const char *segment);

/* "?" or "&", name and value. */
int http_path_add_query(struct strbuf *path, const char *name, const char *value);

/* ---------------------------------------------------------------- multipart */

/* A body of one part, a file: what stands before and behind its bytes, which are not copied. */
struct http_multipart {
    char content_type[HTTP_MULTIPART_TYPE_BYTES]; /* of the request */
    char head[HTTP_MULTIPART_HEAD_BYTES];
    char tail[HTTP_MULTIPART_TAIL_BYTES];
};

/* The name goes out as raw UTF-8 in `filename`, with `"`, CR and LF as %22, %0D and %0A, as browsers do
 * (WHATWG HTML, "multipart form data"); no `filename*`. Other control characters become `_`. A type that is
 * no plain "type/subtype" becomes application/octet-stream. The boundary is random. 0, -ENAMETOOLONG, or
 * another -errno where there is no randomness. */
int http_multipart_init(struct http_multipart *multipart, const char *field, const char *file_name,
                        const char *file_type);

#endif
