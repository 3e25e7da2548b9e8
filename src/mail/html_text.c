/* SPDX-License-Identifier: MIT */
/*
 * libxml2 reports elements and text as it reads them (SAX); no tree is built, so memory does not grow with
 * their number. At each end tag libxml2 searches all open elements, so that a few megabytes of start tags and
 * unmatched end tags would keep it busy for hours. When too many elements are open, the parser is therefore
 * restarted after the last start tag, as if all elements were closed.
 */
#include "mail/html_text.h"

#include <errno.h>
#include <glib.h>
#include <libxml/HTMLparser.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"

/* ---- the copy for the parser: valid UTF-8 without NULs, and without start tags of many attributes. The
 * parser compares each attribute of a tag with all before it, so that one tag of a few megabytes would keep
 * it busy for hours. All text that the parser may take for a start tag is checked, even inside a comment, a
 * script or another tag's attribute, since senders can hide where these begin and end. A changed tag keeps
 * its length, and the change moves no end of a comment or a script. */

enum {
    ATTRIBUTES_MAX = 200,
    TAG_SEARCH_MAX_BYTES = 4096, /* number of bytes that find_tag_end() searches */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

static const char *skip_blanks(const char *at)
{
    while (is_blank(*at))
        at++;
    return at;
}

static const char *skip_name(const char *at)
{
    while (g_ascii_isalnum(*at) || *at == '_' || *at == ':' || *at == '.' || *at == '-')
        at++;
    return at;
}

/* Returns the position after the attribute; NULL if it has no name, or no value after its "=". */
static const char *skip_attribute(const char *at)
{
    const char *end = skip_name(at);
    const char *sign = skip_blanks(end);
    if (end == at || *sign != '=')
        return end > at ? end : NULL;
    const char *value = skip_blanks(sign + 1);
    if (*value == '"' || *value == '\'') {
        end = strchr(value + 1, *value);
        return end != NULL ? end + 1 : NULL;
    }
    size_t len = strcspn(value, " \t\n\r\f\"'<>`");
    return len > 0 ? value + len : NULL;
}

/* Returns true if the tag whose name ends at `at` has few attributes, and all HTML parsers agree on where
 * these attributes begin and end. */
static bool has_plain_attributes(const char *at)
{
    for (unsigned int attributes = 0; attributes <= ATTRIBUTES_MAX; attributes++) {
        at = skip_blanks(at);
        if (*at == '>' || (*at == '/' && at[1] == '>'))
            return true;
        at = skip_attribute(at);
        if (at == NULL)
            return false;
    }
    return false;
}

/* Returns the ">" that ends a tag whose attributes are not plain; NULL if there is none within
 * TAG_SEARCH_MAX_BYTES, or another tag or a comment may begin or end before it. */
static char *find_tag_end(char *at)
{
    for (size_t i = 0; i < TAG_SEARCH_MAX_BYTES && at[i] != '\0' && at[i] != '<'; i++)
        if (at[i] == '>')
            return i >= 2 && at[i - 1] == '-' && at[i - 2] == '-' ? NULL : at + i;
    return NULL;
}

static void defuse_start_tag(char *at)
{
    const char *name = at + 1;
    char *after = at + (skip_name(name) - at);
    bool begins_name = after > name && !g_ascii_isdigit(*name) && *name != '-';
    if (!begins_name || has_plain_attributes(after))
        return;
    char *end = find_tag_end(after);
    if (end != NULL)
        memset(after, ' ', (size_t)(end - after));
    else
        *at = ' ';
}

/* Blanks a declaration such as "<![if !mso]>", which the parser would report as text. */
static void blank_declaration(char *at)
{
    if (strncmp(at, "<!--", 4) == 0 || g_ascii_strncasecmp(at, "<!doctype", 9) == 0)
        return;
    char *end = find_tag_end(at + 2);
    if (end != NULL)
        memset(at, ' ', (size_t)(end + 1 - at));
}

/* Returns the copy for the parser (free by g_free()). A start tag with more than ATTRIBUTES_MAX attributes,
 * or one that HTML parsers read differently, loses its attributes or becomes text. */
static char *copy_for_parser(const char *html, size_t len, size_t *ret_len)
{
    char *copy = g_utf8_make_valid(html, (gssize)len);
    for (char *at = strchr(copy, '<'); at != NULL; at = strchr(at + 1, '<')) {
        if (at[1] == '!')
            blank_declaration(at);
        else
            defuse_start_tag(at);
    }
    *ret_len = strlen(copy);
    return copy;
}

/* ---- elements and attributes */

enum html_meaning {
    HTML_NONE,
    HTML_LINE,      /* begins and ends a line */
    HTML_PARAGRAPH, /* set apart by blank lines */
    HTML_HEADING,   /* the elements from HTML_HEADING to HTML_TABLE end the table row around them */
    HTML_QUOTE,
    HTML_LIST,
    HTML_NUMBERED_LIST,
    HTML_LIST_ITEM,
    HTML_DEFINITION,
    HTML_PREFORMATTED,
    HTML_RULE,
    HTML_TABLE,
    HTML_ROW,
    HTML_CELL,
    HTML_COLUMN, /* an inline element whose style makes it a column */
    HTML_LINE_END,
    HTML_LINK,
    HTML_IMAGE,
    HTML_HIDDEN,
};

/* The elements of each meaning. begin_list() and end_element() add the breaks around a list. */
static const struct {
    const char *names;   /* names of elements, with a blank before and after each */
    unsigned int breaks; /* line ends before and after the element; 2 leave a blank line */
    const char *prefix;  /* prefix of the element's lines, or NULL */
} elements[] = {
    [HTML_LINE] =
        {" address article aside caption center div dt fieldset figcaption footer form header main nav "
         "option section ",
         1, NULL},
    [HTML_PARAGRAPH] = {" dl figure p ", 2, NULL},
    [HTML_HEADING] = {" h1 h2 h3 h4 h5 h6 ", 2, NULL},
    [HTML_QUOTE] = {" blockquote ", 2, "> "},
    [HTML_LIST] = {" dir menu ul ", 0, NULL},
    [HTML_NUMBERED_LIST] = {" ol ", 0, NULL},
    [HTML_LIST_ITEM] = {" li ", 1, NULL},
    [HTML_DEFINITION] = {" dd ", 1, "  "},
    [HTML_PREFORMATTED] = {" pre textarea ", 2, NULL},
    [HTML_RULE] = {" hr ", 2, NULL},
    [HTML_TABLE] = {" table ", 2, NULL},
    [HTML_ROW] = {" tr ", 1, NULL},
    [HTML_CELL] = {" td th ", 0, NULL},
    [HTML_LINE_END] = {" br ", 0, NULL},
    [HTML_LINK] = {" a ", 0, NULL},
    [HTML_IMAGE] = {" img ", 0, NULL},
    [HTML_HIDDEN] = {" script style svg template title ", 0, NULL},
};

static enum html_meaning meaning_of_element(const char *name)
{
    char word[16];
    if (snprintf(word, sizeof(word), " %s ", name) >= (int)sizeof(word))
        return HTML_NONE;
    for (enum html_meaning meaning = HTML_NONE; meaning < ARRAY_LEN(elements); meaning++)
        if (elements[meaning].names != NULL && strstr(elements[meaning].names, word) != NULL)
            return meaning;
    return HTML_NONE;
}

/* Returns the value of an attribute, "" if it has no value; NULL if there is no such attribute. `attributes`
 * holds names and values in turn, then NULL; it may be NULL. */
static const char *attribute_value(const char *const *attributes, const char *name)
{
    for (size_t i = 0; attributes != NULL && attributes[i] != NULL; i += 2)
        if (strcmp(attributes[i], name) == 0)
            return attributes[i + 1] != NULL ? attributes[i + 1] : "";
    return NULL;
}

/* Returns true if the style has a property that begins with this value. */
static bool has_style(const char *const *attributes, const char *property, const char *value)
{
    const char *style = attribute_value(attributes, "style");
    const char *at = style != NULL ? strcasestr(style, property) : NULL;
    if (at == NULL)
        return false;
    at += strlen(property);
    at += strspn(at, " \t\r\n:");
    return strncasecmp(at, value, strlen(value)) == 0;
}

/* ---- addresses of links */

enum {
    LINK_MAX_BYTES = 2048, /* longer addresses are left out */
};

/* Returns the text to show for a link with this href, which may be NULL; the caller frees it. Returns NULL if
 * the address is of no use in a text file, is too long or holds blanks, or when out of memory. */
static char *make_link_address(const char *href)
{
    static const char *const schemes[] = {"http:", "https:", "mailto:", "tel:", "ftp:"};
    bool has_scheme = false;
    if (href == NULL)
        return NULL;
    while (g_ascii_isspace(*href))
        href++;
    size_t len = strlen(href);
    while (len > 0 && g_ascii_isspace(href[len - 1]))
        len--;
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        has_scheme = has_scheme || strncasecmp(href, schemes[i], strlen(schemes[i])) == 0;
    if (!has_scheme || len > LINK_MAX_BYTES)
        return NULL;
    for (size_t at = 0; at < len;) {
        const struct character c = character_at(href + at, len - at);
        if (c.code == ' ' || c.code == '<' || c.code == '>' ||
            (c.kind & (CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION)) != 0)
            return NULL;
        at += c.len;
    }
    if (strncasecmp(href, "mailto:", 7) != 0)
        return strndup(href, len);
    size_t address_len = strcspn(href + 7, "? ");
    return address_len > 0 ? strndup(href + 7, address_len) : NULL;
}

static size_t len_without_slash(const char *text, size_t len)
{
    return len > 0 && text[len - 1] == '/' ? len - 1 : len;
}

/* Returns true if a link's text is its address, perhaps without the scheme or the slash at the end. */
static bool is_link_text_the_address(const char *text, size_t len, const char *address)
{
    const char *slashes = strstr(address, "://");
    size_t scheme = slashes != NULL                        ? (size_t)(slashes - address) + strlen("://")
                    : strncasecmp(address, "tel:", 4) == 0 ? strlen("tel:")
                                                           : 0;
    const char *bare = address + scheme;
    if (len > scheme && strncasecmp(text, address, scheme) == 0) {
        text += scheme;
        len -= scheme;
    }
    len = len_without_slash(text, len);
    return len == len_without_slash(bare, strlen(bare)) && strncasecmp(text, bare, len) == 0;
}

/* ---- the layout of running text: white space, line breaks, and the prefix of each line, such as the marks
 * of quotes and lists. Breaks and blanks are pending until text follows, so that they are not doubled, do not
 * begin the text, and do not end a line. */

enum {
    TEXT_LAYOUT_LEVELS_MAX = 12, /* deeper levels add no prefix, to leave room for text */
    TEXT_LAYOUT_MARK_SIZE = 16,
    PENDING_BREAKS_MAX = 3, /* two blank lines */
};

struct text_layout {
    struct strbuf *out; /* borrowed */
    size_t begin;       /* offset in `out` at which this text begins */
    size_t lines;       /* number of lines begun, without blank lines */
    unsigned int pending_breaks;
    unsigned int pending_blanks;
    char prefix[TEXT_LAYOUT_LEVELS_MAX * TEXT_LAYOUT_MARK_SIZE];
    size_t prefix_ends[TEXT_LAYOUT_LEVELS_MAX + 1]; /* end of each level in `prefix`; [0] is 0 */
    unsigned int level;                             /* may exceed TEXT_LAYOUT_LEVELS_MAX */
    unsigned int lowest_level;        /* lowest level since the last text; blank lines have its prefix */
    char mark[TEXT_LAYOUT_MARK_SIZE]; /* replaces the innermost prefix of the next line */
};

static bool text_layout_is_empty(const struct text_layout *layout)
{
    return layout->out->len == layout->begin;
}

/* Ensures at least `breaks` line ends before the next text: 1 ends the line, 2 leaves a blank line. */
static void text_layout_break(struct text_layout *layout, unsigned int breaks)
{
    if (layout->pending_breaks < breaks)
        layout->pending_breaks = breaks;
    layout->pending_blanks = 0;
}

/* Adds a line end. Several line ends in a row keep the author's blank lines, up to PENDING_BREAKS_MAX - 1. */
static void text_layout_line_end(struct text_layout *layout)
{
    if (layout->pending_breaks < PENDING_BREAKS_MAX)
        layout->pending_breaks++;
    layout->pending_blanks = 0;
}

static bool is_at_line_begin(const struct text_layout *layout)
{
    return text_layout_is_empty(layout) || layout->pending_breaks > 0;
}

/* Ensures at least `blanks` blanks before the next text, if it is on the same line. */
static void text_layout_space(struct text_layout *layout, unsigned int blanks)
{
    if (layout->pending_blanks < blanks && !is_at_line_begin(layout))
        layout->pending_blanks = blanks;
}

static unsigned int prefix_level(unsigned int level)
{
    return level < TEXT_LAYOUT_LEVELS_MAX ? level : TEXT_LAYOUT_LEVELS_MAX;
}

static void begin_line(struct text_layout *layout)
{
    unsigned int level = prefix_level(layout->level);
    bool has_mark = layout->mark[0] != '\0' && level > 0;
    strbuf_append(layout->out, layout->prefix, layout->prefix_ends[has_mark ? level - 1 : level]);
    if (has_mark)
        strbuf_append_str(layout->out, layout->mark);
    layout->mark[0] = '\0';
    layout->lines++;
}

/* Appends the pending breaks and blanks, then text that has no white space and no control characters. */
static void text_layout_append(struct text_layout *layout, const char *text, size_t len)
{
    bool begins_line = is_at_line_begin(layout);
    if (len == 0)
        return;
    for (unsigned int i = 0; !text_layout_is_empty(layout) && i < layout->pending_breaks; i++) {
        if (i > 0) {
            size_t prefix_len = layout->prefix_ends[prefix_level(layout->lowest_level)];
            while (prefix_len > 0 && layout->prefix[prefix_len - 1] == ' ')
                prefix_len--;
            strbuf_append(layout->out, layout->prefix, prefix_len);
        }
        strbuf_append_char(layout->out, '\n');
    }
    if (begins_line)
        begin_line(layout);
    strbuf_appendf(layout->out, "%*s", (int)layout->pending_blanks, "");
    layout->pending_breaks = 0;
    layout->pending_blanks = 0;
    layout->lowest_level = layout->level;
    strbuf_append(layout->out, text, len);
}

/* Adds `prefix` to the beginning of every following line. If `mark` is not NULL, the next line has it instead
 * of `prefix`. Both are shorter than TEXT_LAYOUT_MARK_SIZE. */
static void text_layout_push(struct text_layout *layout, const char *prefix, const char *mark)
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

static void text_layout_pop(struct text_layout *layout)
{
    if (layout->level == 0)
        return;
    layout->level--;
    layout->mark[0] = '\0';
    if (layout->lowest_level > layout->level)
        layout->lowest_level = layout->level;
}

/* ---- from elements to text */

enum {
    HTML_LISTS_MAX = 12 /* all lists that are nested deeper share one counter */
};

/* The innermost row of a table. The cells share one line until the text of a cell has a second line. The
 * paragraph that mail programs put around the text of each cell does not begin a line. */
struct table_row {
    bool is_open;
    bool follows_columns; /* the previous row was a line of several cells */
    unsigned int cells;   /* number of cells begun */
    size_t lines;         /* lines of the layout when the row began */
    size_t cell_begin;    /* offset in the output at which the last cell begins */
};

struct html_reading {
    struct text_layout layout;
    unsigned int markdown_level; /* level of the heading above this text; 0 for plain text */
    struct table_row row;
    bool shows_all; /* also shows text that a style hides */
    bool has_image;
    unsigned int open;         /* number of open elements */
    unsigned int hidden;       /* number of open elements in the outermost hidden one, itself included */
    unsigned int preformatted; /* number of open preformatted elements */
    unsigned int lists;        /* number of open lists */
    unsigned int next_numbers[HTML_LISTS_MAX + 1]; /* by depth of the list; 0 if its items get no numbers */
    char *link;                                    /* address of the open link, or NULL */
    size_t link_begin;                             /* offset in the output at which the link's text begins */
    size_t address_end; /* offset in the output at which the last link's address ends; 0 before any link */
};

/* Characters of more than one byte that are dropped or become a blank. */
static const struct {
    const char *text;
    bool is_blank;
} odd_characters[] = {
    {"\xc2\xa0", true},      /* no-break space */
    {"\xc2\xad", false},     /* soft hyphen */
    {"\xcd\x8f", false},     /* combining grapheme joiner; senders fill previews with it */
    {"\xe2\x80\x8b", false}, /* zero width space */
    {"\xef\xbb\xbf", false}, /* zero width no-break space */
};

/* Returns the length of the white space or dropped character at `text`; 0 for an ordinary character. */
static size_t non_text_len(const char *text, size_t len, bool *ret_is_blank)
{
    const struct character character = character_at(text, len);
    *ret_is_blank = *text == ' ' || (*text >= '\t' && *text <= '\r') || character.kind == CHARACTER_LINE_END;
    if (*ret_is_blank || character.kind == CHARACTER_CONTROL)
        return character.len;
    if (character.len == 1)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(odd_characters); i++) {
        size_t odd = strlen(odd_characters[i].text);
        if (len >= odd && memcmp(text, odd_characters[i].text, odd) == 0) {
            *ret_is_blank = odd_characters[i].is_blank;
            return odd;
        }
    }
    return 0;
}

