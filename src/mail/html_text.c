/* SPDX-License-Identifier: MIT */
/*
 * Reads tags and text in one pass, as browsers do. A stack of the open elements takes the place of a tree: it
 * is bounded, so that memory and time do not grow with its depth. A tag, a comment or a script without an end
 * ends the text, so that no part of hostile HTML is searched repeatedly.
 */
#include "mail/html_text.h"

#include <glib.h>
#include <libxml/HTMLparser.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"

/* ---- tags, attributes and character references */

#define BLANKS " \t\r\n\f"

enum {
    NAME_SIZE = 16, /* memory for the name of an element or a reference; all known ones are shorter */
};

struct tag {
    char name[NAME_SIZE]; /* in small letters; longer names are cut */
    bool is_end;
    const char *attributes; /* borrowed; ends before the ">" of the tag */
};

struct attribute {
    const char *name; /* borrowed, as is `value` */
    size_t name_len;
    const char *value;
    size_t value_len;
};

/* Reads the attribute at *at, and sets *at to the position after it. Returns false at the end of the tag. */
static bool read_attribute(const char **at, struct attribute *ret)
{
    const char *name = *at + strspn(*at, BLANKS "/");
    *at = name;
    if (*name == '>' || *name == '\0')
        return false;
    size_t name_len = 1 + strcspn(name + 1, BLANKS "/>=");
    const char *end = name + name_len;
    const char *value = end + strspn(end, BLANKS);
    size_t value_len = 0;
    if (*value == '=') {
        value += 1 + strspn(value + 1, BLANKS);
        const char *quote = *value == '"' || *value == '\'' ? strchr(value + 1, *value) : NULL;
        value += quote != NULL;
        value_len = quote != NULL ? (size_t)(quote - value) : strcspn(value, BLANKS ">");
        end = value + value_len + (quote != NULL);
    }
    *at = end;
    *ret = (struct attribute){name, name_len, value, value_len};
    return true;
}

/* Reads the tag whose "<" is at `at`. Returns the position after the tag; NULL if the tag has no end. */
static const char *read_tag(const char *at, struct tag *ret)
{
    *ret = (struct tag){.is_end = at[1] == '/'};
    const char *name = at + 1 + ret->is_end;
    size_t len = strcspn(name, BLANKS "/>");
    for (size_t i = 0; i < len && i < NAME_SIZE - 1; i++)
        ret->name[i] = g_ascii_tolower(name[i]);
    ret->attributes = name + len;

    struct attribute attribute;
    const char *end = ret->attributes;
    while (read_attribute(&end, &attribute))
        continue;
    return *end == '>' ? end + 1 : NULL;
}

/* Returns the length of the character reference at `text`, such as "&lt;" or "&#233;", and its character;
 * 0 if there is none. */
static size_t read_reference(const char *text, gunichar *ret)
{
    char name[NAME_SIZE] = "";
    if (text[1] != '#') {
        size_t len = 0;
        while (len < NAME_SIZE - 1 && g_ascii_isalnum(text[1 + len]))
            len++;
        memcpy(name, text + 1, len);
        const htmlEntityDesc *entity = text[1 + len] == ';' ? htmlEntityLookup((const xmlChar *)name) : NULL;
        *ret = entity != NULL ? entity->value : 0;
        return entity != NULL ? len + 2 : 0;
    }
    bool is_hexadecimal = text[2] == 'x' || text[2] == 'X';
    const char *digits = text + 2 + is_hexadecimal;
    if (is_hexadecimal ? !g_ascii_isxdigit(*digits) : !g_ascii_isdigit(*digits))
        return 0;
    char *end;
    guint64 code = g_ascii_strtoull(digits, &end, is_hexadecimal ? 16 : 10);
    *ret = code <= 0x10ffff && g_unichar_validate((gunichar)code) ? (gunichar)code : 0;
    return (size_t)(end - text) + (*end == ';');
}

