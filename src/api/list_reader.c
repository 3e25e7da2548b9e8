/* SPDX-License-Identifier: MIT */
/*
 * The text around the records is the *frame*: the reader collects it, with an empty array in place of the
 * list, and jansson checks it at the end.
 */
#include "api/list_reader.h"

#include <errno.h>
#include <stdio.h>

#include "base/character.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"

enum {
    FRAME_MAX_BYTES = 1024 * 1024
};

enum part {
    PART_FRAME,
    PART_LIST,   /* between two records */
    PART_RECORD, /* inside a record */
};

void list_reader_init(struct list_reader *reader, size_t max_record_bytes, size_t max_records,
                      record_sink sink, void *context)
{
    *reader = (struct list_reader){
        .sink = sink,
        .context = context,
        .max_record_bytes = max_record_bytes,
        .max_records = max_records,
        .part = PART_FRAME,
        .frame = STRBUF_INIT(FRAME_MAX_BYTES),
        .partial = STRBUF_INIT(max_record_bytes),
    };
}

void list_reader_release(struct list_reader *reader)
{
    strbuf_release(&reader->frame);
    strbuf_release(&reader->partial);
}

/* Returns the number of bytes skipped: 1, or more inside a string. Tracks only strings and brackets. */
static size_t skip_in_value(struct list_reader *reader, const char *bytes, size_t len)
{
    if (!reader->in_string) {
        reader->in_string = *bytes == '"';
        reader->depth += *bytes == '{' || *bytes == '[';
        reader->depth -= *bytes == '}' || *bytes == ']';
        return 1;
    }
    size_t plain = reader->is_escaped ? 0 : json_plain_len(bytes, len);
    if (plain == len)
        return len;
    reader->in_string = reader->is_escaped || bytes[plain] != '"';
    reader->is_escaped = !reader->is_escaped && bytes[plain] == '\\';
    return plain + 1;
}

/* ---------------------------------------------------------------- records */

/* `text` is NULL for a record that is too long. */
static int deliver_record(struct list_reader *reader, const char *text, size_t len)
{
    if (reader->count >= reader->max_records)
        return reader->stopped_by = -EOVERFLOW;
    int error = text != NULL ? reader->sink(reader->context, text, len) : EMSGSIZE;
    reader->count++;
    if (error < 0)
        return reader->stopped_by = error;
    if (error > 0 && reader->reason[0] == '\0')
        snprintf(reader->reason, sizeof(reader->reason), "record %u of the list cannot be read: %s",
                 reader->count,
                 error == EILSEQ    ? "invalid UTF-8"
                 : error == EEXIST  ? "a key twice in an object"
                 : error == EBADMSG ? "invalid JSON"
                                    : "too long, nested too deep, or without what every record has");
    return 0;
}

/* Collects a record until its end. Bytes beyond max_record_bytes are dropped. */
static int feed_record(struct list_reader *reader, const char *bytes, size_t len, size_t *ret_used)
{
    struct strbuf *partial = &reader->partial;
    size_t used = 0;
    do
        used += skip_in_value(reader, bytes + used, len - used);
    while (used < len && reader->depth > 0);
    *ret_used = used;
    if (reader->depth > 0) {
        strbuf_append(partial, bytes, used);
        return 0;
    }
    if (partial->len > 0 || partial->error != 0) {
        strbuf_append(partial, bytes, used);
        bytes = partial->data;
        used = partial->len;
    }
    bool is_fit = partial->error == 0 && used <= reader->max_record_bytes;
    int error = deliver_record(reader, is_fit ? bytes : NULL, used);
    strbuf_clear(partial);
    reader->part = PART_LIST;
    reader->previous = '}';
    return error;
}

static int feed_list(struct list_reader *reader, char c, size_t *ret_used)
{
    bool is_next = reader->previous != '}'; /* the last byte was `[` or `,` */
    if (c == '{' && is_next) {
        reader->part = PART_RECORD;
        reader->depth = 0;
        *ret_used = 0;
    } else if (c == ']' && reader->previous != ',') {
        reader->part = PART_FRAME;
        reader->depth = reader->is_wrapped;
        strbuf_append_char(&reader->frame, c);
    } else if (c != ',' || is_next) {
        return -EBADMSG;
    }
    reader->previous = c;
    return 0;
}

/* ---------------------------------------------------------------- the frame */

static int begin_list(struct list_reader *reader)
{
    if (reader->has_records)
        return -EBADMSG; /* two arrays of objects: either could be the list */
    reader->part = PART_LIST;
    reader->has_list = true;
    reader->has_records = true;
    return 0;
}

/* Returns the result of list_reader_feed() for an error in the frame. */
static int choose_frame_error(const struct list_reader *reader)
{
    return reader->has_list ? -EBADMSG : -ENOMSG;
}

static int feed_frame(struct list_reader *reader, const char *bytes, size_t len, size_t *ret_used)
{
    bool is_first = reader->frame.len == 0;
    bool is_in_array = !reader->in_string && reader->depth == 2 && reader->previous == '[';
    if (is_first && *bytes != '[' && *bytes != '{')
        return -ENOMSG;
    if (is_in_array && *bytes == '{') {
        *ret_used = 0;
        return begin_list(reader);
    }
    reader->has_list |= is_in_array && *bytes == ']';
    reader->previous = reader->in_string ? '"' : *bytes; /* a string may arrive in several pieces */
    *ret_used = skip_in_value(reader, bytes, len);
    if (strbuf_append(&reader->frame, bytes, *ret_used) != 0)
        return choose_frame_error(reader);
    if (is_first && *bytes == '[')
        return begin_list(reader);
    reader->is_wrapped = true;
    return 0;
}

int list_reader_feed(struct list_reader *reader, const char *bytes, size_t len)
{
    while (reader->error == 0 && len > 0) {
        size_t used = 1;
        if (reader->part == PART_RECORD)
            reader->error = feed_record(reader, bytes, len, &used);
        else if (!reader->in_string && character_is_blank(*bytes))
            reader->error = 0;
        else if (reader->part == PART_LIST)
            reader->error = feed_list(reader, *bytes, &used);
        else
            reader->error = feed_frame(reader, bytes, len, &used);
        bytes += used;
        len -= used;
    }
    return reader->error;
}

int list_reader_finish(struct list_reader *reader)
{
    json_t *frame = NULL;
    if (reader->error != 0)
        return reader->error;
    int error = json_value_read(strbuf_str(&reader->frame), reader->frame.len, 0, &frame);
    json_decref(frame);
    if (error != 0 || !reader->has_list)
        reader->error = choose_frame_error(reader);
    return reader->error;
}
