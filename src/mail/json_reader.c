/* SPDX-License-Identifier: MIT */
/*
 * Strings, numbers and words, and values made of them by recursive descent. Runs of characters that stand for
 * themselves are passed over whole; only what is escaped or not ASCII is looked at one by one.
 */
#include "mail/json_reader.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

void json_reader_init(struct json_reader *reader, const char *text, size_t len)
{
    *reader = (struct json_reader){.at = text, .end = text + len, .unescaped = STRBUF_INIT(len)};
}

void json_reader_release(struct json_reader *reader)
{
    strbuf_release(&reader->unescaped);
}

static size_t left(const struct json_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static void pass_blanks(struct json_reader *reader)
{
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

bool json_reader_take(struct json_reader *reader, char c)
{
    pass_blanks(reader);
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

bool json_reader_is_at_end(struct json_reader *reader)
{
    pass_blanks(reader);
    return reader->at == reader->end;
}

/* ---------------------------------------------------------------- strings */

static bool take_hex(struct json_reader *reader, gunichar *ret)
{
    *ret = 0;
    if (left(reader) < 4)
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
    if (left(&ahead) < 2 || ahead.at[0] != '\\' || ahead.at[1] != 'u')
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

/* `run` bytes of the string, which stand for themselves, were passed over. */
static int take_rest_of_string(struct json_reader *reader, size_t run, struct json_scalar *ret)
{
    struct strbuf *text = &reader->unescaped;
    strbuf_clear(text);
    strbuf_append(text, reader->at - run, run);
    while (reader->at < reader->end && *reader->at != '"') {
        int error = take_special(reader);
        if (error != 0)
            return error;
        run = json_plain_len(reader->at, left(reader));
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
    size_t run = json_plain_len(reader->at, left(reader));
    *ret = (struct json_scalar){.kind = JSON_SCALAR_STRING, .text = reader->at, .len = run};
    reader->at += run;
    if (reader->at == reader->end || *reader->at != '"')
        return take_rest_of_string(reader, run, ret);
    reader->at++;
    return 0;
}

static int take_string(struct json_reader *reader, struct json_writer *writer, struct json_scalar *ret)
{
    int error = json_reader_take_string(reader, ret);
    if (error != 0 || writer == NULL)
        return error;
    if (ret->text == reader->unescaped.data)
        json_write_string_n(writer, ret->text, ret->len);
    else /* it stands for itself, and goes out as it stands, with its quotes */
        json_write_verbatim_n(writer, ret->text - 1, ret->len + 2);
    return 0;
}

int json_reader_take_key(struct json_reader *reader, struct json_writer *writer, struct json_scalar *ret)
{
    int error = take_string(reader, writer, ret);
    if (error != 0 || !json_reader_take(reader, ':'))
        return error != 0 ? error : -EBADMSG;
    if (writer != NULL)
        json_end_key(writer);
    return writer != NULL ? writer->out->error : 0;
}

/* ---------------------------------------------------------------- numbers and words */

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

static int take_number(struct json_reader *reader, struct json_scalar *ret)
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

static int take_word(struct json_reader *reader, const char *word, struct json_scalar *ret)
{
    size_t len = strlen(word);
    if (left(reader) < len || memcmp(reader->at, word, len) != 0)
        return -EBADMSG;
    *ret = (struct json_scalar){.kind = JSON_SCALAR_WORD, .text = reader->at, .len = len};
    reader->at += len;
    return 0;
}

static int take_number_or_word(struct json_reader *reader, struct json_writer *writer,
                               struct json_scalar *ret)
{
    const char *start = reader->at;
    int error = *start == 't'   ? take_word(reader, "true", ret)
                : *start == 'f' ? take_word(reader, "false", ret)
                : *start == 'n' ? take_word(reader, "null", ret)
                                : take_number(reader, ret);
    if (error == 0 && writer != NULL)
        json_write_verbatim_n(writer, start, (size_t)(reader->at - start));
    return error;
}

/* ---------------------------------------------------------------- values */

/* What is behind an opening bracket, and the bracket that closes it. */
static int take_items(struct json_reader *reader, struct json_writer *writer, char bracket)
{
    struct json_scalar unused;
    if (json_reader_take(reader, bracket))
        return 0;
    do {
        int error = bracket == '}' ? json_reader_take_key(reader, writer, &unused) : 0;
        if (error == 0)
            error = json_reader_take_value(reader, writer, &unused);
        if (error != 0)
            return error;
    } while (json_reader_take(reader, ','));
    return json_reader_take(reader, bracket) ? 0 : -EBADMSG;
}

static int take_bracketed(struct json_reader *reader, struct json_writer *writer)
{
    bool is_object = *reader->at++ == '{';
    if (reader->depth == JSON_DEPTH_MAX)
        return -EMSGSIZE;
    if (writer != NULL && is_object)
        json_begin_object(writer);
    else if (writer != NULL)
        json_begin_array(writer);
    reader->depth++;
    int error = take_items(reader, writer, is_object ? '}' : ']');
    reader->depth--;
    if (writer != NULL && is_object)
        json_end_object(writer);
    else if (writer != NULL)
        json_end_array(writer);
    return error;
}

int json_reader_take_value(struct json_reader *reader, struct json_writer *writer, struct json_scalar *ret)
{
    int error;
    *ret = (struct json_scalar){.kind = JSON_SCALAR_OTHER};
    if (json_reader_is_at_end(reader))
        return -EBADMSG;
    if (*reader->at == '"')
        error = take_string(reader, writer, ret);
    else if (*reader->at == '{' || *reader->at == '[')
        error = take_bracketed(reader, writer);
    else
        error = take_number_or_word(reader, writer, ret);
    return error == 0 && writer != NULL ? writer->out->error : error;
}

int json_rewrite(const char *text, size_t len, struct json_writer *writer)
{
    struct json_reader reader;
    struct json_scalar unused;
    json_reader_init(&reader, text, len);
    int error = json_reader_take_value(&reader, writer, &unused);
    if (error == 0 && !json_reader_is_at_end(&reader))
        error = -EBADMSG;
    json_reader_release(&reader);
    return error;
}
