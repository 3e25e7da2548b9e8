/* SPDX-License-Identifier: MIT */
/*
 * The body of a request as one run of bytes, wherever its pieces are.
 */
#ifndef INBOXFS_HTTP_HTTP_BODY_H
#define INBOXFS_HTTP_HTTP_BODY_H

#include <sys/types.h>

#include "http/http_client.h"

/* 0 for a request without a body. */
size_t http_body_len(const struct http_body *body);

/* Up to `room` bytes from `position` on: how many (0 only at the end), or -errno; -EIO when the file is
 * shorter than was said. */
ssize_t http_body_read(const struct http_body *body, size_t position, char *ret_bytes, size_t room);

#endif