/* Adds a blank between a word and the address that end_link() put before it, but none before punctuation. */
static void set_apart_from_address(struct html_reading *reading, const char *text, size_t len)
{
    bool begins_word =
        len > 0 && (g_ascii_isalnum(*text) || !g_ascii_isprint(*text) || strchr("(<[", *text) != NULL);
    if (begins_word && reading->address_end > 0 && reading->address_end == reading->layout.out->len)
        text_layout_space(&reading->layout, 1);
}

static void read_text(struct html_reading *reading, const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t end = at;
        size_t odd = 0;
        bool is_blank = false;
        while (end < len && (odd = non_text_len(text + end, len - end, &is_blank)) == 0)
            end++;
        set_apart_from_address(reading, text + at, end - at);
        text_layout_append(&reading->layout, text + at, end - at);
        if (is_blank && odd > 0 && reading->preformatted == 0)
            text_layout_space(&reading->layout, 1);
        else if (is_blank && odd > 0 && text[end] == '\n')
            text_layout_line_end(&reading->layout);
        else if (is_blank && odd > 0 && text[end] != '\r')
            reading->layout.pending_blanks++;
        at = end + odd;
    }
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
    /* A link that has no text, such as a picture without a description, is left out unless the mail has no
     * other text. */
    if (is_link_text_the_address(text, len, address) || (len == 0 && !reading->shows_all))
        return;
    set_apart_from_address(reading, "<", 1);
    text_layout_space(&reading->layout, 1);
    text_layout_append(&reading->layout, "<", 1);
    text_layout_append(&reading->layout, address, strlen(address));
    text_layout_append(&reading->layout, ">", 1);
    reading->address_end = out->len;
}

