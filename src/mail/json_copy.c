/* SPDX-License-Identifier: MIT */
/*
 * Recursive descent, as deep as JSON_COPY_DEPTH_MAX. What is written goes to its place without a call for
 * each byte or token: the room for it is there.
 */
#include "mail/json_copy.h"

#include <errno.h>
#include <string.h>

#include "base/plain_run.h"
#include "mail/json_writer.h"

enum {
    LINE_STEP_BYTES =
        16, /* within JSON_COPY_MARGIN_BYTES: so much is written of a line, however long it is */
};

void json_copy_init(struct json_copy *copy, struct strbuf *out, unsigned int indent)
{
    *copy = (struct json_copy){.out = out, .indent = indent};
    json_reader_init(&copy->reader, "", 0);
}

void json_copy_release(struct json_copy *copy)
{
    json_reader_release(&copy->reader);
}

/* ---------------------------------------------------------------- room */

void json_copy_end(struct json_copy *copy)
{
    strbuf_set_len(copy->out, json_copy_len(copy));
}

/* Room for `len` bytes besides what is always there; `out` knows its length. */
static int take_room(struct json_copy *copy, size_t len)
{
    struct strbuf *out = copy->out;
    int error = strbuf_reserve(out, json_reader_left(&copy->reader) + JSON_COPY_MARGIN_BYTES + len);
    if (error != 0)
        return error;
    copy->to = out->data + out->len;
    copy->room_end = out->data + out->capacity;
    return 0;
}

static int take_more_room(struct json_copy *copy, size_t len)
{
    json_copy_end(copy);
    return take_room(copy, len);
}

/* What makes the text longer by `len` bytes calls this first. */
static inline int need_room(struct json_copy *copy, size_t len)
{
    size_t room = (size_t)(copy->room_end - copy->to);
    return room > json_reader_left(&copy->reader) + JSON_COPY_MARGIN_BYTES + len ? 0
                                                                                 : take_more_room(copy, len);
}

int json_copy_begin(struct json_copy *copy, const char *text, size_t len)
{
    json_reader_restart(&copy->reader, text, len);
    strbuf_clear(copy->out);
    copy->depth = 0;
    copy->layout_bytes = 0;
    return take_room(copy, 0);
}

/* ---------------------------------------------------------------- layout */

static inline size_t indentation(const struct json_copy *copy)
{
    return (size_t)copy->depth * copy->indent;
}

/* Where the next line begins, behind so many blanks. There is room for it. */
static inline char *break_line(struct json_copy *copy, char *to, size_t blanks)
{
    static const char line[LINE_STEP_BYTES] = "\n               ";
    if (copy->indent == 0)
        return to;
    memcpy(to, line, LINE_STEP_BYTES);
    if (blanks >= LINE_STEP_BYTES)
        memset(to + 1, ' ', blanks);
    copy->layout_bytes += 1 + blanks;
    return to + 1 + blanks;
}

/* Writes `before`, a bracket or a comma, and begins the line of what follows it. */
static inline int begin_item(struct json_copy *copy, char before)
{
    size_t blanks = indentation(copy);
    int error = need_room(copy, strlen(",\n ") + blanks); /* the blank is one that a key brings */
    if (error != 0)
        return error;
    char *to = copy->to;
    *to = before;
    copy->to = break_line(copy, to + 1, blanks);
    return 0;
}

static int end_items(struct json_copy *copy, char bracket)
{
    copy->depth--;
    size_t blanks = indentation(copy);
    int error = need_room(copy, strlen("\n") + blanks);
    if (error != 0)
        return error;
    char *to = break_line(copy, copy->to, blanks);
    *to = bracket;
    copy->to = to + 1;
    return json_reader_take(&copy->reader, bracket) ? 0 : -EBADMSG;
}

/* ---------------------------------------------------------------- strings, numbers, words */

/* Copies a string that stands for itself. The quote at its end; NULL: it is another one, or none. */
static inline const char *copy_plain_string(struct json_copy *copy)
{
    struct json_reader *reader = &copy->reader;
    const char *end = reader->end;
    char *to = copy->to;
    if (reader->at == end || *reader->at != '"')
        return NULL;
    const char *text = reader->at + 1;
    size_t len = plain_run_copy(to + 1, text, (size_t)(end - text));
    if (text + len == end || text[len] != '"')
        return NULL;
    to[0] = '"';
    to[len + 1] = '"';
    copy->to = to + len + 2;
    reader->at = text + len + 1;
    return text + len;
}

__attribute__((noinline)) static int copy_odd_string(struct json_copy *copy, struct json_scalar *ret)
{
    int error = json_reader_take_string(&copy->reader, ret);
    if (error != 0)
        return error;
    json_copy_end(copy);
    error = json_append_quoted(copy->out, ret->text, ret->len);
    return error != 0 ? error : take_room(copy, 0);
}

__attribute__((noinline)) static int copy_odd_key(struct json_copy *copy)
{
    struct json_scalar key;
    return copy_odd_string(copy, &key);
}

static inline int copy_string(struct json_copy *copy, struct json_scalar *ret)
{
    const char *start = copy->reader.at;
    const char *end = copy_plain_string(copy);
    if (end == NULL)
        return copy_odd_string(copy, ret);
    const char *text = start + 1;
    *ret = (struct json_scalar){.kind = JSON_SCALAR_STRING, .text = text, .len = (size_t)(end - text)};
    return 0;
}

