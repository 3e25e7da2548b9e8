/* SPDX-License-Identifier: MIT */
/*
 * A state machine over bytes. The bulk of a list is strings inside records, so that is the loop to be fast.
 */
#include "api/record_stream.h"

#include <errno.h>
#include <string.h>

enum {
    STRING_STEP_BYTES = 512
};

enum state {
    STATE_START,        /* before anything */
    STATE_FIRST_RECORD, /* after the list's [ */
    STATE_NEXT_RECORD,  /* after a comma in the list */
    STATE_RECORD,       /* inside a record */
    STATE_AFTER_RECORD,
    STATE_FIRST_KEY, /* after the outer { */
    STATE_NEXT_KEY,  /* after a comma in the outer object */
    STATE_KEY,       /* inside a key of the outer object */
    STATE_COLON,
    STATE_VALUE,
    STATE_FIRST_ITEM, /* after the [ of a member: its first item tells whether it is the list */
    STATE_SKIP,       /* inside a value that is of no interest: a string or something in brackets */
    STATE_SCALAR,     /* inside a number, true, false or null */
    STATE_AFTER_VALUE,
    STATE_END,
};

void record_stream_init(struct record_stream *stream, size_t max_record_bytes, record_sink sink,
                        void *context)
{
    *stream = (struct record_stream){
        .sink = sink,
        .context = context,
        .state = STATE_START,
        .max_record_bytes = max_record_bytes,
        .partial = STRBUF_INIT(max_record_bytes),
    };
}

