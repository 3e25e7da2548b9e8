/* SPDX-License-Identifier: MIT */
/*
 * Strings and numbers.
 */
#include "mail/json_reader.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "base/plain_run.h"

void json_reader_init(struct json_reader *reader, const char *text, size_t len)
{
    *reader = (struct json_reader){.at = text, .end = text + len, .unescaped = STRBUF_INIT(len)};
}

void json_reader_restart(struct json_reader *reader, const char *text, size_t len)
{
    reader->at = text;
    reader->end = text + len;
    strbuf_clear(&reader->unescaped);
    reader->unescaped.max_bytes = len;
}

void json_reader_release(struct json_reader *reader)
{
    strbuf_release(&reader->unescaped);
}

void json_reader_pass_blanks(struct json_reader *reader)
{
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

bool json_reader_is_at_end(struct json_reader *reader)
{
    json_reader_skip_blanks(reader);
    return reader->at == reader->end;
}

/* ---------------------------------------------------------------- strings */

static bool take_hex(struct json_reader *reader, gunichar *ret)
{
    *ret = 0;
    if (json_reader_left(reader) < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        int digit = g_ascii_xdigit_value(*reader->at++);
        if (digit < 0)
            return false;
        *ret = *ret << 4 | (gunichar)digit;
    }
    return true;
}

/* The second half of a character, if it follows; else nothing is taken. */
static bool take_low_surrogate(struct json_reader *reader, gunichar *ret)
{
    struct json_reader ahead = *reader;
    if (json_reader_left(&ahead) < 2 || ahead.at[0] != '\\' || ahead.at[1] != 'u')
        return false;
    ahead.at += 2;
    if (!take_hex(&ahead, ret) || *ret < 0xdc00 || *ret > 0xdfff)
        return false;
    reader->at = ahead.at;
    return true;
}

/* Behind the `u`. */
static int take_code_point(struct json_reader *reader)
{
    gunichar c;
    gunichar low;
    char bytes[6];
    if (!take_hex(reader, &c))
        return -EBADMSG;
    if (c >= 0xd800 && c <= 0xdbff && take_low_surrogate(reader, &low))
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    else if (c >= 0xd800 && c <= 0xdfff)
        c = 0xfffd;
    return strbuf_append(&reader->unescaped, bytes, (size_t)g_unichar_to_utf8(c, bytes));
}

/* Behind the backslash. */
static int take_escape(struct json_reader *reader)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end)
        return -EBADMSG;
    char c = *reader->at++;
    if (c == 'u')
        return take_code_point(reader);
    const char *letter = c == '\0' ? NULL : strchr(letters, c);
    return letter == NULL ? -EBADMSG : strbuf_append_char(&reader->unescaped, meanings[letter - letters]);
}

/* Bytes beyond ASCII, as many as follow. */
static int take_utf8(struct json_reader *reader)
{
    const char *start = reader->at;
    while (reader->at < reader->end && (unsigned char)*reader->at >= 0x80)
        reader->at++;
    size_t len = (size_t)(reader->at - start);
    return g_utf8_validate_len(start, len, NULL) ? strbuf_append(&reader->unescaped, start, len) : -EILSEQ;
}

/* What is not plain: an escape, or characters that the writer has to look at. */
static int take_special(struct json_reader *reader)
{
    unsigned char c = (unsigned char)*reader->at;
    if (c >= 0x80)
        return take_utf8(reader);
    if (c < 0x20)
        return -EBADMSG;
    reader->at++;
    return c == '\\' ? take_escape(reader) : strbuf_append_char(&reader->unescaped, (char)c);
}

static int take_rest_of_string(struct json_reader *reader, struct json_scalar *ret)
{
    struct strbuf *text = &reader->unescaped;
    strbuf_clear(text);
    strbuf_append(text, ret->text, ret->len);
    while (reader->at < reader->end && *reader->at != '"') {
        int error = take_special(reader);
        if (error != 0)
            return error;
        size_t run = plain_run(reader->at, json_reader_left(reader));
        strbuf_append(text, reader->at, run);
        reader->at += run;
    }
    if (reader->at == reader->end)
        return -EBADMSG;
    reader->at++;
    ret->text = strbuf_str(text);
    ret->len = text->len;
    return text->error;
}

int json_reader_take_string(struct json_reader *reader, struct json_scalar *ret)
{
    if (!json_reader_take(reader, '"'))
        return -EBADMSG;
    size_t run = plain_run(reader->at, json_reader_left(reader));
    *ret = (struct json_scalar){.kind = JSON_SCALAR_STRING, .text = reader->at, .len = run};
    reader->at += run;
    if (reader->at == reader->end || *reader->at != '"')
        return take_rest_of_string(reader, ret);
    reader->at++;
    return 0;
}

/* ---------------------------------------------------------------- other values */

static bool take_digits(struct json_reader *reader)
{
    const char *start = reader->at;
    while (reader->at < reader->end && g_ascii_isdigit(*reader->at))
        reader->at++;
    return reader->at > start;
}

static bool take_one_of(struct json_reader *reader, char one, char other)
{
    if (reader->at == reader->end || (*reader->at != one && *reader->at != other))
        return false;
    reader->at++;
    return true;
}

int json_reader_take_number(struct json_reader *reader, struct json_scalar *ret)
{
    *ret = (struct json_scalar){.kind = JSON_SCALAR_INTEGER, .text = reader->at};
    take_one_of(reader, '-', '-');
    if (!take_one_of(reader, '0', '0') && !take_digits(reader))
        return -EBADMSG;
    if (take_one_of(reader, '.', '.')) {
        ret->kind = JSON_SCALAR_OTHER;
        if (!take_digits(reader))
            return -EBADMSG;
    }
    if (take_one_of(reader, 'e', 'E')) {
        ret->kind = JSON_SCALAR_OTHER;
        take_one_of(reader, '+', '-');
        if (!take_digits(reader))
            return -EBADMSG;
    }
    ret->len = (size_t)(reader->at - ret->text);
    return 0;
}

/* ---------------------------------------------------------------- what was checked before */

/* Up to what ends a number or a word. */
static int skip_plain(struct json_reader *reader)
{
    const char *start = reader->at;
    while (reader->at < reader->end && strchr(",:]}[{\" \n\r\t", *reader->at) == NULL)
        reader->at++;
    return reader->at == start ? -EBADMSG : 0;
}

int json_reader_skip_value(struct json_reader *reader)
{
    struct json_scalar text;
    size_t depth = 0;
    do {
        int error = 0;
        json_reader_skip_blanks(reader);
        if (reader->at == reader->end)
            return -EBADMSG;
        switch (*reader->at) {
        case '"':
            error = json_reader_take_string(reader, &text);
            break;
        case '{':
        case '[':
            depth++;
            reader->at++;
            break;
        case '}':
        case ']':
        case ',':
        case ':':
            if (depth == 0)
                return -EBADMSG;
            depth -= *reader->at == '}' || *reader->at == ']';
            reader->at++;
            break;
        default:
            error = skip_plain(reader);
        }
        if (error != 0)
            return error;
    } while (depth > 0);
    return 0;
}
