/* SPDX-License-Identifier: MIT */
/*
 * One pass over the lines. What marks the beginning of history that is not quoted ends it.
 */
#include "mail/new_text.h"

#include <stdbool.h>
#include <string.h>

#include "mail/history_line.h"

enum {
    ATTRIBUTION_LINES_MAX = 4,
    ATTRIBUTION_MAX_BYTES = 400,
    HEADER_BLOCK_LINES = 10,
    SHORT_SIGNATURE_LINES = 15, /* what follows "--" without a blank, where it is a signature */
};

struct line {
    const char *text;
    size_t len;       /* without the newline */
    const char *next; /* NULL: it was the last one */
};

struct new_text {
    struct strbuf *out;
    size_t begin;             /* of what is appended */
    const char *end;          /* of the text */
    unsigned int blank_lines; /* not appended yet */
    bool has_left_out;        /* something, since the last line that was kept */
};

static struct line read_line(const struct new_text *reading, const char *at)
{
    const char *newline = memchr(at, '\n', (size_t)(reading->end - at));
    const char *line_end = newline != NULL ? newline : reading->end;
    const char *next = newline != NULL && newline + 1 < reading->end ? newline + 1 : NULL;
    return (struct line){at, (size_t)(line_end - at), next};
}

/* ---- what is kept */

static void append_blank_lines(struct new_text *reading)
{
    bool is_first = reading->out->len == reading->begin;
    unsigned int count = reading->has_left_out ? 1 : reading->blank_lines;
    for (unsigned int i = 0; !is_first && i < count; i++)
        strbuf_append_char(reading->out, '\n');
    reading->blank_lines = 0;
    reading->has_left_out = false;
}

static void keep(struct new_text *reading, const struct line *line)
{
    if (history_is_blank(line->text, line->len)) {
        reading->blank_lines++;
        return;
    }
    append_blank_lines(reading);
    strbuf_append(reading->out, line->text, line->len);
    strbuf_append_char(reading->out, '\n');
}

/* The last line kept is often a rule that sets off the history behind it. */
static void drop_rules(struct new_text *reading)
{
    struct strbuf *out = reading->out;
    while (out->len > reading->begin) {
        const char *begin = out->data + reading->begin;
        const char *newline = memrchr(begin, '\n', out->len - reading->begin - 1);
        const char *line = newline != NULL ? newline + 1 : begin;
        size_t len = out->len - 1 - (size_t)(line - out->data);
        if (!history_is_rule(line, len) && !history_is_blank(line, len))
            return;
        strbuf_truncate(out, (size_t)(line - out->data));
    }
}

/* ---- where history begins */

/* Whether the next line with anything in it is quoted. */
static bool quote_follows(const struct new_text *reading, const char *at)
{
    while (at != NULL) {
        struct line line = read_line(reading, at);
        if (!history_is_blank(line.text, line.len))
            return history_is_quoted(line.text, line.len);
        at = line.next;
    }
    return false;
}

/* How an attribution that begins with this line ends; *ret_next is what follows it. */
static enum history_attribution find_attribution(const struct new_text *reading, struct line line,
                                                 const char **ret_next)
{
    char joined[ATTRIBUTION_MAX_BYTES];
    size_t len = 0;
    bool may_go_on = history_begins_attribution(line.text, line.len);
    for (unsigned int i = 0; i < ATTRIBUTION_LINES_MAX; i++) {
        if (history_is_blank(line.text, line.len) || history_is_quoted(line.text, line.len) ||
            len + line.len + 1 > sizeof(joined))
            break;
        memcpy(joined + len, line.text, line.len);
        len += line.len;
        joined[len++] = ' ';
        enum history_attribution found = history_attribution(joined, len);
        *ret_next = line.next;
        if (found != HISTORY_NO_ATTRIBUTION || !may_go_on || line.next == NULL)
            return found;
        line = read_line(reading, line.next);
    }
    return HISTORY_NO_ATTRIBUTION;
}

/* Whether a block of header lines begins here: the sender's, and two more of other kinds. */
static bool is_header_block(const struct new_text *reading, struct line line)
{
    bool is_there[HISTORY_SUBJECT + 1] = {false};
    if (history_header(line.text, line.len) != HISTORY_FROM)
        return false;
    for (unsigned int i = 1; i < HEADER_BLOCK_LINES && line.next != NULL; i++) {
        line = read_line(reading, line.next);
        is_there[history_header(line.text, line.len)] = true;
    }
    return is_there[HISTORY_DATE] + is_there[HISTORY_TO] + is_there[HISTORY_SUBJECT] >= 2;
}

static bool is_near_end(const struct new_text *reading, const struct line *line)
{
    const char *at = line->next;
    for (unsigned int i = 0; at != NULL; i++) {
        if (i >= SHORT_SIGNATURE_LINES)
            return false;
        struct line next = read_line(reading, at);
        if (history_is_quoted(next.text, next.len))
            return true;
        at = next.next;
    }
    return true;
}

static bool is_end(const struct new_text *reading, const struct line *line)
{
    if (history_is_signature(line->text, line->len))
        return true;
    if (history_is_signature_without_blank(line->text, line->len) && is_near_end(reading, line))
        return true;
    return history_is_separator(line->text, line->len) || is_header_block(reading, *line);
}

/* ---- the whole */

/* Looks at what begins here: the position behind it, NULL at the end of what is new. */
static const char *read_one(struct new_text *reading, const char *at)
{
    struct line line = read_line(reading, at);
    if (history_is_quoted(line.text, line.len)) {
        reading->has_left_out = true;
        return line.next;
    }
    if (is_end(reading, &line)) {
        drop_rules(reading);
        return NULL;
    }
    const char *next = NULL;
    enum history_attribution attribution = find_attribution(reading, line, &next);
    if (attribution != HISTORY_NO_ATTRIBUTION && quote_follows(reading, next)) {
        reading->has_left_out = true;
        return next;
    }
    if (attribution == HISTORY_ATTRIBUTION)
        return NULL;
    keep(reading, &line);
    return line.next;
}

int new_text(struct strbuf *out, const char *text, size_t len)
{
    struct new_text reading = {.out = out, .begin = out->len, .end = text + len};
    const char *at = text;
    if (len == 0)
        return out->error;
    do {
        at = read_one(&reading, at);
    } while (at != NULL && out->error == 0);
    if (out->len == reading.begin)
        strbuf_append(out, text, len);
    return out->error;
}