/* Returns the text with characters for its references; the caller frees. */
static char *decode_references(const char *text, size_t len)
{
    GString *decoded = g_string_sized_new(len);
    for (const char *end = text + len; text < end;) {
        gunichar c = 0;
        size_t reference_len = *text == '&' ? read_reference(text, &c) : 0;
        if (reference_len == 0)
            g_string_append_c(decoded, *text);
        else if (c != 0)
            g_string_append_unichar(decoded, c);
        text += MAX(reference_len, 1);
    }
    return g_string_free(decoded, FALSE);
}

/* Returns the value of an attribute, "" if it has no value; NULL if there is no such attribute. The caller
 * frees. */
static char *attribute_value(const struct tag *tag, const char *name)
{
    struct attribute attribute;
    for (const char *at = tag->attributes; read_attribute(&at, &attribute);)
        if (attribute.name_len == strlen(name) &&
            g_ascii_strncasecmp(attribute.name, name, attribute.name_len) == 0)
            return decode_references(attribute.value, attribute.value_len);
    return NULL;
}

/* Returns true if the style, which may be NULL, has a property that begins with this value. */
static bool has_style(const char *style, const char *property, const char *value)
{
    const char *at = style != NULL ? strcasestr(style, property) : NULL;
    if (at == NULL)
        return false;
    at += strlen(property);
    at += strspn(at, BLANKS ":");
    return g_ascii_strncasecmp(at, value, strlen(value)) == 0;
}

/* ---- elements */

enum html_meaning {
    HTML_NONE,
    HTML_COLUMN, /* an inline element whose style makes it a column */
    HTML_LINK,
    HTML_HIDDEN,
    HTML_CODE,      /* hidden, and its content is not HTML */
    HTML_LINE,      /* begins and ends a line */
    HTML_PARAGRAPH, /* set apart by blank lines */
    HTML_VOID,      /* the elements from HTML_VOID to HTML_RULE have no content and no end tag */
    HTML_LINE_END,
    HTML_IMAGE,
    HTML_RULE,
    HTML_HEADING,
    HTML_QUOTE,
    HTML_LIST,
    HTML_LIST_ITEM,
    HTML_TERM,
    HTML_DEFINITION,
    HTML_PREFORMATTED,
    HTML_CELL,
    HTML_ROW,
    HTML_TABLE,
};

static const struct {
    const char *names;      /* names of elements, with a blank before and after each */
    unsigned int breaks;    /* line ends before and after the element; 2 leave a blank line */
    enum html_meaning ends; /* the start tag ends an open element of this meaning */
} elements[] = {
    [HTML_LINK] = {" a ", 0, HTML_LINK},
    [HTML_HIDDEN] = {" svg template ", 0, HTML_NONE},
    [HTML_CODE] = {" script style title ", 0, HTML_NONE},
    [HTML_VOID] = {" area base col embed input link meta param source track wbr ", 0, HTML_NONE},
    [HTML_LINE_END] = {" br ", 0, HTML_NONE},
    [HTML_IMAGE] = {" img ", 0, HTML_NONE},
    [HTML_RULE] = {" hr ", 2, HTML_PARAGRAPH},
    [HTML_LINE] =
        {" address article aside caption center div fieldset figcaption footer form header main nav option "
         "section ",
         1, HTML_PARAGRAPH},
    [HTML_PARAGRAPH] = {" figure p ", 2, HTML_PARAGRAPH},
    [HTML_HEADING] = {" h1 h2 h3 h4 h5 h6 ", 2, HTML_PARAGRAPH},
    [HTML_QUOTE] = {" blockquote ", 2, HTML_PARAGRAPH},
    [HTML_LIST] = {" dir dl menu ol ul ", 1, HTML_PARAGRAPH},
    [HTML_LIST_ITEM] = {" li ", 1, HTML_LIST_ITEM},
    [HTML_TERM] = {" dt ", 1, HTML_DEFINITION},
    [HTML_DEFINITION] = {" dd ", 1, HTML_DEFINITION},
    [HTML_PREFORMATTED] = {" pre textarea ", 2, HTML_PARAGRAPH},
    [HTML_CELL] = {" td th ", 0, HTML_CELL},
    [HTML_ROW] = {" tr ", 1, HTML_ROW},
    [HTML_TABLE] = {" table ", 2, HTML_PARAGRAPH},
};