static void read_image(struct html_reading *reading, const char *const *attributes)
{
    const char *description = attribute_value(attributes, "alt");
    reading->has_image = true;
    if (description == NULL || description[strspn(description, " \t\r\n")] == '\0')
        return;
    set_apart_from_address(reading, "[", 1);
    text_layout_append(&reading->layout, "[", 1);
    read_text(reading, description, strlen(description));
    reading->layout.pending_blanks = 0;
    text_layout_append(&reading->layout, "]", 1);
}

static unsigned int *next_item_number(struct html_reading *reading)
{
    return &reading->next_numbers[reading->lists < HTML_LISTS_MAX ? reading->lists : HTML_LISTS_MAX];
}

static void begin_list(struct html_reading *reading, const char *const *attributes, bool is_numbered)
{
    const char *start = attribute_value(attributes, "start");
    long first = start != NULL ? strtol(start, NULL, 10) : 1;
    text_layout_break(&reading->layout, reading->lists == 0 ? 2 : 1);
    reading->lists++;
    *next_item_number(reading) =
        is_numbered ? (unsigned int)(first > 0 && first < 1000 * 1000 ? first : 1) : 0;
}

static void begin_list_item(struct html_reading *reading)
{
    char mark[TEXT_LAYOUT_MARK_SIZE] = "- ";
    char blanks[TEXT_LAYOUT_MARK_SIZE];
    unsigned int *number = next_item_number(reading);
    if (reading->lists > 0 && *number > 0)
        snprintf(mark, sizeof(mark), "%u. ", (*number)++);
    memset(blanks, ' ', sizeof(blanks));
    blanks[strlen(mark)] = '\0';
    text_layout_push(&reading->layout, blanks, mark);
}

