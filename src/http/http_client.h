/* SPDX-License-Identifier: MIT */
/*
 * A client of one HTTP/1.1 server, usable from several threads at once. It reuses connections, verifies
 * certificates, uses only http and https, and follows no redirect. Every request ends: it has a minimal speed
 * or a deadline, a maximal body length, and a cancel that is checked at least ten times a second. The process
 * must ignore SIGPIPE, since TLS libraries write with write(2).
 */
#ifndef INBOXFS_HTTP_HTTP_CLIENT_H
#define INBOXFS_HTTP_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "base/wait.h"

enum {
    HTTP_ETAG_MAX_BYTES = 256,
    HTTP_REASON_MAX_BYTES = 256,
};

struct http_config {
    const char *base_url;    /* http(s)://host[:port][/path], no trailing slash, no credentials */
    const char *unix_socket; /* path of the socket to use instead of TCP, or NULL */
    const char *api_key;     /* sent in the Authorization header only; or NULL */
    const char *ca_path;     /* file or directory of all trusted authorities; NULL: those of the system */
};

/* A file that a POST sends as multipart/form-data (RFC 7578), in a part named "file". The caller makes sure
 * that no line break is in `type`; libcurl encodes line breaks and quotes of `name`. The memory is borrowed
 * until the request ends. */
struct http_file {
    const char *name;
    const char *type; /* "type/subtype" */
    const void *bytes;
    size_t len;
};

/* Receives the bytes of the answer's body as they arrive. Return: 0; -errno ends the request. */
typedef int (*http_sink)(void *context, const void *bytes, size_t len);

struct http_request {          /* a POST if it has `json` or `file`, otherwise a GET */
    const char *target;        /* percent-encoded path and query, appended to the base URL; begins with `/` */
    const char *if_none_match; /* an ETag, or NULL */
    bool takes_any_type;       /* the answer may have any content type; otherwise JSON */
    const char *json;          /* the body, or NULL */
    const struct http_file *file;
    http_sink sink;
    void *context;           /* argument of the sink; borrowed */
    struct strbuf *refusal;  /* gets the body in place of the sink if the status is not 2xx; or NULL */
    uint64_t max_body_bytes; /* a longer body, or Content-Length, ends the request with -EFBIG */
    int64_t timeout_ms;      /* deadline of the request; 0: none while it makes progress */
    unsigned int stall_s; /* the request ends after this time with less than 100 bytes a second; 0 if only the
                             deadline ends it */
    struct cancel *cancel; /* ends the request when it is set; or NULL */
};

struct http_response {
    int error;       /* 0: the answer is complete; -EHOSTUNREACH: no connection, or it was lost;
                        -EMFILE, -ENFILE: no free descriptor; -ETIMEDOUT; -EINTR: cancelled;
                        -EPROTO: not HTTP; -EFBIG: longer than allowed; -EINVAL: invalid request; -ENOMEM;
                        -EIO; or the error of the sink */
    bool is_written; /* the kernel got the whole request, and may have sent it, so the server may have acted
                        on it. If false, the server cannot have acted */
    int status;      /* 0 if the head of a final answer (not 1xx) did not arrive */
    int64_t retry_after_ms;             /* pause of Retry-After (seconds or date), at most 1 h; -1: none */
    uint64_t sent_bytes;                /* size of heads and bodies, in all attempts of libcurl */
    uint64_t received_bytes;            /* size of heads and bodies */
    bool is_html;                       /* the Content-Type is text/html */
    char etag[HTTP_ETAG_MAX_BYTES];     /* "" if the ETag is missing or too long */
    char reason[HTTP_REASON_MAX_BYTES]; /* a sentence for the user; "" when error is 0 */
};

struct http_client;

/* Copies the configuration. Return: 0; -EINVAL if the URL is not http(s), the key is empty or too long, or
 * one of them has a space or control character; -ENOMEM. */
int http_client_new(const struct http_config *config, struct http_client **ret_client);

/* Frees the client and wipes the key. No request may be in progress. NULL-safe. */
void http_client_free(struct http_client *client);

/* Makes one request and waits for its end. libcurl repeats the request if a reused connection is dead, but
 * not a POST that was written as a whole. */
void http_client_perform(struct http_client *client, const struct http_request *request,
                         struct http_response *ret);

/* Overwrites the API key in the text with `*`, since servers echo requests in error bodies. */
void http_client_redact(const struct http_client *client, char *text, size_t len);

#endif