static enum html_meaning meaning_of(const struct tag *tag, const char *style)
{
    char word[NAME_SIZE + 2];
    snprintf(word, sizeof(word), " %s ", tag->name);
    for (enum html_meaning meaning = HTML_NONE; meaning < ARRAY_LEN(elements); meaning++)
        if (elements[meaning].names != NULL && strstr(elements[meaning].names, word) != NULL)
            return meaning;
    bool is_column = has_style(style, "display", "inline-block") ||
                     has_style(style, "display", "table-cell") || has_style(style, "float", "left") ||
                     has_style(style, "float", "right");
    return is_column ? HTML_COLUMN : HTML_NONE;
}

enum {
    OPEN_ELEMENTS_MAX = 250,
    PREFIX_MAX_BYTES = 24,  /* deeper quotes and lists get no mark, to leave room for text */
    PENDING_BREAKS_MAX = 3, /* two blank lines */
};

/* An element that is open, with all that it changes: its end restores what the element around it has. */
struct open_element {
    char name[NAME_SIZE];
    enum html_meaning meaning;
    bool is_hidden;
    bool is_preformatted;
    unsigned int next_number; /* number of a list's next item; 0 if its items get no numbers */
    size_t prefix_len;        /* length of the prefix of its lines */
};

/* The innermost row of a table. The cells share one line until the text of a cell has a second line. The
 * paragraph that mail programs put around the text of each cell does not begin a line. */
struct table_row {
    unsigned int cells; /* number of cells begun */
    size_t lines;       /* value of html_reading.lines when the row began */
    size_t cell_begin;  /* offset in the output at which the last cell begins */
};

/* Breaks and blanks are pending until text follows, so that they are not doubled, do not begin the text, and
 * do not end a line. */
struct html_reading {
    struct strbuf *out; /* borrowed */
    size_t begin;       /* offset in `out` at which this text begins */
    size_t lines;       /* number of lines begun, without blank lines */
    unsigned int pending_breaks;
    size_t pending_blanks;
    char prefix[PREFIX_MAX_BYTES]; /* marks of quotes and lists at the beginning of a line */
    size_t blank_prefix_len;       /* shortest prefix since the last text; blank lines have it */
    unsigned int markdown_level;   /* level of the heading above this text; 0 for plain text */
    struct table_row row;
    struct open_element open[OPEN_ELEMENTS_MAX + 1]; /* the first is the document */
    size_t depth;                                    /* index of the innermost open element */
    char *link;                                      /* address of the open link, or NULL */
    size_t link_begin;    /* offset in the output at which the link's text begins */
    bool link_has_image;  /* with no description, and not of one pixel, which counts readers */
    bool follows_address; /* the last text is the address of a link */
};

/* ---- the layout of running text: white space, line breaks and prefixes */

static struct open_element *innermost(struct html_reading *reading)
{
    return &reading->open[reading->depth];
}

static bool is_at_line_begin(const struct html_reading *reading)
{
    return reading->out->len == reading->begin || reading->pending_breaks > 0;
}

/* Ensures at least `breaks` line ends before the next text: 1 ends the line, 2 leaves a blank line. */
static void break_lines(struct html_reading *reading, unsigned int breaks)
{
    reading->pending_breaks = MAX(reading->pending_breaks, breaks);
    reading->pending_blanks = 0;
}

/* Adds a line end. Several line ends in a row keep the author's blank lines, up to PENDING_BREAKS_MAX - 1. */
static void add_line_end(struct html_reading *reading)
{
    break_lines(reading, MIN(reading->pending_breaks + 1, (unsigned int)PENDING_BREAKS_MAX));
}

/* Ensures at least `blanks` blanks before the next text, if it is on the same line. */
static void set_apart(struct html_reading *reading, size_t blanks)
{
    if (!is_at_line_begin(reading))
        reading->pending_blanks = MAX(reading->pending_blanks, blanks);
}

