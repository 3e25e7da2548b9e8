/* SPDX-License-Identifier: MIT */
/*
 * Whatever the parser may take for a start tag is looked at, be it inside a comment, a script or another
 * tag's attribute: which of these a text is in is what senders can make unclear. Tags are changed in place,
 * byte for byte, and never in a way that would change where a comment or a script ends.
 */
#include "mail/html_input.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>

enum {
    ATTRIBUTES_MAX = 200,
    ODD_TAG_MAX_BYTES = 4096, /* how far the end of a tag that is not understood is looked for */
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

/* Behind the "=": the position behind the value, NULL where there is none. */
static const char *skip_value(const char *at)
{
    if (*at == '"' || *at == '\'')
        return (at = strchr(at + 1, *at)) != NULL ? at + 1 : NULL;
    size_t len = strcspn(at, " \t\n\r\f\"'<>`");
    return len > 0 ? at + len : NULL;
}

static const char *skip_attribute(const char *at)
{
    const char *end = skip_name(at);
    if (end == at)
        return NULL;
    const char *sign = skip_blanks(end);
    return *sign == '=' ? skip_value(skip_blanks(sign + 1)) : end;
}

/* Behind a tag's name: whether all readers agree on where its attributes begin and end, and they are few. */
static bool is_plain(const char *at)
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

/* The ">" of a tag that is not plain; NULL where a comment or another tag may be in between. */
static char *find_odd_end(char *at)
{
    for (size_t i = 0; i < ODD_TAG_MAX_BYTES && at[i] != '\0' && at[i] != '<'; i++)
        if (at[i] == '>')
            return i >= 2 && at[i - 1] == '-' && at[i - 2] == '-' ? NULL : at + i;
    return NULL;
}

static void defuse(char *tag, char *attributes)
{
    char *end = find_odd_end(attributes);
    if (end != NULL)
        memset(attributes, ' ', (size_t)(end - attributes));
    else
        *tag = ' ';
}

/* "<![if !mso]>", which the parser would show as text. */
static void blank_declaration(char *at)
{
    if (strncmp(at, "<!--", 4) == 0 || g_ascii_strncasecmp(at, "<!doctype", 9) == 0)
        return;
    char *end = find_odd_end(at + 2);
    if (end != NULL)
        memset(at, ' ', (size_t)(end + 1 - at));
}

static void defuse_start_tag(char *at)
{
    const char *name = at + 1;
    char *behind = at + (skip_name(name) - at);
    bool begins_name = behind > name && !g_ascii_isdigit(*name) && *name != '-';
    if (begins_name && !is_plain(behind))
        defuse(at, behind);
}

char *html_input_copy(const char *html, size_t len, size_t *ret_len)
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
