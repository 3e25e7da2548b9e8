/* SPDX-License-Identifier: MIT */
#include "mail/flowed.h"

#include <string.h>

struct flowed_line {
    const char *marks; /* of a quote, with the blanks between and behind them */
    size_t marks_len;
    size_t depth;        /* how many marks */
    const char *content; /* without the blank that hides what it begins with */
    size_t content_len;
    const char *line_end; /* "\r\n", "\n", or nothing in the last line */
    size_t line_end_len;
    bool is_apart; /* it is joined with no other line */
    bool flows;    /* the next line may continue it */
};

static bool is_blank(const char *text, size_t len)
{
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    return len == 0;
}

/* The marks that the line begins with. Some programs write "> > ", others ">> "; a blank before the first
 * mark says that it is none. */
static size_t count_marks(const char *line, size_t len, size_t *ret_marks_len)
{
    size_t depth = 0, at = 0;
    while (at < len && line[at] == '>') {
        depth++;
        at++;
        if (at + 1 < len && line[at] == ' ' && line[at + 1] == '>')
            at++;
    }
    *ret_marks_len = at;
    return depth;
}

/* Takes a line off the text, which has one. */
static struct flowed_line take_line(const char **text, const char *end)
{
    const char *begin = *text;
    const char *newline = memchr(begin, '\n', (size_t)(end - begin));
    const char *next = newline != NULL ? newline + 1 : end;
    const char *stop = newline != NULL ? newline : end;
    if (newline != NULL && stop > begin && stop[-1] == '\r')
        stop--;
    struct flowed_line line = {.line_end = stop, .line_end_len = (size_t)(next - stop)};
    line.depth = count_marks(begin, (size_t)(stop - begin), &line.marks_len);
    line.content = begin + line.marks_len;
    if (line.content < stop && *line.content == ' ')
        line.content++;
    line.content_len = (size_t)(stop - line.content);
    line.marks = begin;
    line.marks_len = line.depth > 0 ? (size_t)(line.content - begin) : 0;
    bool is_separator = line.content_len == 3 && memcmp(line.content, "-- ", 3) == 0;
    line.is_apart = is_separator || is_blank(line.content, line.content_len);
    line.flows = !line.is_apart && stop[-1] == ' ';
    *text = next;
    return line;
}

/* A blank line, or one of another depth, ends a paragraph although the line before says that it flows: its
 * line end stays. */
int flowed_append(struct strbuf *out, const char *text, size_t len, bool is_delsp)
{
    const char *end = text + len;
    struct flowed_line before = {0};
    while (text < end && out->error == 0) {
        struct flowed_line line = take_line(&text, end);
        if (!before.flows || line.is_apart || line.depth != before.depth) {
            strbuf_append(out, before.line_end, before.line_end_len);
            strbuf_append(out, line.marks, line.marks_len);
        }
        strbuf_append(out, line.content, line.content_len - (line.flows && is_delsp));
        before = line;
    }
    return strbuf_append(out, before.line_end, before.line_end_len);
}