/* Gives the lines of the innermost element a mark, such as "- " or "> ". */
static void add_prefix(struct html_reading *reading, const char *mark)
{
    struct open_element *element = innermost(reading);
    size_t len = strlen(mark);
    if (element->prefix_len + len > PREFIX_MAX_BYTES)
        return;
    memcpy(reading->prefix + element->prefix_len, mark, len);
    element->prefix_len += len;
}

static void begin_line(struct html_reading *reading)
{
    size_t len = innermost(reading)->prefix_len;
    strbuf_append(reading->out, reading->prefix, len);
    reading->lines++;
    /* Each line of a quote has its mark. The mark of a list item is on the first line alone. */
    for (size_t i = 0; i < len; i++)
        if (reading->prefix[i] != '>')
            reading->prefix[i] = ' ';
}

static void append_breaks(struct html_reading *reading)
{
    size_t len = reading->blank_prefix_len;
    while (len > 0 && reading->prefix[len - 1] == ' ')
        len--;
    for (unsigned int i = 0; i < reading->pending_breaks; i++) {
        strbuf_append(reading->out, reading->prefix, i > 0 ? len : 0);
        strbuf_append_char(reading->out, '\n');
    }
}

/* Appends the pending breaks and blanks, then text without white space and control characters. */
static void append_word(struct html_reading *reading, const char *text, size_t len)
{
    if (len == 0)
        return;
    bool is_punctuation = g_ascii_ispunct(*text) && strchr("(<[", *text) == NULL;
    if (reading->follows_address && !is_punctuation)
        set_apart(reading, 1);
    bool begins_line = is_at_line_begin(reading);
    if (reading->out->len > reading->begin)
        append_breaks(reading);
    if (begins_line)
        begin_line(reading);
    strbuf_appendf(reading->out, "%*s", (int)reading->pending_blanks, "");
    strbuf_append(reading->out, text, len);
    reading->pending_breaks = 0;
    reading->pending_blanks = 0;
    reading->blank_prefix_len = innermost(reading)->prefix_len;
    reading->follows_address = false;
}

static bool is_white_space(struct character character)
{
    return (character.code >= '\t' && character.code <= '\r') || character.code == ' ' ||
           character.code == 0xa0 || character.kind == CHARACTER_LINE_END;
}

/* Returns true for controls and invisible characters: soft hyphen, combining grapheme joiner (with which
 * senders fill previews), zero width space, zero width no-break space. */
static bool is_dropped(struct character character)
{
    return character.kind == CHARACTER_CONTROL || character.code == 0xad || character.code == 0x34f ||
           character.code == 0x200b || character.code == 0xfeff;
}

static void append_white_space(struct html_reading *reading, uint32_t code)
{
    if (!innermost(reading)->is_preformatted)
        set_apart(reading, 1);
    else if (code == '\n')
        add_line_end(reading);
    else if (code != '\r')
        reading->pending_blanks++;
}

static void append_text(struct html_reading *reading, const char *text)
{
    const char *end = text + strlen(text);
    const char *word = text;
    while (text < end) {
        const struct character character = character_at(text, (size_t)(end - text));
        bool is_blank = is_white_space(character);
        if (is_blank || is_dropped(character)) {
            append_word(reading, word, (size_t)(text - word));
            word = text + character.len;
        }
        if (is_blank)
            append_white_space(reading, character.code);
        text += character.len;
    }
    append_word(reading, word, (size_t)(end - word));
}

/* ---- links and pictures */

enum {
    LINK_MAX_BYTES = 2048, /* longer addresses are left out */
};

/* Returns the text to show for a link; the caller frees. Returns NULL if the link has no address, or one that
 * is of no use in a text file, is too long or holds blanks. */
