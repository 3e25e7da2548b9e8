/* SPDX-License-Identifier: MIT */
/*
 * A reply is the answer to a request, until libmicrohttpd gets it. An endpoint fills the reply by one of the
 * functions below, each of which releases the former content. The body is in memory, except for a list: its
 * records are read while they are sent, so that only one record is in memory.
 */
#ifndef INBOXFS_SERVICE_REPLY_H
#define INBOXFS_SERVICE_REPLY_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "service/tables.h"
#include "service/validation.h"

enum {
    REPLY_ETAG_SIZE = 67, /* 64 hex digits in quotes */
};

/* A list as a body: a JSON array of records. */
struct record_array {
    struct connection *connection; /* in a read transaction, which ends when the reply is released */
    struct statement statement;    /* the text of a record is in the first column of each row */
    struct strbuf piece;           /* the part of the JSON text that was read last */
    size_t copied;                 /* bytes of the piece that libmicrohttpd has */
    bool is_last_piece;
};

struct reply {
    unsigned int status; /* HTTP status; 0 if no reply was made */
    char content_type[256];
    char *body; /* owned */
    size_t body_len;
    struct record_array *records; /* owned; NULL if the body is in memory */
    char etag[REPLY_ETAG_SIZE];   /* or "" */
    const char *allow;            /* header Allow; static, or NULL */
    bool is_file;                 /* a browser is to save the body, not to show it */
    int64_t retry_after_s;        /* 0 for no Retry-After */
    atomic_size_t *counted;       /* counter that loses body_len when the body is freed; borrowed, or NULL */
};

void reply_release(struct reply *reply);

/* Consumes `value`, which may be NULL when out of memory: then the reply is a 503 without a body. */
void reply_json(struct reply *reply, unsigned int status, json_t *value);

/* Makes {"detail": "…"}. Returns 0, like the next two functions, as the result of the endpoint. */
int reply_error(struct reply *reply, unsigned int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Make a 422 of all problems of a validation, or of one problem. `location`, an array of names and indexes,
 * is consumed. */
int reply_invalid(struct reply *reply, const struct validation *validation);
int reply_invalid_at(struct reply *reply, json_t *location, const char *type, const char *message);

/* Takes ownership of `bytes`. */
void reply_bytes(struct reply *reply, const char *content_type, char *bytes, size_t len);

/* Makes a JSON array of records, and begins a read transaction, in which the caller prepares
 * reply->records->statement. Return: 0 or -errno. */
int reply_begin_records(struct reply *reply, struct database *database);

/* Makes a 503 if the request had no effect and may succeed later, else a 500. */
void reply_failure(struct reply *reply, int error);

/* Gives the reply to libmicrohttpd, and releases it. If `closes`, the connection ends after the reply. */
enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection, bool closes);

#endif