static void begin_heading(struct html_reading *reading, const char *name)
{
    static const char mark[] = "###### ";
    enum {
        LEVELS_MAX = sizeof(mark) - 2
    };
    if (reading->markdown_level == 0)
        return;
    unsigned int level = reading->markdown_level + (unsigned int)(name[1] - '0');
    text_layout_push(&reading->layout, "", mark + (level < LEVELS_MAX ? LEVELS_MAX - level : 0));
}

/* Returns true if the row has text, which is all on one line. */
static bool is_row_on_one_line(const struct html_reading *reading)
{
    return reading->row.is_open && reading->layout.lines == reading->row.lines + 1;
}

/* Returns true if the current position is the beginning of a cell, and a line break would split the row. */
static bool would_split_row(const struct html_reading *reading)
{
    const struct table_row *row = &reading->row;
    bool is_empty = row->is_open && reading->layout.lines == row->lines;
    return row->cells > 0 && row->cell_begin == reading->layout.out->len &&
           (is_empty ? row->follows_columns : row->cells > 1 && is_row_on_one_line(reading));
}

static void break_around(struct html_reading *reading, enum html_meaning meaning)
{
    bool may_be_in_row = meaning == HTML_LINE || meaning == HTML_PARAGRAPH;
    if (elements[meaning].breaks > 0 && !(may_be_in_row && would_split_row(reading)))
        text_layout_break(&reading->layout, elements[meaning].breaks);
}