static char *make_link_address(const struct tag *tag)
{
    static const char *const schemes[] = {"http", "https", "mailto", "tel", "ftp", NULL};
    g_autofree char *href = attribute_value(tag, "href");
    const char *colon = href != NULL ? strchr(g_strstrip(href), ':') : NULL;
    g_autofree char *scheme = colon != NULL ? g_ascii_strdown(href, colon - href) : NULL;
    if (scheme == NULL || !g_strv_contains(schemes, scheme) || strlen(href) > LINK_MAX_BYTES ||
        strpbrk(href, " <>") != NULL ||
        character_has(href, CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION))
        return NULL;
    if (strcmp(scheme, "mailto") != 0)
        return g_steal_pointer(&href);
    const char *address = href + strlen("mailto:");
    size_t len = strcspn(address, "?");
    return len > 0 ? g_strndup(address, len) : NULL;
}

/* Returns the address without its scheme and the slash at its end; the caller frees. */
static char *shorten_address(const char *address)
{
    const char *slashes = strstr(address, "://");
    const char *begin = slashes != NULL                     ? slashes + strlen("://")
                        : g_str_has_prefix(address, "tel:") ? address + strlen("tel:")
                                                            : address;
    size_t len = strlen(begin);
    return g_strndup(begin, len > 0 && begin[len - 1] == '/' ? len - 1 : len);
}

static void begin_link(struct html_reading *reading, const struct tag *tag)
{
    g_free(reading->link);
    reading->link = make_link_address(tag);
    reading->link_begin = reading->out->len;
    reading->link_has_image = false;
}

/* Appends the address, unless it is the text of the link, or the link shows nothing. */
static void end_link(struct html_reading *reading)
{
    g_autofree char *address = TAKE_PTR(reading->link);
    if (address == NULL)
        return;
    const char *text = strbuf_str(reading->out) + reading->link_begin;
    text += strspn(text, " \n");
    g_autofree char *short_text = shorten_address(text);
    g_autofree char *short_address = shorten_address(address);
    if ((text[0] == '\0' && !reading->link_has_image) || g_ascii_strcasecmp(short_text, short_address) == 0)
        return;
    g_autofree char *shown = g_strdup_printf("<%s>", address);
    set_apart(reading, 1);
    append_word(reading, shown, strlen(shown));
    reading->follows_address = true;
}

static void append_image(struct html_reading *reading, const struct tag *tag)
{
    g_autofree char *description = attribute_value(tag, "alt");
    if (description == NULL || g_strstrip(description)[0] == '\0') {
        g_autofree char *width = attribute_value(tag, "width");
        reading->link_has_image |= g_strcmp0(width, "1") != 0;
        return;
    }
    append_word(reading, "[", 1);
    append_text(reading, description);
    append_word(reading, "]", 1);
}

/* ---- lists, headings and tables */

/* Returns the innermost list around the innermost element, or NULL. */
static struct open_element *find_list(struct html_reading *reading)
{
    for (size_t i = reading->depth; i > 1; i--)
        if (reading->open[i - 1].meaning == HTML_LIST)
            return &reading->open[i - 1];
    return NULL;
}

static void begin_list(struct html_reading *reading, const struct tag *tag)
{
    if (strcmp(tag->name, "ol") != 0)
        return;
    g_autofree char *start = attribute_value(tag, "start");
    long first = start != NULL ? strtol(start, NULL, 10) : 1;
    innermost(reading)->next_number = first > 0 && first < 1000 * 1000 ? (unsigned int)first : 1;
}

static void begin_list_item(struct html_reading *reading)
{
    char mark[16] = "- ";
    struct open_element *list = find_list(reading);
    if (list != NULL && list->next_number > 0)
        snprintf(mark, sizeof(mark), "%u. ", list->next_number++);
    add_prefix(reading, mark);
}

static void begin_heading(struct html_reading *reading, const struct tag *tag)
{
    char mark[16];
    unsigned int level = reading->markdown_level + (unsigned int)(tag->name[1] - '0');
    snprintf(mark, sizeof(mark), "%.*s ", (int)level, "######");
    if (reading->markdown_level > 0)
        add_prefix(reading, mark);
}

/* Returns true if the row has text, all of which is on one line. */
static bool is_row_on_one_line(const struct html_reading *reading)
{
    return reading->row.cells > 0 && reading->lines == reading->row.lines + 1;
}

