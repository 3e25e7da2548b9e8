/* SPDX-License-Identifier: MIT */
/*
 * A reply is the answer to a request: a status, and libmicrohttpd's response with the body and the headers.
 * An endpoint makes the reply by one of the functions below, each of which releases the former reply.
 */
#ifndef INBOXFS_SERVICE_REPLY_H
#define INBOXFS_SERVICE_REPLY_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "service/validation.h"

struct reply {
    unsigned int status;           /* HTTP status; 0 if no reply was made */
    struct MHD_Response *response; /* owned; NULL when out of memory */
};

void reply_release(struct reply *reply);

/* Consumes `value`. If it is NULL, as json_pack() makes it of a text that is not UTF-8, the reply is a 503
 * without a body. */
void reply_json(struct reply *reply, unsigned int status, json_t *value);

/* Makes {"detail": "…"}. Returns 0, like the next two functions, as the result of the endpoint. */
int reply_error(struct reply *reply, unsigned int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Make a 422 of all problems of a validation, or of one problem. `location`, an array of names and indexes,
 * is consumed. */
int reply_invalid(struct reply *reply, const struct validation *validation);
int reply_invalid_at(struct reply *reply, json_t *location, const char *type, const char *message);

/* Makes a file, which a browser saves and does not show. Takes ownership of `bytes`. */
void reply_file(struct reply *reply, const char *content_type, char *bytes, size_t len);

/* Makes a reply of JSON text whose pieces `read` returns while it is sent. The reply owns `context`, and
 * passes it to `release`. */
void reply_stream(struct reply *reply, MHD_ContentReaderCallback read, MHD_ContentReaderFreeCallback release,
                  void *context);

void reply_not_modified(struct reply *reply);

/* Makes a 503 if the request had no effect and may succeed later, else a 500. */
void reply_failure(struct reply *reply, int error);

void reply_add_header(struct reply *reply, const char *name, const char *value);

/* Gives the reply to libmicrohttpd, and releases it. If `closes`, the connection ends after the reply. */
enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection, bool closes);

/* Returns the size of all bodies in the memory of this process, streams excepted. */
size_t reply_bytes_in_memory(void);

#endif
