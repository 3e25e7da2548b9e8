/* SPDX-License-Identifier: MIT */
/*
 * Takes a list of records apart while its JSON text (RFC 8259) is still arriving: each record is handed on as
 * soon as its last byte is here, and no list is in memory whole. A list is an array of objects, or an object
 * with exactly one array of objects in it (interface section 1).
 *
 * Only where a record begins and ends is found here, by its brackets; whoever gets it reads it. A record that
 * cannot be read hides no other: it is counted, and the reason for the first of them is kept. Memory is
 * bounded by one record and 1 MB of what stands around the list, work by the number of records that are
 * taken.
 */
#ifndef INBOXFS_API_LIST_READER_H
#define INBOXFS_API_LIST_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

enum {
    LIST_REASON_MAX_BYTES = 160
};

/* Gets the text of one object, from `{` to the bracket that closes it, not yet known to be valid. 0; a
 * positive errno: it cannot be read (EILSEQ: not UTF-8, EEXIST: a key twice in an object, EBADMSG: not JSON,
 * others); -errno: no more of the list is wanted. */
typedef int (*record_sink)(void *context, const char *text, size_t len);

struct list_reader {
    record_sink sink;
    void (*pause)(void *context); /* all that has arrived was handed on, and more is waited for; or NULL */
    void *context;                /* of both; borrowed */
    size_t max_record_bytes;
    size_t max_records; /* the next one stops the list */
    unsigned int count; /* records so far, those that cannot be read too */
    int stopped_by;     /* -errno of the sink, or -EOVERFLOW: too many records; 0: nobody did */
    char reason[LIST_REASON_MAX_BYTES]; /* of the first record that cannot be read; "": there is none */
    /* The rest is the reader's own. */
    int part;
    int error;        /* sticky */
    long depth;       /* open brackets of the frame or the record */
    char previous;    /* in the frame or the list, but for blanks */
    bool is_wrapped;  /* the list is in an object */
    bool has_list;    /* an array of objects, or an empty array, was found */
    bool has_records; /* an array with objects was found */
    bool in_string;
    bool is_escaped;
    struct strbuf frame;   /* what stands around the records */
    struct strbuf partial; /* the start of a record, when its end has not arrived */
};

void list_reader_init(struct list_reader *reader, size_t max_record_bytes, size_t max_records,
                      record_sink sink, void *context);
void list_reader_release(struct list_reader *reader);

/* The next bytes of the text. 0, or for good: -ENOMSG (no list: not JSON, or JSON of another kind), -EBADMSG
 * (a list, but damaged), -ENOMEM, or `stopped_by`. */
int list_reader_feed(struct list_reader *reader, const char *bytes, size_t len);

/* At the end of the text: -EBADMSG when it was cut off; else as list_reader_feed(). */
int list_reader_finish(struct list_reader *reader);

#endif
