/* SPDX-License-Identifier: MIT */
/*
 * What is owed is paid when text comes.
 */
#include "mail/text_layout.h"

#include <string.h>

enum {
    OWED_BREAKS_MAX = 3, /* two blank lines */
};

void text_layout_init(struct text_layout *layout, struct strbuf *out)
{
    *layout = (struct text_layout){.out = out, .begin = out->len};
}

bool text_layout_is_empty(const struct text_layout *layout)
{
    return layout->out->len == layout->begin;
}

void text_layout_break(struct text_layout *layout, unsigned int breaks)
{
    if (layout->owed_breaks < breaks)
        layout->owed_breaks = breaks;
    layout->owed_blanks = 0;
}

void text_layout_line_end(struct text_layout *layout)
{
    if (layout->owed_breaks < OWED_BREAKS_MAX)
        layout->owed_breaks++;
    layout->owed_blanks = 0;
}

void text_layout_space(struct text_layout *layout, unsigned int blanks)
{
    if (layout->owed_blanks < blanks)
        layout->owed_blanks = blanks;
}

static unsigned int shown(unsigned int level)
{
    return level < TEXT_LAYOUT_LEVELS_MAX ? level : TEXT_LAYOUT_LEVELS_MAX;
}

/* A line with nothing in it but its prefix, without the blanks at its end. */
static void append_blank_line(struct text_layout *layout)
{
    size_t len = layout->prefix_ends[shown(layout->lowest_level)];
    while (len > 0 && layout->prefix[len - 1] == ' ')
        len--;
    strbuf_append(layout->out, layout->prefix, len);
    strbuf_append_char(layout->out, '\n');
}

static void begin_line(struct text_layout *layout)
{
    unsigned int level = shown(layout->level);
    bool has_mark = layout->mark[0] != '\0' && level > 0;
    strbuf_append(layout->out, layout->prefix, layout->prefix_ends[has_mark ? level - 1 : level]);
    if (has_mark)
        strbuf_append_str(layout->out, layout->mark);
    layout->mark[0] = '\0';
}

static void pay(struct text_layout *layout)
{
    bool begins_line = true;
    if (text_layout_is_empty(layout)) {
        begin_line(layout);
    } else if (layout->owed_breaks > 0) {
        strbuf_append_char(layout->out, '\n');
        while (--layout->owed_breaks > 0)
            append_blank_line(layout);
        begin_line(layout);
    } else {
        begins_line = false;
    }
    if (!begins_line || layout->keeps_blanks)
        strbuf_appendf(layout->out, "%*s", (int)layout->owed_blanks, "");
    layout->owed_breaks = 0;
    layout->owed_blanks = 0;
    layout->lowest_level = layout->level;
}

void text_layout_append(struct text_layout *layout, const char *text, size_t len)
{
    if (len == 0)
        return;
    pay(layout);
    strbuf_append(layout->out, text, len);
}

void text_layout_push(struct text_layout *layout, const char *prefix, const char *mark)
{
    if (layout->level < TEXT_LAYOUT_LEVELS_MAX) {
        size_t end = layout->prefix_ends[layout->level];
        size_t len = strlen(prefix);
        memcpy(layout->prefix + end, prefix, len);
        layout->prefix_ends[layout->level + 1] = end + len;
    }
    layout->level++;
    layout->mark[0] = '\0';
    if (mark != NULL)
        memcpy(layout->mark, mark, strlen(mark) + 1);
}

void text_layout_pop(struct text_layout *layout)
{
    if (layout->level == 0)
        return;
    layout->level--;
    layout->mark[0] = '\0';
    if (layout->lowest_level > layout->level)
        layout->lowest_level = layout->level;
}

void text_layout_pop_all(struct text_layout *layout)
{
    while (layout->level > 0)
        text_layout_pop(layout);
}

void text_layout_finish(struct text_layout *layout)
{
    if (!text_layout_is_empty(layout))
        strbuf_append_char(layout->out, '\n');
}