static void begin_cell(struct html_reading *reading)
{
    if (is_row_on_one_line(reading))
        reading->pending_breaks = 0;
    reading->row.cells++;
    reading->row.cell_begin = reading->out->len;
    set_apart(reading, 2);
}

static void end_row(struct html_reading *reading)
{
    if (reading->row.cells > 1 && is_row_on_one_line(reading))
        reading->pending_breaks = 0;
    reading->row = (struct table_row){0};
}

/* ---- the beginning and the end of an element */

static void break_around(struct html_reading *reading, enum html_meaning meaning)
{
    bool may_be_in_row = meaning == HTML_LINE_END || meaning == HTML_LINE || meaning == HTML_PARAGRAPH;
    bool begins_cell = reading->row.cells > 0 && reading->row.cell_begin == reading->out->len;
    if (may_be_in_row && begins_cell && reading->lines <= reading->row.lines + 1)
        return;
    if (meaning == HTML_LINE_END)
        add_line_end(reading);
    else if (meaning == HTML_LIST && find_list(reading) == NULL)
        break_lines(reading, 2);
    else if (elements[meaning].breaks > 0)
        break_lines(reading, elements[meaning].breaks);
}

/* Shows the beginning of an element, which is the innermost one unless it has no content. */
static void begin_element(struct html_reading *reading, enum html_meaning meaning, const struct tag *tag)
{
    if (meaning >= HTML_RULE && meaning != HTML_CELL && meaning != HTML_ROW)
        reading->row = (struct table_row){0};
    break_around(reading, meaning);
    switch (meaning) {
    case HTML_COLUMN:
        set_apart(reading, 2);
        break;
    case HTML_LINK:
        begin_link(reading, tag);
        break;
    case HTML_IMAGE:
        append_image(reading, tag);
        break;
    case HTML_RULE:
        append_word(reading, "---", 3);
        break_around(reading, meaning);
        break;
    case HTML_HEADING:
        begin_heading(reading, tag);
        break;
    case HTML_QUOTE:
        add_prefix(reading, "> ");
        break;
    case HTML_LIST:
        begin_list(reading, tag);
        break;
    case HTML_LIST_ITEM:
        begin_list_item(reading);
        break;
    case HTML_DEFINITION:
        add_prefix(reading, "  ");
        break;
    case HTML_PREFORMATTED:
        innermost(reading)->is_preformatted = true;
        break;
    case HTML_ROW:
        reading->row = (struct table_row){.lines = reading->lines};
        break;
    case HTML_CELL:
        begin_cell(reading);
        break;
    default:
        break;
    }
}

static void end_element(struct html_reading *reading)
{
    struct open_element *element = innermost(reading);
    if (!element->is_hidden) {
        if (element->meaning == HTML_LINK)
            end_link(reading);
        else if (element->meaning == HTML_ROW || element->meaning == HTML_TABLE)
            end_row(reading);
        break_around(reading, element->meaning);
    }
    reading->depth--;
    reading->blank_prefix_len = MIN(reading->blank_prefix_len, innermost(reading)->prefix_len);
}

static void end_elements(struct html_reading *reading, size_t depth)
{
    while (reading->depth > depth)
        end_element(reading);
}

/* Ends the innermost element of this meaning, with all in it, unless a list or a table began in it. */
static void end_implied(struct html_reading *reading, enum html_meaning meaning)
{
    for (size_t i = reading->depth; i > 0; i--) {
        enum html_meaning open = reading->open[i].meaning;
        if (open == meaning)
            end_elements(reading, i - 1);
        if (open == meaning || open == HTML_LIST || open == HTML_TABLE)
            return;
    }
}

/* Elements of a higher rank are not ended by the end tag of an element around them. */
static enum html_meaning rank_of(enum html_meaning meaning)
{
    return meaning < HTML_LINE ? HTML_NONE : meaning < HTML_CELL ? HTML_LINE : meaning;
}

static void read_end_tag(struct html_reading *reading, const struct tag *tag)
{
    enum html_meaning rank = HTML_NONE;
    size_t i = reading->depth;
    for (; i > 0 && strcmp(reading->open[i].name, tag->name) != 0; i--)
        rank = MAX(rank, rank_of(reading->open[i].meaning));
    if (i > 0 && (rank <= rank_of(reading->open[i].meaning) || reading->open[i].meaning == HTML_HIDDEN))
        end_elements(reading, i - 1);
}

