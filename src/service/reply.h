/* SPDX-License-Identifier: MIT */
/*
 * The answer to a request, before it is handed to libmicrohttpd. An endpoint fills it by one of the functions
 * below, each of which releases what was there before. Its body is text or bytes, or, for a list, an array of
 * records that is made while it is sent: however long the list is, no more of it than a record is in memory.
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
    atomic_size_t *counted; /* its body's bytes are counted here until they are freed; or NULL. Borrowed */
};

void reply_release(struct reply *reply);

/* Consumes `value` (NULL: no memory, 503). */
void reply_json(struct reply *reply, unsigned int status, json_t *value);

/* {"detail": …} in words. */
void reply_error(struct reply *reply, unsigned int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* 422 with what a validation found, or with the one problem that is given; consumes `location`, the array of
 * names and indexes. 0. */
void reply_invalid(struct reply *reply, const struct validation *validation);
int reply_invalid_at(struct reply *reply, json_t *location, const char *type, const char *message);

/* Bytes of any kind; takes them over. */
void reply_bytes(struct reply *reply, const char *content_type, char *bytes, size_t len);

/* A list: a JSON array of what each row of the statement has in its first column, the text of a record. Takes
 * over the reader and the statement, on failure too; the reading ends with the reply. 0 or -ENOMEM. */
int reply_records(struct reply *reply, struct database *database, struct connection *connection,
                  sqlite3_stmt *statement, const char *etag);

/* The request could not be carried out: 503 where nothing happened and a later try may succeed, else 500. */
void reply_failure(struct reply *reply, int error);

/* Hands the reply to the library; what it owns is handed over or released. */
enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection, bool closes);

#endif
