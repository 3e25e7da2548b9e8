/* SPDX-License-Identifier: MIT */
/*
 * Each call appends its value at once, after the comma, line break and indentation that belong before it.
 * Runs of bytes that need no escape are copied whole. Real numbers are written as jansson writes them.
 */
#include "mail/json_writer.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/character.h"
#include "mail/date.h"

static const char replacement_character[] = "\xef\xbf\xbd";

void json_writer_init(struct json_writer *writer, struct strbuf *out, unsigned int indent)
{
    *writer = (struct json_writer){.out = out, .indent = indent, .is_empty = true};
}

static void break_line(struct json_writer *writer)
{
    static const char blanks[] = "                                ";
    if (writer->indent == 0)
        return;
    size_t left = (size_t)writer->depth * writer->indent;
    writer->layout_bytes += 1 + left;
    strbuf_append_char(writer->out, '\n');
    while (left > 0) {
        size_t step = left < strlen(blanks) ? left : strlen(blanks);
        strbuf_append(writer->out, blanks, step);
        left -= step;
    }
}

/* Appends the comma and the line break before a value or a key. */
static void begin_value(struct json_writer *writer)
{
    if (writer->after_key) {
        writer->after_key = false;
        return;
    }
    if (writer->depth == 0)
        return;
    if (!writer->is_empty)
        strbuf_append_char(writer->out, ',');
    writer->is_empty = false;
    break_line(writer);
}

static void begin_container(struct json_writer *writer, char bracket)
{
    begin_value(writer);
    strbuf_append_char(writer->out, bracket);
    writer->depth++;
    writer->is_empty = true;
}

static void end_container(struct json_writer *writer, char bracket)
{
    writer->depth--;
    if (!writer->is_empty)
        break_line(writer);
    strbuf_append_char(writer->out, bracket);
    writer->is_empty = false;
}

void json_begin_object(struct json_writer *writer)
{
    begin_container(writer, '{');
}

void json_end_object(struct json_writer *writer)
{
    end_container(writer, '}');
}

void json_begin_array(struct json_writer *writer)
{
    begin_container(writer, '[');
}

void json_end_array(struct json_writer *writer)
{
    end_container(writer, ']');
}

static void append_escape(struct strbuf *out, uint32_t c)
{
    static const char letters[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\'};
    if (c < sizeof(letters) && letters[c] != '\0') {
        strbuf_append_char(out, '\\');
        strbuf_append_char(out, letters[c]);
    } else {
        strbuf_appendf(out, "\\u%04x", (unsigned int)c);
    }
}

/* Compares 16 bytes at once; as signed chars, bytes beyond ASCII are negative, and thus below 0x20. */
typedef signed char text_step __attribute__((vector_size(16)));

size_t json_plain_len(const char *text, size_t len)
{
    size_t i = 0;
    for (text_step step; i + sizeof(step) <= len; i += sizeof(step)) {
        uint64_t halves[2];
        memcpy(&step, text + i, sizeof(step));
        text_step special = (step < 0x20) | (step == 0x7f) | (step == '"') | (step == '\\');
        memcpy(halves, &special, sizeof(halves));
        if (halves[0] != 0)
            return i + (size_t)__builtin_ctzll(le64toh(halves[0])) / 8;
        if (halves[1] != 0)
            return i + 8 + (size_t)__builtin_ctzll(le64toh(halves[1])) / 8;
    }
    while (i < len && text[i] >= 0x20 && text[i] < 0x7f && text[i] != '"' && text[i] != '\\')
        i++;
    return i;
}

void json_write_string_n(struct json_writer *writer, const char *text, size_t len)
{
    struct strbuf *out = writer->out;
    const char *text_end = text + len;
    const char *run = text; /* beginning of the bytes to copy unchanged */
    const char *at = text;

    begin_value(writer);
    strbuf_append_char(out, '"');
    while ((at += json_plain_len(at, (size_t)(text_end - at))) < text_end) {
        const struct character character = character_at(at, (size_t)(text_end - at));
        const char *next = at + character.len;
        if (character.kind == CHARACTER_PLAIN && character.code >= 0x80) {
            at = next;
            continue;
        }
        strbuf_append(out, run, (size_t)(at - run));
        if (character.kind == CHARACTER_INVALID)
            strbuf_append_str(out, replacement_character);
        else
            append_escape(out, character.code);
        run = at = next;
    }
    strbuf_append(out, run, (size_t)(at - run));
    strbuf_append_char(out, '"');
}

void json_end_key(struct json_writer *writer)
{
    bool is_spaced = writer->indent > 0;
    strbuf_append(writer->out, ": ", 1U + is_spaced);
    writer->layout_bytes += is_spaced;
    writer->after_key = true;
}

void json_key(struct json_writer *writer, const char *key)
{
    json_write_string_n(writer, key, strlen(key));
    json_end_key(writer);
}

void json_write_string(struct json_writer *writer, const char *text)
{
    if (text == NULL)
        json_write_null(writer);
    else
        json_write_string_n(writer, text, strlen(text));
}

void json_write_integer(struct json_writer *writer, int64_t number)
{
    begin_value(writer);
    strbuf_appendf(writer->out, "%" PRId64, number);
}

void json_write_boolean(struct json_writer *writer, bool value)
{
    if (value)
        json_write_verbatim(writer, "true", 4);
    else
        json_write_verbatim(writer, "false", 5);
}

void json_write_null(struct json_writer *writer)
{
    json_write_verbatim(writer, "null", 4);
}

void json_write_verbatim(struct json_writer *writer, const char *json, size_t len)
{
    begin_value(writer);
    strbuf_append(writer->out, json, len);
}

void json_member_string(struct json_writer *writer, const char *key, const char *text)
{
    json_key(writer, key);
    json_write_string(writer, text);
}

void json_member_integer(struct json_writer *writer, const char *key, int64_t number)
{
    json_key(writer, key);
    json_write_integer(writer, number);
}

void json_member_boolean(struct json_writer *writer, const char *key, bool value)
{
    json_key(writer, key);
    json_write_boolean(writer, value);
}

void json_member_date(struct json_writer *writer, const char *key, int64_t realtime_ms)
{
    char text[32];
    date_format(realtime_ms, text);
    json_key(writer, key);
    json_write_string(writer, realtime_ms == 0 ? NULL : text);
}

void json_write_value(struct json_writer *writer, const json_t *value)
{
    const char *key;
    json_t *member;
    char text[64];
    size_t len;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        json_begin_object(writer);
        json_object_foreach ((json_t *)value, key, member) { /* the macro takes no const */
            json_key(writer, key);
            json_write_value(writer, member);
        }
        json_end_object(writer);
        break;
    case JSON_ARRAY:
        json_begin_array(writer);
        for (size_t i = 0; i < json_array_size(value); i++)
            json_write_value(writer, json_array_get(value, i));
        json_end_array(writer);
        break;
    case JSON_STRING:
        json_write_string_n(writer, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        json_write_integer(writer, json_integer_value(value));
        break;
    case JSON_REAL:
        len = json_dumpb(value, text, sizeof(text) - 1, JSON_ENCODE_ANY);
        json_write_verbatim(writer, text, len < sizeof(text) ? len : 0);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        json_write_boolean(writer, json_is_true(value));
        break;
    case JSON_NULL:
        json_write_null(writer);
        break;
    }
}