static void push_element(struct html_reading *reading, const struct tag *tag, enum html_meaning meaning)
{
    struct open_element *element = &reading->open[++reading->depth];
    *element = element[-1];
    memcpy(element->name, tag->name, NAME_SIZE);
    element->meaning = meaning;
    element->next_number = 0;
}

/* Returns the meaning of the element. */
static enum html_meaning read_start_tag(struct html_reading *reading, const struct tag *tag)
{
    g_autofree char *style = attribute_value(tag, "style");
    g_autofree char *hidden = attribute_value(tag, "hidden");
    enum html_meaning meaning = meaning_of(tag, style);
    bool has_content = meaning < HTML_VOID || meaning > HTML_RULE;
    if (elements[meaning].ends != HTML_NONE)
        end_implied(reading, elements[meaning].ends);
    bool is_hidden = innermost(reading)->is_hidden || hidden != NULL || has_style(style, "display", "none") ||
                     meaning == HTML_HIDDEN || meaning == HTML_CODE;
    if (has_content) {
        push_element(reading, tag, meaning);
        innermost(reading)->is_hidden = is_hidden;
    }
    if (!is_hidden)
        begin_element(reading, meaning, tag);
    if (reading->depth == OPEN_ELEMENTS_MAX)
        end_elements(reading, 0);
    return meaning;
}

/* ---- the text of HTML */

/* Returns the position of the next tag, comment or declaration, or the end of the text. */
static const char *find_markup(const char *at)
{
    for (at = strchrnul(at, '<'); *at != '\0'; at = strchrnul(at + 1, '<'))
        if (at[1] == '!' || at[1] == '?' || at[1] == '/' || g_ascii_isalpha(at[1]))
            break;
    return at;
}

/* Returns the position after the comment whose "<!--" is at `at`; NULL if the comment has no end. */
static const char *skip_comment(const char *at)
{
    for (at = strstr(at + 2, "--"); at != NULL; at = strstr(at + 1, "--"))
        if (at[2] == '>' || (at[2] == '!' && at[3] == '>'))
            return strchr(at, '>') + 1;
    return NULL;
}

/* Reads what begins with the "<" at `at`. Returns the position after it; NULL at the end of the text. */
static const char *read_markup(struct html_reading *reading, const char *at)
{
    if (g_str_has_prefix(at, "<!--"))
        return skip_comment(at);
    if (!g_ascii_isalpha(at[1 + (at[1] == '/')])) {
        const char *end = strchr(at, '>');
        return end != NULL ? end + 1 : NULL;
    }
    struct tag tag;
    const char *next = read_tag(at, &tag);
    if (next == NULL)
        return NULL;
    if (tag.is_end) {
        read_end_tag(reading, &tag);
        return next;
    }
    /* In SVG, "/>" ends an element. */
    if (next[-2] == '/' && (innermost(reading)->is_hidden || strcmp(tag.name, "svg") == 0))
        return next;
    if (read_start_tag(reading, &tag) != HTML_CODE)
        return next;
    g_autofree char *end_tag = g_strdup_printf("</%s", tag.name);
    return strcasestr(next, end_tag);
}

static int read_html(struct strbuf *out, const char *html, size_t len, unsigned int markdown_level)
{
    struct html_reading reading = {.out = out, .begin = out->len, .markdown_level = markdown_level};
    g_autofree char *valid = g_utf8_make_valid(html, (gssize)len);
    for (const char *at = valid; at != NULL && *at != '\0' && out->error == 0;) {
        const char *markup = find_markup(at);
        g_autofree char *text = decode_references(at, (size_t)(markup - at));
        if (!innermost(&reading)->is_hidden)
            append_text(&reading, text);
        at = *markup != '\0' ? read_markup(&reading, markup) : NULL;
    }
    end_elements(&reading, 0);
    if (out->len > reading.begin)
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
