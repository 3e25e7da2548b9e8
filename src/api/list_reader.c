/* SPDX-License-Identifier: MIT */
/*
 * The states follow the grammar of the outer value. Inside a record, and inside a value of no interest, only
 * strings and brackets are told apart; most of a list is strings, and memchr(3) finds their ends.
 */
#include "api/list_reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/character.h"

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

void list_reader_init(struct list_reader *reader, size_t max_record_bytes, size_t max_records,
                      record_sink sink, void *context)
{
    *reader = (struct list_reader){
        .sink = sink,
        .context = context,
        .max_record_bytes = max_record_bytes,
        .max_records = max_records,
        .state = STATE_START,
        .partial = STRBUF_INIT(max_record_bytes),
    };
}

void list_reader_release(struct list_reader *reader)
{
    strbuf_release(&reader->partial);
}

/* Passes over what is left of a string, as far as it is here, and its quote. In steps: the quote is looked
 * for anew behind each backslash, of which there may be many, and it may be far away. */
static size_t pass_over_string(struct list_reader *reader, const char *bytes, size_t len)
{
    if (len > STRING_STEP_BYTES)
        len = STRING_STEP_BYTES;
    size_t skipped = reader->is_escaped ? 1 : 0;
    reader->is_escaped = false;
    const char *quote = memchr(bytes + skipped, '"', len - skipped);
    size_t end = quote != NULL ? (size_t)(quote - bytes) : len;
    /* The character before a quote tells whether that one is escaped. */
    bool may_be_escaped = quote == NULL || (end > skipped && quote[-1] == '\\');
    const char *backslash = may_be_escaped ? memchr(bytes + skipped, '\\', end - skipped) : NULL;
    if (backslash != NULL) {
        reader->is_escaped = true;
        return (size_t)(backslash - bytes) + 1;
    }
    reader->in_string = quote == NULL;
    return quote != NULL ? end + 1 : len;
}

