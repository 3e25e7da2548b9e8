/* SPDX-License-Identifier: MIT */
/*
 * A small HTTP client for tests: one request for each connection, over a plain socket, with bounds on size
 * and time. It fails the test (cmocka) if there is no well-formed answer.
 */
#ifndef INBOXFS_TESTS_SUPPORT_HTTP_CLIENT_H
#define INBOXFS_TESTS_SUPPORT_HTTP_CLIENT_H

#include <stddef.h>

struct http_client {
    const char *address; /* "ADDRESS:PORT" (IPv4) or "unix:PATH" */
    const char *key;     /* sent as Bearer token; may be NULL */
};

struct http_answer {
    int status;
    char *head; /* status line and headers */
    char *body; /* joined chunks, with a NUL at the end */
    size_t body_len;
};

void http_answer_release(struct http_answer *answer);

/* `headers` are whole lines with CRLF, or "". A Content-Length is added unless `body` is NULL. */
void http_client_request(const struct http_client *client, const char *method, const char *target,
                         const char *headers, const void *body, size_t body_len,
                         struct http_answer *ret_answer);

/* Sends the bytes unchanged. They must make the server answer and close. */
void http_client_exchange(const struct http_client *client, const void *bytes, size_t len,
                          struct http_answer *ret_answer);

/* Returns a connected socket with timeouts. */
int http_client_connect(const struct http_client *client);

/* Returns a copy of a header's value, which the caller frees; NULL if the header is missing. */
char *http_answer_header(const struct http_answer *answer, const char *name);

#endif
