/* SPDX-License-Identifier: MIT */
/*
 * A record's text becomes compact by leaving out what its layout is made of: each line's break and
 * indentation, and the blank behind its key's colon. Nothing else looks like that, since line breaks in
 * strings are escaped.
 */
#include "mail/index_line.h"

#include <string.h>

static const char before_name[] = "\"file\":\"";
static const char after_name[] = "\"}\n";

/* Bounded, since what is read may come from a file on the disk. */
struct line {
    char *bytes;
    size_t len;
    size_t max_len;
};

size_t index_line_len(size_t compact_len)
{
    size_t comma_len = compact_len > strlen("{}");
    return compact_len - strlen("}") + comma_len + strlen(before_name) + strlen(after_name);
}

static void append(struct line *line, const char *bytes, size_t len)
{
    size_t room = line->max_len - line->len;
    if (len > room)
        len = room;
    memcpy(line->bytes + line->len, bytes, len);
    line->len += len;
}

/* Where the quote is that ends the string that the text begins with; `len` or beyond: nowhere. */
static size_t find_quote(const char *text, size_t len)
{
    const char *quote = memchr(text + 1, '"', len - 1);
    size_t i = quote != NULL ? (size_t)(quote - text) : len;
    if (quote == NULL || quote[-1] != '\\')
        return i;
    for (i = 1; i < len && text[i] != '"';)
        i += text[i] == '\\' ? 2 : 1;
    return i;
}

/* The length of the key that a line of a record begins with, quotes and all; 0: it begins with none. */
static size_t key_len(const char *text, size_t len)
{
    if (len == 0 || text[0] != '"')
        return 0;
    size_t i = find_quote(text, len);
    return i + 2 < len && text[i + 1] == ':' && text[i + 2] == ' ' ? i + 1 : 0;
}

static void append_compact(struct line *line, const char *text, size_t len)
{
    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    size_t key = key_len(text, len);
    if (key > 0) {
        append(line, text, key + 1);
        text += key + 2;
        len -= key + 2;
    }
    append(line, text, len);
}

void index_line_write(const char *json, size_t json_len, const char *name, size_t name_len, size_t line_len,
                      char *ret_line)
{
    struct line line = {.bytes = ret_line, .max_len = line_len + name_len};
    const char *end = json + json_len;
    while (json < end) {
        const char *line_break = memchr(json, '\n', (size_t)(end - json));
        const char *line_end = line_break != NULL ? line_break : end;
        append_compact(&line, json, (size_t)(line_end - json));
        json = line_end + (line_break != NULL);
    }
    if (line.len > 0)
        line.len--; /* the closing bracket */
    if (line.len > 1)
        append(&line, ",", 1);
    append(&line, before_name, strlen(before_name));
    append(&line, name, name_len);
    append(&line, after_name, strlen(after_name));
    memset(line.bytes + line.len, ' ', line.max_len - line.len);
}
