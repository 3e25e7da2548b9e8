/* SPDX-License-Identifier: MIT */
/*
 * A list reader splits a list of records while its JSON text (RFC 8259) arrives. It passes each record to a
 * sink as soon as the record's last byte has arrived, and never has the whole list in memory. A list is an
 * array of objects, or an object with exactly one array of objects in it (interface section 1).
 *
 * The reader finds only the beginning and end of a record, by its brackets; the sink parses the record. After
 * an unreadable record the reader continues with the next. It counts all records, and keeps the reason for
 * the first unreadable one. Memory is bounded by one record and 1 MB of text around the list.
 */
#ifndef INBOXFS_API_LIST_READER_H
#define INBOXFS_API_LIST_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

enum {
    LIST_REASON_MAX_BYTES = 160
};

/* Receives the text of one object, from `{` to the matching bracket; the text may be invalid. Return: 0; a
 * positive errno if the record is unreadable (EILSEQ: not UTF-8; EEXIST: a key twice in an object; EBADMSG:
 * not JSON; or others); -errno to stop reading the list. */
typedef int (*record_sink)(void *context, const char *text, size_t len);

struct list_reader {
    record_sink sink;
    void *context; /* argument of the sink; borrowed */
    size_t max_record_bytes;
    size_t max_records; /* one more record stops the reading */
    unsigned int count; /* number of records so far, including unreadable ones */
    int stopped_by;     /* -errno of the sink; -EOVERFLOW after max_records; 0 if not stopped */
    char reason[LIST_REASON_MAX_BYTES]; /* reason for the first unreadable record, or "" */
    /* The fields below are private. */
    int part;
    int error;        /* -errno that all later calls return; 0 if none */
    long depth;       /* number of open brackets in the frame or record */
    char previous;    /* last byte of the frame or list, except blanks */
    bool is_wrapped;  /* the list is in an object */
    bool has_list;    /* an array of objects, or an empty array, was found */
    bool has_records; /* an array with objects was found */
    bool in_string;
    bool is_escaped;
    struct strbuf frame;   /* the text around the records */
    struct strbuf partial; /* the start of a record whose end has not arrived */
};

void list_reader_init(struct list_reader *reader, size_t max_record_bytes, size_t max_records,
                      record_sink sink, void *context);
void list_reader_release(struct list_reader *reader);

/* Reads the next bytes of the text. Return: 0; -ENOMSG if the text is not a list; -EBADMSG if the list is
 * damaged; or `stopped_by`. All later calls return the same error. */
int list_reader_feed(struct list_reader *reader, const char *bytes, size_t len);

/* Ends the text. Return: as list_reader_feed(); -EBADMSG also if the list was cut off. */
int list_reader_finish(struct list_reader *reader);

#endif
