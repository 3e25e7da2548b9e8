/* SPDX-License-Identifier: MIT */
/*
 * HTTP/1.1 requests to one server, from any thread at once. Connections are kept and used again; a redirect
 * is never followed, nothing but http and https is spoken, certificates are verified. Every request has an
 * end: a least pace or a deadline, a ceiling on what it may bring, and a cancel that is seen within a tenth
 * of a second. The process must ignore SIGPIPE, since TLS libraries write with write(2).
 */
#ifndef INBOXFS_HTTP_HTTP_CLIENT_H
#define INBOXFS_HTTP_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http_request.h"

enum {
    HTTP_CONNECT_TIMEOUT_MS = 9000,  /* to look the name up, to connect, and for TLS */
    HTTP_HEAD_MAX_BYTES = 64 * 1024, /* all header lines of an answer together */
    HTTP_ETAG_MAX_BYTES = 256,
    HTTP_REASON_MAX_BYTES = 256,
};

struct http_config {
    const char *base_url;    /* http(s)://host[:port][/path], no trailing slash, no credentials */
    const char *unix_socket; /* path of the socket to use instead of TCP; NULL: none */
    const char *api_key;     /* goes into the Authorization header and nowhere else; NULL: none */
    const char *ca_path;     /* file or directory with the only authorities to trust; NULL: the system's */
};

struct http_response {
    int error;               /* 0: the whole answer came; -errno: -EHOSTUNREACH (no connection made),
                                -EMFILE and -ENFILE (no descriptor for one),
                                -ETIMEDOUT, -ECANCELED, -ECONNRESET (lost), -EPROTO (not HTTP), -EFBIG, -EINVAL
                                (request refused here), -ENOMEM, -EIO, or what the sink returned */
    bool is_written;         /* every byte of the request was handed to the connection, and the kernel may
                                have sent it: the server may have acted on it. When false it cannot have */
    int status;              /* 0 until the last header line of a final answer (not 1xx) came */
    int64_t retry_after_ms;  /* Retry-After in either of its forms, at most an hour; -1: none */
    uint64_t sent_bytes;     /* heads and bodies */
    uint64_t received_bytes; /* likewise */
    bool is_html;            /* Content-Type said text/html */
    char etag[HTTP_ETAG_MAX_BYTES];     /* "" when there is none (or a longer one) */
    char reason[HTTP_REASON_MAX_BYTES]; /* what went wrong; "" when error is 0 */
};

struct http_client;

/* Copies the configuration. `ret_client` is freed with http_client_free(). 0, -EINVAL (a key or URL with
 * control characters), -ENOMEM. */
int http_client_new(const struct http_config *config, struct http_client **ret_client);

/* NULL-safe; wipes the key. No request may be under way. */
void http_client_free(struct http_client *client);

/* Makes one request and waits for its end. A request is never repeated here, and libcurl's own repetition on
 * a connection that turns out to be dead is held off once the whole of a body was written. */
void http_client_perform(struct http_client *client, const struct http_request *request,
                         struct http_response *ret);

/* Overwrites the API key with `*` wherever it occurs in the text: servers echo requests in error bodies. */
void http_client_redact(const struct http_client *client, char *text, size_t len);

#endif