void record_stream_release(struct record_stream *stream)
{
    strbuf_release(&stream->partial);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Passes over what is left of a string, as far as it is here, and its quote. In steps: the quote is looked
 * for anew behind each backslash, of which there may be many, and it may be far away. */
static size_t pass_over_string(struct record_stream *stream, const char *bytes, size_t len)
{
    if (len > STRING_STEP_BYTES)
        len = STRING_STEP_BYTES;
    size_t skipped = stream->is_escaped ? 1 : 0;
    stream->is_escaped = false;
    const char *quote = memchr(bytes + skipped, '"', len - skipped);
    size_t end = quote != NULL ? (size_t)(quote - bytes) : len;
    const char *backslash = memchr(bytes + skipped, '\\', end - skipped);
    if (backslash != NULL) {
        stream->is_escaped = true;
        return (size_t)(backslash - bytes) + 1;
    }
    stream->in_string = quote == NULL;
    return quote != NULL ? end + 1 : len;
}

/* Outside strings, all but these says nothing. */
static bool is_structure(char c)
{
    static const bool structure[256] = {['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true};
    return structure[(unsigned char)c];
}

static void note_structure(struct record_stream *stream, char c)
{
    if (c == '"') {
        stream->in_string = true;
    } else if (c == '{' || c == '[') {
        stream->depth++;
        stream->is_unfit |= stream->depth > RECORD_DEPTH_MAX;
    } else {
        stream->depth--;
    }
}

/* Passes over a bracketed value or a string that is open, up to and with its last byte. The number of bytes;
 * *ret_is_done when it ended within them. */
static size_t pass_over(struct record_stream *stream, const char *bytes, size_t len, bool *ret_is_done)
{
    size_t i = 0;
    *ret_is_done = false;
    while (i < len && !*ret_is_done) {
        if (stream->in_string) {
            i += pass_over_string(stream, bytes + i, len - i);
        } else {
            while (i < len && !is_structure(bytes[i]))
                i++;
            if (i < len)
                note_structure(stream, bytes[i++]);
            else
                break;
        }
        *ret_is_done = stream->depth == 0 && !stream->in_string;
    }
    return i;
}

/* ---------------------------------------------------------------- records */

static int deliver(struct record_stream *stream, const char *bytes, size_t len)
{
    if (stream->partial.len > 0) {
        strbuf_append(&stream->partial, bytes, len);
        bytes = strbuf_str(&stream->partial);
        len = stream->partial.len;
    }
    if (stream->partial.error == -ENOMEM)
        return -ENOMEM;
    bool is_fit = !stream->is_unfit && stream->partial.error == 0 && len <= stream->max_record_bytes;
    int rc = is_fit ? stream->sink(stream->context, bytes, len) : stream->sink(stream->context, NULL, 0);
    strbuf_clear(&stream->partial);
    return rc;
}

static int feed_record(struct record_stream *stream, const char *bytes, size_t len, size_t *ret_used)
{
    bool is_done;
    *ret_used = pass_over(stream, bytes, len, &is_done);
    if (is_done) {
        stream->state = STATE_AFTER_RECORD;
        return deliver(stream, bytes, *ret_used);
    }
    /* A ceiling that is met is the buffer's sticky error: the rest is passed over without being kept. */
    if (!stream->is_unfit && strbuf_append(&stream->partial, bytes, *ret_used) == -ENOMEM)
        return -ENOMEM;
    return 0;
}

/* Most records end where they began, in one piece: then nothing has to be found out about them here. */
static int take_record(struct record_stream *stream, const char *bytes, size_t len, size_t *ret_used)
{
    if (len > stream->max_record_bytes)
        len = stream->max_record_bytes;
    int rc = stream->taker(stream->context, bytes, len, ret_used);
    if (*ret_used > 0)
        stream->state = STATE_AFTER_RECORD;
    return rc;
}

static int begin_record(struct record_stream *stream, const char *bytes, size_t len, size_t *ret_used)
{
    if (stream->is_wrapped && stream->state == STATE_FIRST_ITEM && stream->has_records)
        return -EBADMSG; /* which of two arrays is the list, nobody can say */
    stream->has_list = true;
    stream->has_records = true;
    stream->state = STATE_RECORD;
    stream->depth = 0;
    stream->in_string = false;
    stream->is_escaped = false;
    stream->is_unfit = false;
    return stream->taker != NULL ? take_record(stream, bytes, len, ret_used) : 0;
}

static int end_list(struct record_stream *stream)
{
    stream->has_list = true;
    stream->state = stream->is_wrapped ? STATE_AFTER_VALUE : STATE_END;
    return 0;
}

/* ---------------------------------------------------------------- the outer object */

static void begin_skip(struct record_stream *stream, unsigned int depth, bool in_string, int state)
{
    stream->state = state;
    stream->depth = depth;
    stream->in_string = in_string;
    stream->is_escaped = false;
    stream->is_unfit = false;
}

static int feed_skipped(struct record_stream *stream, const char *bytes, size_t len, size_t *ret_used)
{
    bool is_done;
    *ret_used = pass_over(stream, bytes, len, &is_done);
    if (is_done)
        stream->state = stream->state == STATE_KEY ? STATE_COLON : STATE_AFTER_VALUE;
    return stream->is_unfit ? -EBADMSG : 0;
}

static int begin_value(struct record_stream *stream, char c)
{
    if (c == '[')
        stream->state = STATE_FIRST_ITEM;
    else if (c == '{')
        begin_skip(stream, 1, false, STATE_SKIP);
    else if (c == '"')
        begin_skip(stream, 0, true, STATE_SKIP);
    else if (strchr("-0123456789tfn", c) != NULL && c != '\0')
        stream->state = STATE_SCALAR;
    else
        return -EBADMSG;
    return 0;
}

static int end_object(struct record_stream *stream)
{
    stream->state = STATE_END;
    return stream->has_list ? 0 : -ENOMSG;
}

/* ---------------------------------------------------------------- one byte between values */

static int damaged(const struct record_stream *stream)
{
    return stream->has_list || (stream->state != STATE_START && !stream->is_wrapped) ? -EBADMSG : -ENOMSG;
}

static int feed_start(struct record_stream *stream, char c)
{
    if (c == '[') {
        stream->state = STATE_FIRST_RECORD;
        return 0;
    }
    if (c != '{')
        return -ENOMSG;
    stream->is_wrapped = true;
    stream->state = STATE_FIRST_KEY;
    return 0;
}

static int feed_between_records(struct record_stream *stream, char c)
{
    if (stream->state == STATE_AFTER_RECORD && c == ',') {
        stream->state = STATE_NEXT_RECORD;
        return 0;
    }
    if (stream->state != STATE_NEXT_RECORD && c == ']')
        return end_list(stream);
    return damaged(stream);
}

static int feed_between_members(struct record_stream *stream, char c)
{
    switch (stream->state) {
    case STATE_FIRST_KEY:
    case STATE_NEXT_KEY:
        if (c == '"') {
            begin_skip(stream, 0, true, STATE_KEY);
            return 0;
        }
        return c == '}' && stream->state == STATE_FIRST_KEY ? end_object(stream) : damaged(stream);
    case STATE_COLON:
        stream->state = STATE_VALUE;
        return c == ':' ? 0 : damaged(stream);
    case STATE_VALUE:
        return begin_value(stream, c) == 0 ? 0 : damaged(stream);
    default: /* STATE_AFTER_VALUE */
        stream->state = STATE_NEXT_KEY;
        if (c == ',')
            return 0;
        return c == '}' ? end_object(stream) : damaged(stream);
    }
}

static int feed_byte(struct record_stream *stream, char c)
{
    switch (stream->state) {
    case STATE_START:
        return feed_start(stream, c);
    case STATE_FIRST_RECORD:
    case STATE_NEXT_RECORD:
    case STATE_AFTER_RECORD:
        return feed_between_records(stream, c);
    case STATE_FIRST_ITEM:
        if (c == ']')
            return end_list(stream);
        begin_skip(stream, 1, false, STATE_SKIP); /* an array of something else */
        return 0;
    case STATE_END:
        return damaged(stream);
    default:
        return feed_between_members(stream, c);
    }
}

static bool expects_record(const struct record_stream *stream)
{
    return stream->state == STATE_FIRST_RECORD || stream->state == STATE_NEXT_RECORD ||
           stream->state == STATE_FIRST_ITEM;
}

/* Takes at least one byte, or changes the state. */
static int feed_some(struct record_stream *stream, const char *bytes, size_t len, size_t *ret_used)
{
    *ret_used = 0;
    if (stream->state == STATE_RECORD)
        return feed_record(stream, bytes, len, ret_used);
    if (stream->state == STATE_SKIP || stream->state == STATE_KEY)
        return feed_skipped(stream, bytes, len, ret_used);
    if (stream->state == STATE_SCALAR) {
        if (strchr(",} \t\r\n", *bytes) != NULL && *bytes != '\0')
            stream->state = STATE_AFTER_VALUE;
        else
            *ret_used = 1;
        return 0;
    }
    if (is_space(*bytes)) {
        *ret_used = 1;
        return 0;
    }
    if (expects_record(stream) && *bytes == '{')
        return begin_record(stream, bytes, len, ret_used);
    /* The first item of an array of another kind is part of what is passed over. */
    *ret_used = stream->state == STATE_FIRST_ITEM && *bytes != ']' ? 0 : 1;
    return feed_byte(stream, *bytes);
}

int record_stream_feed(struct record_stream *stream, const char *bytes, size_t len)
{
    while (stream->error == 0 && len > 0) {
        size_t used;
        stream->error = feed_some(stream, bytes, len, &used);
        bytes += used;
        len -= used;
    }
    return stream->error;
}

int record_stream_finish(struct record_stream *stream)
{
    if (stream->error == 0 && stream->state != STATE_END)
        stream->error = stream->state == STATE_START ? -ENOMSG : -EBADMSG;
    return stream->error;
}
