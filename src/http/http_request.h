/* SPDX-License-Identifier: MIT */
/*
 * The parts of a request: its body, in several pieces; its path and query; and the head and tail around a
 * file that is sent as multipart/form-data (RFC 7578). Text from strangers (an id, a file's name) is encoded,
 * so that the text cannot add a path segment, a parameter or a header line.
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

/* The body of a request is `head`, then a file, then `tail`. The file has `file_len` bytes, at `file_bytes`
 * or, if `file_bytes` is NULL, at the start of `fd`. Memory and `fd` are borrowed until the request ends. */
struct http_body {
    const char *content_type; /* NULL if there is no body */
    const void *head;
    size_t head_len;
    const void *file_bytes;
    int fd;
    size_t file_len;
    const void *tail;
    size_t tail_len;
};

/* Receives the bytes of the answer's body as they arrive. Return: 0; -errno ends the request. */
typedef int (*http_sink)(void *context, int status, const void *bytes, size_t len);

struct http_request {          /* a POST if it has a body, otherwise a GET */
    const char *target;        /* percent-encoded path and query, appended to the base URL; begins with `/` */
    const char *if_none_match; /* an ETag, or NULL */
    bool takes_any_type;       /* the answer may have any content type; otherwise JSON */
    struct http_body body;
    http_sink sink;
    void *context;           /* argument of the sink; borrowed */
    uint64_t max_body_bytes; /* a longer body, or Content-Length, ends the request with -EFBIG */
    int64_t timeout_ms;      /* deadline of the request; 0: none while it makes progress */
    unsigned int stall_s; /* the request ends after this time with less than 100 bytes a second; 0 if only the
                             deadline ends it */
    struct cancel *cancel; /* ends the request when it is set; or NULL */
};

/* ---------------------------------------------------------------- body */

/* Returns the length of the body; 0 if there is none. */
size_t http_body_len(const struct http_body *body);

/* Reads up to `room` bytes from `position` on. Return: the number of bytes, 0 only at the end; -EIO if the
 * file is shorter than `file_len`; another -errno. */
ssize_t http_body_read(const struct http_body *body, size_t position, char *ret_bytes, size_t room);

/* ---------------------------------------------------------------- path and query */

/* Both functions percent-encode (RFC 3986) all bytes except letters, digits and `-._~`. Return: 0 or
 * path->error. */

/* Appends "/" and the segment. Encodes also the segments "." and "..", which would change the path. */
int http_path_add_segment(struct strbuf *path, const char *segment);

/* Appends "?" or "&", then NAME=VALUE. */
int http_path_add_query(struct strbuf *path, const char *name, const char *value);

/* ---------------------------------------------------------------- multipart */

/* The text before and after the file in a body of one part named "file". */
struct http_multipart {
    char content_type[HTTP_MULTIPART_TYPE_BYTES]; /* Content-Type of the request */
    char head[HTTP_MULTIPART_HEAD_BYTES];
    char tail[HTTP_MULTIPART_TAIL_BYTES];
};

/* Writes `file_name` as browsers do (WHATWG HTML, "multipart form data"): in UTF-8, with %22, %0D and %0A for
 * `"`, CR and LF. Other control characters become `_`, and a type other than a plain "type/subtype" becomes
 * application/octet-stream. The boundary is random. Return: 0; -ENAMETOOLONG if the head gets too long;
 * another -errno. */
int http_multipart_init(struct http_multipart *multipart, const char *file_name, const char *file_type);

#endif
