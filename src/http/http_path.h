/* SPDX-License-Identifier: MIT */
/*
 * Builds the path and query of a request. What is put in is percent-encoded (RFC 3986), all but letters,
 * digits and `-._~`, so that an id chosen by a stranger stays one segment.
 */
#ifndef INBOXFS_HTTP_HTTP_PATH_H
#define INBOXFS_HTTP_HTTP_PATH_H

#include "base/strbuf.h"

enum {
    HTTP_PATH_MAX_BYTES = 4096
};

/* "/" and the segment. An id of "." or ".." is encoded too (a server would take it for a folder otherwise).
 * 0 or the buffer's error. */
int http_path_add_segment(struct strbuf *path, const char *segment);

/* "?" or "&", name and value. 0 or the buffer's error. */
int http_path_add_query(struct strbuf *path, const char *name, const char *value);

#endif