/* Outside strings, all but these says nothing. */
static bool is_structure(char c)
{
    static const bool structure[256] = {['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true};
    return structure[(unsigned char)c];
}

static void note_structure(struct list_reader *reader, char c)
{
    if (c == '"') {
        reader->in_string = true;
    } else if (c == '{' || c == '[') {
        reader->depth++;
        reader->is_unfit |= reader->depth > LIST_DEPTH_MAX;
    } else {
        reader->depth--;
    }
}

/* Passes over a bracketed value or a string that is open, up to and with its last byte. The number of bytes;
 * *ret_is_done when it ended within them. */
static size_t pass_over(struct list_reader *reader, const char *bytes, size_t len, bool *ret_is_done)
{
    size_t i = 0;
    *ret_is_done = false;
    while (i < len && !*ret_is_done) {
        if (reader->in_string) {
            i += pass_over_string(reader, bytes + i, len - i);
        } else {
            while (i < len && !is_structure(bytes[i]))
                i++;
            if (i < len)
                note_structure(reader, bytes[i++]);
            else
                break;
        }
        *ret_is_done = reader->depth == 0 && !reader->in_string;
    }
    return i;
}

/* ---------------------------------------------------------------- records */

static const char *words_of(int error)
{
    switch (error) {
    case EILSEQ:
        return "invalid UTF-8";
    case EEXIST:
        return "a key twice in an object";
    case EBADMSG:
        return "invalid JSON";
    default:
        return "too long, nested too deep, or without what every record has";
    }
}

/* `text` is NULL for a record that is too long or too deep. */
static int deliver(struct list_reader *reader, const char *text, size_t len)
{
    if (reader->count >= reader->max_records)
        return reader->stopped_by = -EOVERFLOW;
    int error = text != NULL ? reader->sink(reader->context, text, len) : EMSGSIZE;
    reader->count++;
    if (error < 0)
        return reader->stopped_by = error;
    if (error > 0 && reader->words[0] == '\0')
        snprintf(reader->words, sizeof(reader->words), "record %u of the list cannot be read: %s",
                 reader->count, words_of(error));
    return 0;
}

static int end_record(struct list_reader *reader, const char *bytes, size_t len)
{
    struct strbuf *partial = &reader->partial;
    if (partial->len > 0) {
        strbuf_append(partial, bytes, len);
        bytes = strbuf_str(partial);
        len = partial->len;
    }
    if (partial->error == -ENOMEM)
        return -ENOMEM;
    bool is_fit = !reader->is_unfit && partial->error == 0 && len <= reader->max_record_bytes;
    int error = deliver(reader, is_fit ? bytes : NULL, len);
    strbuf_clear(partial);
    reader->state = STATE_AFTER_RECORD;
    return error;
}

static int feed_record(struct list_reader *reader, const char *bytes, size_t len, size_t *ret_used)
{
    bool is_done;
    *ret_used = pass_over(reader, bytes, len, &is_done);
    if (is_done)
        return end_record(reader, bytes, *ret_used);
    /* A ceiling that is met is the buffer's sticky error: the rest is passed over without being kept. */
    if (!reader->is_unfit && strbuf_append(&reader->partial, bytes, *ret_used) == -ENOMEM)
        return -ENOMEM;
    return 0;
}

static int begin_record(struct list_reader *reader)
{
    if (reader->is_wrapped && reader->state == STATE_FIRST_ITEM && reader->has_records)
        return -EBADMSG; /* which of two arrays is the list, nobody can say */
    reader->has_list = true;
    reader->has_records = true;
    reader->state = STATE_RECORD;
    reader->depth = 0;
    reader->in_string = false;
    reader->is_escaped = false;
    reader->is_unfit = false;
    return 0;
}

static int end_list(struct list_reader *reader)
{
    reader->has_list = true;
    reader->state = reader->is_wrapped ? STATE_AFTER_VALUE : STATE_END;
    return 0;
}

/* ---------------------------------------------------------------- the outer object */

static void begin_skip(struct list_reader *reader, unsigned int depth, bool in_string, int state)
{
    reader->state = state;
    reader->depth = depth;
    reader->in_string = in_string;
    reader->is_escaped = false;
    reader->is_unfit = false;
}

static int feed_skipped(struct list_reader *reader, const char *bytes, size_t len, size_t *ret_used)
{
    bool is_done;
    *ret_used = pass_over(reader, bytes, len, &is_done);
    if (is_done)
        reader->state = reader->state == STATE_KEY ? STATE_COLON : STATE_AFTER_VALUE;
    return reader->is_unfit ? -EBADMSG : 0;
}

static int begin_value(struct list_reader *reader, char c)
{
    if (c == '[')
        reader->state = STATE_FIRST_ITEM;
    else if (c == '{')
        begin_skip(reader, 1, false, STATE_SKIP);
    else if (c == '"')
        begin_skip(reader, 0, true, STATE_SKIP);
    else if (strchr("-0123456789tfn", c) != NULL && c != '\0')
        reader->state = STATE_SCALAR;
    else
        return -EBADMSG;
    return 0;
}

static int end_object(struct list_reader *reader)
{
    reader->state = STATE_END;
    return reader->has_list ? 0 : -ENOMSG;
}

/* ---------------------------------------------------------------- one byte between values */

static int damaged(const struct list_reader *reader)
{
    return reader->has_list || (reader->state != STATE_START && !reader->is_wrapped) ? -EBADMSG : -ENOMSG;
}

static int feed_start(struct list_reader *reader, char c)
{
    if (c == '[') {
        reader->state = STATE_FIRST_RECORD;
        return 0;
    }
    if (c != '{')
        return -ENOMSG;
    reader->is_wrapped = true;
    reader->state = STATE_FIRST_KEY;
    return 0;
}

static int feed_between_records(struct list_reader *reader, char c)
{
    if (reader->state == STATE_AFTER_RECORD && c == ',') {
        reader->state = STATE_NEXT_RECORD;
        return 0;
    }
    if (reader->state != STATE_NEXT_RECORD && c == ']')
        return end_list(reader);
    return damaged(reader);
}

static int feed_between_members(struct list_reader *reader, char c)
{
    switch (reader->state) {
    case STATE_FIRST_KEY:
    case STATE_NEXT_KEY:
        if (c == '"') {
            begin_skip(reader, 0, true, STATE_KEY);
            return 0;
        }
        return c == '}' && reader->state == STATE_FIRST_KEY ? end_object(reader) : damaged(reader);
    case STATE_COLON:
        reader->state = STATE_VALUE;
        return c == ':' ? 0 : damaged(reader);
    case STATE_VALUE:
        return begin_value(reader, c) == 0 ? 0 : damaged(reader);
    default: /* STATE_AFTER_VALUE */
        reader->state = STATE_NEXT_KEY;
        if (c == ',')
            return 0;
        return c == '}' ? end_object(reader) : damaged(reader);
    }
}

static int feed_byte(struct list_reader *reader, char c)
{
    switch (reader->state) {
    case STATE_START:
        return feed_start(reader, c);
    case STATE_FIRST_RECORD:
    case STATE_NEXT_RECORD:
    case STATE_AFTER_RECORD:
        return feed_between_records(reader, c);
    case STATE_FIRST_ITEM:
        if (c == ']')
            return end_list(reader);
        begin_skip(reader, 1, false, STATE_SKIP); /* an array of something else */
        return 0;
    case STATE_END:
        return damaged(reader);
    default:
        return feed_between_members(reader, c);
    }
}

static bool expects_record(const struct list_reader *reader)
{
    return reader->state == STATE_FIRST_RECORD || reader->state == STATE_NEXT_RECORD ||
           reader->state == STATE_FIRST_ITEM;
}

/* Takes at least one byte, or changes the state. */
static int feed_some(struct list_reader *reader, const char *bytes, size_t len, size_t *ret_used)
{
    *ret_used = 0;
    if (reader->state == STATE_RECORD)
        return feed_record(reader, bytes, len, ret_used);
    if (reader->state == STATE_SKIP || reader->state == STATE_KEY)
        return feed_skipped(reader, bytes, len, ret_used);
    if (reader->state == STATE_SCALAR) {
        if (strchr(",} \t\r\n", *bytes) != NULL && *bytes != '\0')
            reader->state = STATE_AFTER_VALUE;
        else
            *ret_used = 1;
        return 0;
    }
    if (character_is_blank(*bytes)) {
        *ret_used = 1;
        return 0;
    }
    if (expects_record(reader) && *bytes == '{')
        return begin_record(reader);
    /* The first item of an array of another kind is part of what is passed over. */
    *ret_used = reader->state == STATE_FIRST_ITEM && *bytes != ']' ? 0 : 1;
    return feed_byte(reader, *bytes);
}

int list_reader_feed(struct list_reader *reader, const char *bytes, size_t len)
{
    while (reader->error == 0 && len > 0) {
        size_t used;
        reader->error = feed_some(reader, bytes, len, &used);
        bytes += used;
        len -= used;
    }
    return reader->error;
}

int list_reader_finish(struct list_reader *reader)
{
    if (reader->error == 0 && reader->state != STATE_END)
        reader->error = reader->state == STATE_START ? -ENOMSG : -EBADMSG;
    return reader->error;
}