static void begin_element(struct html_reading *reading, enum html_meaning meaning, const char *name,
                          const char *const *attributes)
{
    struct text_layout *layout = &reading->layout;
    if (meaning >= HTML_HEADING && meaning <= HTML_TABLE)
        reading->row = (struct table_row){.is_open = false};
    break_around(reading, meaning);
    if (elements[meaning].prefix != NULL)
        text_layout_push(layout, elements[meaning].prefix, NULL);
    switch (meaning) {
    case HTML_HEADING:
        begin_heading(reading, name);
        break;
    case HTML_LIST:
    case HTML_NUMBERED_LIST:
        begin_list(reading, attributes, meaning == HTML_NUMBERED_LIST);
        break;
    case HTML_LIST_ITEM:
        begin_list_item(reading);
        break;
    case HTML_PREFORMATTED:
        reading->preformatted++;
        break;
    case HTML_ROW:
        reading->row = (struct table_row){
            .is_open = true,
            .follows_columns = reading->row.follows_columns,
            .lines = layout->lines,
        };
        break;
    case HTML_CELL:
        if (reading->row.cells > 0 && is_row_on_one_line(reading))
            layout->pending_breaks = 0;
        reading->row.cells++;
        reading->row.cell_begin = layout->out->len;
        text_layout_space(layout, 2);
        break;
    case HTML_COLUMN:
        text_layout_space(layout, 2);
        break;
    case HTML_LINE_END:
        if (!would_split_row(reading))
            text_layout_line_end(layout);
        break;
    case HTML_RULE:
        text_layout_append(layout, "---", 3);
        text_layout_break(layout, 2);
        break;
    case HTML_LINK:
        free(reading->link);
        reading->link = make_link_address(attribute_value(attributes, "href"));
        reading->link_begin = layout->out->len;
        break;
    case HTML_IMAGE:
        read_image(reading, attributes);
        break;
    default:
        break;
    }
}

