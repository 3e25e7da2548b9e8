/* SPDX-License-Identifier: MIT */
/*
 * The answer to a request, before libmicrohttpd gets it. An endpoint fills it by one of the functions below,
 * each of which releases the former content. Its body is text or bytes, or, for a list, an array of records
 * that is made while it is sent, so that only one record of it is in memory.
 */
#ifndef INBOXFS_SERVICE_REPLY_H
#define INBOXFS_SERVICE_REPLY_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/tables.h"
#include "service/validation.h"

enum {
    REPLY_ETAG_SIZE = 67, /* 64 hex digits in quotes */
};

struct record_array;

struct reply {
    unsigned int status; /* 0: none yet */
    char content_type[256];
    char *body;                   /* owned; or */
    struct record_array *records; /* owned */
    size_t body_len;
    char etag[REPLY_ETAG_SIZE]; /* "": none */
    const char *allow;          /* methods, for 405; static */
    bool is_file;               /* a browser saves the body */
    int64_t retry_after_s;      /* 0: none */
    atomic_size_t *counted;     /* counts the bytes of its body until they are freed; or NULL. Borrowed */
};

void reply_release(struct reply *reply);

/* Consumes `value`; NULL means that there was no memory, and becomes 503. */
void reply_json(struct reply *reply, unsigned int status, json_t *value);

/* Makes {"detail": "…"}. Returns 0, as an endpoint does that has replied; so do the next two functions. */
int reply_error(struct reply *reply, unsigned int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes a 422 of all problems that a validation found, or of one problem. Consumes `location`, an array of
 * names and indexes. */
int reply_invalid(struct reply *reply, const struct validation *validation);
int reply_invalid_at(struct reply *reply, json_t *location, const char *type, const char *message);

/* Takes over bytes of any kind. */
void reply_bytes(struct reply *reply, const char *content_type, char *bytes, size_t len);

/* Makes a JSON array of the first column of the statement's rows, each the text of a record. Takes over the
 * reader and the statement, on failure too, and returns the reader when the reply is freed. Return: 0 or
 * -ENOMEM. */
int reply_records(struct reply *reply, struct database *database, struct connection *connection,
                  sqlite3_stmt *statement, const char *etag);

/* Makes a 503 if nothing happened and a later try may succeed, else a 500. */
void reply_failure(struct reply *reply, int error);

/* Hands the reply to libmicrohttpd, and hands over or releases what the reply owns. */
enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection, bool closes);

#endif
