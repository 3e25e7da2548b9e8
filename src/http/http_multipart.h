/* SPDX-License-Identifier: MIT */
/*
 * A multipart/form-data body (RFC 7578) of one part, a file: what stands before and behind its bytes, which
 * are not copied.
 */
#ifndef INBOXFS_HTTP_HTTP_MULTIPART_H
#define INBOXFS_HTTP_HTTP_MULTIPART_H

#include "http/http_client.h"

enum {
    HTTP_MULTIPART_TYPE_BYTES = 128,
    HTTP_MULTIPART_HEAD_BYTES = 2048,
    HTTP_MULTIPART_TAIL_BYTES = 64,
};

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