static void end_element(struct html_reading *reading, enum html_meaning meaning)
{
    struct text_layout *layout = &reading->layout;
    switch (meaning) {
    case HTML_ROW:
        reading->row.follows_columns = reading->row.cells > 1 && is_row_on_one_line(reading);
        reading->row.is_open = false;
        if (reading->row.follows_columns)
            layout->pending_breaks = 0;
        break;
    case HTML_TABLE:
        reading->row = (struct table_row){.is_open = false};
        break;
    case HTML_HEADING:
        if (reading->markdown_level > 0)
            text_layout_pop(layout);
        break;
    case HTML_LIST:
    case HTML_NUMBERED_LIST:
        reading->lists--;
        text_layout_break(layout, reading->lists == 0 ? 2 : 1);
        break;
    case HTML_QUOTE:
    case HTML_LIST_ITEM:
    case HTML_DEFINITION:
        text_layout_pop(layout);
        break;
    case HTML_PREFORMATTED:
        reading->preformatted--;
        break;
    case HTML_LINK:
        end_link(reading);
        break;
    default:
        break;
    }
    break_around(reading, meaning);
}

/* ---- the parser */

enum {
    OPEN_ELEMENTS_MAX = 250
};

struct html_reader {
    htmlParserCtxtPtr parser;
    struct html_reading reading;
    long resume_at; /* offset at which the parser was stopped, `prefix` included; -1 while it runs */
};