static int copy_number(struct json_copy *copy, struct json_scalar *ret)
{
    int error = json_reader_take_number(&copy->reader, ret);
    if (error != 0)
        return error;
    memcpy(copy->to, ret->text, ret->len);
    copy->to += ret->len;
    return 0;
}

static inline int copy_word(struct json_copy *copy, const char *word, size_t len, struct json_scalar *ret)
{
    struct json_reader *reader = &copy->reader;
    if (json_reader_left(reader) < len || memcmp(reader->at, word, len) != 0)
        return -EBADMSG;
    memcpy(copy->to, word, len);
    *ret = (struct json_scalar){.kind = JSON_SCALAR_WORD, .text = reader->at, .len = len};
    copy->to += len;
    reader->at += len;
    return 0;
}

/* ---------------------------------------------------------------- values */

static inline int copy_key(struct json_copy *copy, char before)
{
    int error = begin_item(copy, before);
    if (error != 0)
        return error;
    json_reader_skip_blanks(&copy->reader);
    if (copy_plain_string(copy) == NULL && (error = copy_odd_key(copy)) != 0)
        return error;
    if (!json_reader_take(&copy->reader, ':'))
        return -EBADMSG;
    char *to = copy->to;
    bool is_spaced = copy->indent > 0;
    to[0] = ':';
    to[1] = ' ';
    copy->to = to + 1 + is_spaced;
    copy->layout_bytes += is_spaced;
    return 0;
}

int json_copy_new_key(struct json_copy *copy, char before, struct json_known_key *ret_key)
{
    const char *from = copy->reader.at;
    size_t written = json_copy_len(copy);
    size_t layout = copy->layout_bytes;
    int error = copy_key(copy, before);
    size_t read_len = (size_t)(copy->reader.at - from);
    size_t written_len = json_copy_len(copy) - written;
    *ret_key = (struct json_known_key){.read_len = 0};
    if (error != 0 || read_len > JSON_KNOWN_KEY_BYTES || written_len > JSON_KNOWN_KEY_BYTES)
        return error;
    ret_key->read_len = (uint8_t)read_len;
    ret_key->written_len = (uint8_t)written_len;
    ret_key->layout_len = (uint8_t)(copy->layout_bytes - layout);
    memcpy(ret_key->read, from, read_len);
    memcpy(ret_key->written, copy->out->data + written, written_len);
    return 0;
}

bool json_copy_known_key(struct json_copy *copy, const struct json_known_key *key)
{
    struct json_reader *reader = &copy->reader;
    if (key->read_len == 0 || json_reader_left(reader) < key->read_len ||
        memcmp(reader->at, key->read, key->read_len) != 0 || need_room(copy, key->written_len) != 0)
        return false;
    memcpy(copy->to, key->written, JSON_KNOWN_KEY_BYTES);
    copy->to += key->written_len;
    reader->at += key->read_len;
    copy->layout_bytes += key->layout_len;
    return true;
}

static int copy_items(struct json_copy *copy, bool are_members)
{
    struct json_scalar unused;
    char before = are_members ? '{' : '[';
    do {
        int error = are_members ? copy_key(copy, before) : begin_item(copy, before);
        if (error == 0)
            error = json_copy_value(copy, &unused);
        if (error != 0)
            return error;
        before = ',';
    } while (json_reader_take(&copy->reader, ','));
    return 0;
}

static int copy_bracketed(struct json_copy *copy, char bracket, char end_bracket)
{
    if (copy->depth == JSON_COPY_DEPTH_MAX)
        return -EMSGSIZE;
    copy->reader.at++;
    if (json_reader_take(&copy->reader, end_bracket)) {
        char *to = copy->to;
        to[0] = bracket;
        to[1] = end_bracket;
        copy->to = to + 2;
        return 0;
    }
    copy->depth++;
    int error = copy_items(copy, bracket == '{');
    return error != 0 ? error : end_items(copy, end_bracket);
}

int json_copy_value(struct json_copy *copy, struct json_scalar *ret)
{
    json_reader_skip_blanks(&copy->reader);
    if (copy->reader.at == copy->reader.end)
        return -EBADMSG;
    ret->kind = JSON_SCALAR_OTHER;
    switch (*copy->reader.at) {
    case '"':
        return copy_string(copy, ret);
    case '{':
        return copy_bracketed(copy, '{', '}');
    case '[':
        return copy_bracketed(copy, '[', ']');
    case 't':
        return copy_word(copy, "true", strlen("true"), ret);
    case 'f':
        return copy_word(copy, "false", strlen("false"), ret);
    case 'n':
        return copy_word(copy, "null", strlen("null"), ret);
    default:
        return copy_number(copy, ret);
    }
}

int json_copy_all(struct json_copy *copy, const char *text, size_t len)
{
    struct json_scalar unused;
    int error = json_copy_begin(copy, text, len);
    if (error == 0)
        error = json_copy_value(copy, &unused);
    if (error == 0 && !json_reader_is_at_end(&copy->reader))
        error = -EBADMSG;
    if (error == 0)
        json_copy_end(copy);
    return error;
}
