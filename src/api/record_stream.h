/* SPDX-License-Identifier: MIT */
/*
 * Finds the records of a list while its JSON text (RFC 8259) is still arriving, so that an answer of any
 * length is never in memory whole. A list is an array of objects, or an object with exactly one array of
 * objects in it (interface section 1). Only the bounds of records are found here, and only where nobody finds
 * them by reading the record; whoever gets one parses it.
 */
#ifndef INBOXFS_API_RECORD_STREAM_H
#define INBOXFS_API_RECORD_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

enum {
    RECORD_DEPTH_MAX = 200 /* of brackets within a record, or within another member of the outer object */
};

/* The text of one object, from `{` to the bracket that closes it, not yet known to be valid. NULL: a record
 * too long or too deep was passed over. Non-zero (-errno) ends the stream. */
typedef int (*record_sink)(void *context, const char *text, size_t len);

/* Tries to read the record that the text begins with, which may be cut off, and be followed by more.
 * *ret_len: how long it is; 0: it is not whole, or not as it should be. Then its end is looked for by its
 * brackets. */
typedef int (*record_taker)(void *context, const char *text, size_t len, size_t *ret_len);

struct record_stream {
    record_sink sink;
    record_taker taker; /* or NULL: set by the owner, for records that need not be looked at twice */
    void *context;      /* of both */
    int state;
    int error;          /* sticky */
    unsigned int depth; /* open brackets of the value being passed over or collected */
    bool is_wrapped;    /* the list is in an object */
    bool has_list;      /* an array of objects, or an empty array, was found */
    bool has_records;   /* an array with objects was found */
    bool in_string;
    bool is_escaped;
    bool is_unfit; /* the record is too long or too deep */
    size_t max_record_bytes;
    struct strbuf partial; /* the start of a record, when its end has not arrived */
};

void record_stream_init(struct record_stream *stream, size_t max_record_bytes, record_sink sink,
                        void *context);
void record_stream_release(struct record_stream *stream);

/* 0, or for good: -ENOMSG (no list: not JSON, or JSON of another kind), -EBADMSG (a list, but damaged),
 * -ENOMEM, or what the sink returned. Records delivered before stay delivered. */
int record_stream_feed(struct record_stream *stream, const char *bytes, size_t len);

/* At the end of the text: -EBADMSG when it was cut off; else as record_stream_feed(). */
int record_stream_finish(struct record_stream *stream);

#endif