/* The text that the parser has not read yet. */
struct source {
    const char *text;
    size_t len;
    const char *after; /* the text that follows `text`, or NULL */
    size_t after_len;
};

/* Precedes the HTML, since the parser puts text outside a body into paragraphs of its own. */
static const char prefix[] = "<html><body>";

static void on_begin(void *context, const xmlChar *xml_name, const xmlChar **xml_attributes)
{
    struct html_reader *reader = context;
    struct html_reading *reading = &reader->reading;
    const char *name = (const char *)xml_name;
    const char *const *attributes = (const char *const *)xml_attributes;
    enum html_meaning meaning = meaning_of_element(name);
    if (reader->resume_at >= 0)
        return;
    if (meaning == HTML_NONE &&
        (has_style(attributes, "display", "inline-block") || has_style(attributes, "display", "table-cell") ||
         has_style(attributes, "float", "left") || has_style(attributes, "float", "right")))
        meaning = HTML_COLUMN;
    bool has_hiding_style =
        has_style(attributes, "display", "none") || attribute_value(attributes, "hidden") != NULL;
    reading->open++;
    if (reading->hidden > 0 || meaning == HTML_HIDDEN || (has_hiding_style && !reading->shows_all))
        reading->hidden++;
    else
        begin_element(reading, meaning, name, attributes);
    if (reading->layout.out->error != 0 || reading->open >= OPEN_ELEMENTS_MAX) {
        const xmlParserInput *input = reader->parser->input;
        reader->resume_at = (long)input->consumed + (input->cur - input->base);
        xmlStopParser(reader->parser);
    }
}

static void on_end(void *context, const xmlChar *name)
{
    struct html_reader *reader = context;
    if (reader->resume_at >= 0)
        return;
    reader->reading.open--;
    if (reader->reading.hidden > 0)
        reader->reading.hidden--;
    else
        end_element(&reader->reading, meaning_of_element((const char *)name));
}

