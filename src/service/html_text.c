/* SPDX-License-Identifier: MIT */
/*
 * HTML to text, a tag at a time. White space is one space, block elements start a line, as a browser shows
 * them.
 */
#include "service/html_text.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

static const char *const block_tags[] = {"p",  "div", "br", "li", "tr", "h1",         "h2",    "h3", "h4",
                                         "h5", "h6",  "ul", "ol", "hr", "blockquote", "table", "pre"};
static const char *const hidden_tags[] = {"script", "style", "title", "head"};

static const struct {
    const char *name;
    const char *text;
} entities[] = {{"amp;", "&"}, {"lt;", "<"}, {"gt;", ">"}, {"quot;", "\""}, {"apos;", "'"}, {"nbsp;", " "}};

static void append_line_end(struct strbuf *out)
{
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        strbuf_truncate(out, out->len - 1);
    if (out->len > 0 && out->data[out->len - 1] != '\n')
        strbuf_append_char(out, '\n');
}

static void append_space(struct strbuf *out)
{
    if (out->len > 0 && out->data[out->len - 1] != ' ' && out->data[out->len - 1] != '\n')
        strbuf_append_char(out, ' ');
}

static bool is_one_of(const char *name, size_t len, const char *const *names, size_t names_len)
{
    for (size_t i = 0; i < names_len; i++) {
        if (strlen(names[i]) == len && strncasecmp(names[i], name, len) == 0)
            return true;
    }
    return false;
}

/* "&#233;" or "&#xe9;", past the "&#". The number of characters taken; 0: no such reference. */
static size_t append_numeric(struct strbuf *out, const char *text)
{
    bool is_hex = text[0] == 'x' || text[0] == 'X';
    size_t digits = is_hex ? 1 : 0;
    size_t len = digits + strspn(text + digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789");
    if (len == digits || len > digits + 8 || text[len] != ';')
        return 0;
    unsigned long code = strtoul(text + digits, NULL, is_hex ? 16 : 10);
    char utf8[6];
    if (code < 0x20 || code > 0x10ffff || !g_unichar_validate((gunichar)code))
        return 0;
    strbuf_append(out, utf8, (size_t)g_unichar_to_utf8((gunichar)code, utf8));
    return len + 1;
}

/* At "&": the position behind the reference; what is none stays as it is. */
static const char *append_entity(struct strbuf *out, const char *at)
{
    if (at[1] == '#') {
        size_t len = append_numeric(out, at + 2);
        if (len > 0)
            return at + 2 + len;
    }
    for (size_t i = 0; i < ARRAY_LEN(entities); i++) {
        size_t len = strlen(entities[i].name);
        if (strncmp(at + 1, entities[i].name, len) == 0) {
            strbuf_append_str(out, entities[i].text);
            return at + 1 + len;
        }
    }
    strbuf_append_char(out, '&');
    return at + 1;
}

/* Behind the start tag `name`: the position of its end tag, or the end of the text. */
static const char *find_end_tag(const char *at, const char *name, size_t len)
{
    while ((at = strstr(at, "</")) != NULL) {
        if (strncasecmp(at + 2, name, len) == 0)
            return at;
        at += 2;
    }
    return NULL;
}

/* At "<": the position behind the tag, comment, or element that is not shown. NULL: nothing follows. */
static const char *skip_tag(struct strbuf *out, const char *at)
{
    if (strncmp(at, "<!--", 4) == 0) {
        const char *end = strstr(at + 4, "-->");
        return end != NULL ? end + 3 : NULL;
    }
    bool is_end = at[1] == '/';
    const char *name = at + 1 + is_end;
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    const char *end = strchr(name, '>');
    if (end == NULL)
        return NULL;
    if (is_one_of(name, len, block_tags, ARRAY_LEN(block_tags)))
        append_line_end(out);
    if (!is_end && is_one_of(name, len, hidden_tags, ARRAY_LEN(hidden_tags)))
        return find_end_tag(end + 1, name, len);
    return end + 1;
}

int html_text_append(struct strbuf *out, const char *html)
{
    const char *at = html;
    while (at != NULL && *at != '\0' && out->error == 0) {
        bool is_tag = *at == '<' && (g_ascii_isalpha(at[1]) || at[1] == '/' || at[1] == '!');
        if (is_tag) {
            at = skip_tag(out, at);
        } else if (*at == '&') {
            at = append_entity(out, at);
        } else if (g_ascii_isspace(*at)) {
            append_space(out);
            at++;
        } else {
            size_t len = strcspn(at, "<& \t\r\n\f\v");
            len = len > 0 ? len : 1;
            strbuf_append(out, at, len);
            at += len;
        }
    }
    return out->error;
}
