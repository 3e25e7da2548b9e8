/* SPDX-License-Identifier: MIT */
/*
 * From elements to text.
 */
#include "mail/html_reading.h"

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/html_element.h"
#include "mail/html_link.h"

/* ---- text */

/* Characters of more than one byte that are not shown as they are. */
static const struct {
    const char *text;
    bool is_blank;
} odd_characters[] = {
    {"\xc2\xa0", true},      /* no-break space */
    {"\xc2\xad", false},     /* soft hyphen */
    {"\xcd\x8f", false},     /* combining grapheme joiner: with the next, filling of previews */
    {"\xe2\x80\x8b", false}, /* zero width space */
    {"\xe2\x80\xa8", true},  /* line separator */
    {"\xe2\x80\xa9", true},  /* paragraph separator */
    {"\xef\xbb\xbf", false}, /* zero width no-break space */
};

/* The length of what is at `text` and not shown as it is, 0 for ordinary text. */
static size_t odd_len(const char *text, size_t len, bool *ret_is_blank)
{
    unsigned char c = (unsigned char)text[0];
    *ret_is_blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (c <= ' ' || c == 0x7f)
        return 1;
    if (c < 0xc2 || c > 0xef)
        return 0;
    if (c == 0xc2 && len >= 2 && (unsigned char)text[1] < 0xa0)
        return 2; /* C1 controls */
    for (size_t i = 0; i < ARRAY_LEN(odd_characters); i++) {
        size_t odd = strlen(odd_characters[i].text);
        if (len >= odd && memcmp(text, odd_characters[i].text, odd) == 0) {
            *ret_is_blank = odd_characters[i].is_blank;
            return odd;
        }
    }
    return 0;
}

static void read_blank(struct html_reading *reading, char c)
{
    if (reading->preformatted == 0)
        text_layout_space(&reading->layout, 1);
    else if (c == '\n')
        text_layout_line_end(&reading->layout);
    else if (c != '\r')
        text_layout_space(&reading->layout, reading->layout.owed_blanks + 1);
}

static void read_text(struct html_reading *reading, const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t end = at;
        size_t odd = 0;
        bool is_blank = false;
        while (end < len && (odd = odd_len(text + end, len - end, &is_blank)) == 0)
            end++;
        text_layout_append(&reading->layout, text + at, end - at);
        if (is_blank && odd > 0)
            read_blank(reading, text[end]);
        at = end + odd;
    }
}

void html_reading_text(struct html_reading *reading, const char *text, size_t len)
{
    if (reading->hidden == 0)
        read_text(reading, text, len);
}

/* ---- links and pictures */

static void begin_link(struct html_reading *reading, const char *const *attributes)
{
    const char *address = html_attribute(attributes, "href");
    free(TAKE_PTR(reading->link));
    reading->link = address != NULL ? html_link_address(address) : NULL;
    reading->link_begin = reading->layout.out->len;
}

static void end_link(struct html_reading *reading)
{
    _cleanup_free_ char *address = TAKE_PTR(reading->link);
    struct strbuf *out = reading->layout.out;
    if (address == NULL)
        return;
    const char *text = strbuf_str(out) + reading->link_begin;
    size_t len = out->len - reading->link_begin;
    while (len > 0 && g_ascii_isspace(*text)) {
        text++;
        len--;
    }
    if (html_link_is_said(text, len, address))
        return;
    text_layout_space(&reading->layout, len > 0);
    text_layout_append(&reading->layout, "<", 1);
    text_layout_append(&reading->layout, address, strlen(address));
    text_layout_append(&reading->layout, ">", 1);
}

static void read_image(struct html_reading *reading, const char *const *attributes)
{
    const char *description = html_attribute(attributes, "alt");
    reading->has_image = true;
    if (description == NULL || description[strspn(description, " \t\r\n")] == '\0')
        return;
    text_layout_append(&reading->layout, "[", 1);
    read_text(reading, description, strlen(description));
    reading->layout.owed_blanks = 0;
    text_layout_append(&reading->layout, "]", 1);
}

/* ---- lists */

static unsigned int *next_item(struct html_reading *reading)
{
    return &reading->next_item[reading->lists < HTML_LISTS_MAX ? reading->lists : HTML_LISTS_MAX];
}

static void begin_list(struct html_reading *reading, const char *const *attributes, bool is_numbered)
{
    const char *start = html_attribute(attributes, "start");
    long first = start != NULL ? strtol(start, NULL, 10) : 1;
    text_layout_break(&reading->layout, reading->lists == 0 ? 2 : 1);
    reading->lists++;
    *next_item(reading) = is_numbered ? (unsigned int)(first > 0 && first < 1000 * 1000 ? first : 1) : 0;
}