static void on_text(void *context, const xmlChar *text, int len)
{
    struct html_reader *reader = context;
    if (reader->resume_at < 0 && reader->reading.hidden == 0)
        read_text(&reader->reading, (const char *)text, (size_t)len);
}

/* The parser calls this function for more text. If the parser read from memory, it would copy all the
 * remaining text at each restart. */
static int read_source(void *context, char *buffer, int size)
{
    struct source *source = context;
    size_t len = source->len < (size_t)size ? source->len : (size_t)size;
    memcpy(buffer, source->text, len);
    source->text += len;
    source->len -= len;
    if (source->len == 0 && source->after != NULL)
        *source = (struct source){TAKE_PTR(source->after), source->after_len, NULL, 0};
    return (int)len;
}

/* Parses up to the end, or until too many elements are open. Returns the number of bytes read. */
static size_t parse_until_stop(struct html_reader *reader, const char *html, size_t len)
{
    static const int options = HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                               HTML_PARSE_NONET | HTML_PARSE_NOIMPLIED | HTML_PARSE_IGNORE_ENC;
    struct source source = {prefix, strlen(prefix), html, len};
    reader->resume_at = -1;
    xmlFreeDoc(htmlCtxtReadIO(reader->parser, read_source, NULL, &source, NULL, "UTF-8", options));
    if (reader->resume_at < (long)strlen(prefix))
        return len;
    size_t end = (size_t)reader->resume_at - strlen(prefix);
    return end < len ? end + strspn(html + end, "/>") : len;
}

static void parse_all(struct html_reader *reader, const char *html, size_t len)
{
    struct html_reading *reading = &reader->reading;
    while (len > 0 && reading->layout.out->error == 0) {
        size_t count = parse_until_stop(reader, html, len);
        html += count;
        len -= count;
        /* Close all open elements. */
        text_layout_break(&reading->layout, 1);
        while (reading->layout.level > 0)
            text_layout_pop(&reading->layout);
        free(TAKE_PTR(reading->link));
        reading->row = (struct table_row){.is_open = false};
        reading->open = reading->hidden = reading->preformatted = reading->lists = 0;
    }
}

static htmlParserCtxtPtr new_parser(struct html_reader *reader)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, xmlInitParser);
    htmlParserCtxtPtr parser = htmlNewParserCtxt();
    if (parser == NULL)
        return NULL;
    *parser->sax = (xmlSAXHandler){
        .startElement = on_begin,
        .endElement = on_end,
        .characters = on_text,
        .ignorableWhitespace = on_text,
        .cdataBlock = on_text,
    };
    parser->userData = reader;
    return parser;
}

static int read_html(struct strbuf *out, const char *html, size_t len, unsigned int markdown_level)
{
    struct html_reader reader = {
        .reading = {.layout = {.out = out, .begin = out->len}, .markdown_level = markdown_level},
    };
    struct text_layout *layout = &reader.reading.layout;
    reader.parser = new_parser(&reader);
    if (reader.parser == NULL)
        return -ENOMEM;
    g_autofree char *copy = copy_for_parser(html, len, &len);
    parse_all(&reader, copy, len);
    if (text_layout_is_empty(layout) && out->error == 0) {
        reader.reading.shows_all = true;
        parse_all(&reader, copy, len);
    }
    if (text_layout_is_empty(layout) && reader.reading.has_image)
        text_layout_append(layout, "[image]", strlen("[image]"));
    htmlFreeParserCtxt(reader.parser);
    if (!text_layout_is_empty(layout))
        strbuf_append_char(out, '\n');
    return out->error;
}

int html_to_text(struct strbuf *out, const char *html, size_t len)
{
    return read_html(out, html, len, 0);
}

int html_to_markdown(struct strbuf *out, const char *html, size_t len, unsigned int level)
{
    return read_html(out, html, len, level);
}