static void end_list(struct html_reading *reading)
{
    reading->lists--;
    text_layout_break(&reading->layout, reading->lists == 0 ? 2 : 1);
}

static void begin_list_item(struct html_reading *reading)
{
    char mark[TEXT_LAYOUT_MARK_SIZE] = "- ";
    char blanks[TEXT_LAYOUT_MARK_SIZE];
    unsigned int *number = next_item(reading);
    if (reading->lists > 0 && *number > 0)
        snprintf(mark, sizeof(mark), "%u. ", (*number)++);
    memset(blanks, ' ', sizeof(blanks));
    blanks[strlen(mark)] = '\0';
    text_layout_break(&reading->layout, 1);
    text_layout_push(&reading->layout, blanks, mark);
}

/* ---- elements */

static void begin_element(struct html_reading *reading, enum html_meaning meaning,
                          const char *const *attributes)
{
    struct text_layout *layout = &reading->layout;
    switch (meaning) {
    case HTML_LINE:
        text_layout_break(layout, 1);
        break;
    case HTML_PARAGRAPH:
        text_layout_break(layout, 2);
        break;
    case HTML_QUOTE:
        text_layout_break(layout, 2);
        text_layout_push(layout, "> ", NULL);
        break;
    case HTML_LIST:
    case HTML_NUMBERED_LIST:
        begin_list(reading, attributes, meaning == HTML_NUMBERED_LIST);
        break;
    case HTML_LIST_ITEM:
        begin_list_item(reading);
        break;
    case HTML_DEFINITION:
        text_layout_break(layout, 1);
        text_layout_push(layout, "  ", NULL);
        break;
    case HTML_PREFORMATTED:
        text_layout_break(layout, 2);
        reading->preformatted++;
        layout->keeps_blanks = true;
        break;
    case HTML_CELL:
        text_layout_space(layout, 2);
        break;
    case HTML_LINE_END:
        text_layout_line_end(layout);
        break;
    case HTML_RULE:
        text_layout_break(layout, 2);
        text_layout_append(layout, "---", 3);
        text_layout_break(layout, 2);
        break;
    case HTML_LINK:
        begin_link(reading, attributes);
        break;
    case HTML_IMAGE:
        read_image(reading, attributes);
        break;
    case HTML_NONE:
    case HTML_HIDDEN:
        break;
    }
}

static void end_element(struct html_reading *reading, enum html_meaning meaning)
{
    struct text_layout *layout = &reading->layout;
    switch (meaning) {
    case HTML_LINE:
        text_layout_break(layout, 1);
        break;
    case HTML_PARAGRAPH:
        text_layout_break(layout, 2);
        break;
    case HTML_QUOTE:
        text_layout_pop(layout);
        text_layout_break(layout, 2);
        break;
    case HTML_LIST:
    case HTML_NUMBERED_LIST:
        end_list(reading);
        break;
    case HTML_LIST_ITEM:
    case HTML_DEFINITION:
        text_layout_pop(layout);
        text_layout_break(layout, 1);
        break;
    case HTML_PREFORMATTED:
        reading->preformatted--;
        text_layout_break(layout, 2);
        layout->keeps_blanks = reading->preformatted > 0;
        break;
    case HTML_LINK:
        end_link(reading);
        break;
    default:
        break;
    }
}

void html_reading_begin(struct html_reading *reading, const char *name, const char *const *attributes)
{
    enum html_meaning meaning = html_element_meaning(name);
    bool is_hidden = meaning == HTML_HIDDEN || (!reading->shows_all && !html_is_displayed(attributes));
    reading->open++;
    if (reading->hidden > 0 || is_hidden)
        reading->hidden++;
    else
        begin_element(reading, meaning, attributes);
}

void html_reading_end(struct html_reading *reading, const char *name)
{
    reading->open--;
    if (reading->hidden > 0)
        reading->hidden--;
    else
        end_element(reading, html_element_meaning(name));
}

void html_reading_close(struct html_reading *reading)
{
    text_layout_break(&reading->layout, 1);
    text_layout_pop_all(&reading->layout);
    reading->layout.keeps_blanks = false;
    free(TAKE_PTR(reading->link));
    reading->open = 0;
    reading->hidden = 0;
    reading->preformatted = 0;
    reading->lists = 0;
}
