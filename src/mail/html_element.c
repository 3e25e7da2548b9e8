/* SPDX-License-Identifier: MIT */
/*
 * Elements and attributes.
 */
#include "mail/html_element.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/* In order of name. */
static const struct element {
    const char *name;
    enum html_meaning meaning;
} elements[] = {
    {"a", HTML_LINK},
    {"address", HTML_LINE},
    {"article", HTML_LINE},
    {"aside", HTML_LINE},
    {"blockquote", HTML_QUOTE},
    {"br", HTML_LINE_END},
    {"caption", HTML_LINE},
    {"center", HTML_LINE},
    {"dd", HTML_DEFINITION},
    {"dir", HTML_LIST},
    {"div", HTML_LINE},
    {"dl", HTML_PARAGRAPH},
    {"dt", HTML_LINE},
    {"fieldset", HTML_LINE},
    {"figcaption", HTML_LINE},
    {"figure", HTML_PARAGRAPH},
    {"footer", HTML_LINE},
    {"form", HTML_LINE},
    {"h1", HTML_PARAGRAPH},
    {"h2", HTML_PARAGRAPH},
    {"h3", HTML_PARAGRAPH},
    {"h4", HTML_PARAGRAPH},
    {"h5", HTML_PARAGRAPH},
    {"h6", HTML_PARAGRAPH},
    {"header", HTML_LINE},
    {"hr", HTML_RULE},
    {"img", HTML_IMAGE},
    {"li", HTML_LIST_ITEM},
    {"main", HTML_LINE},
    {"menu", HTML_LIST},
    {"nav", HTML_LINE},
    {"ol", HTML_NUMBERED_LIST},
    {"option", HTML_LINE},
    {"p", HTML_PARAGRAPH},
    {"pre", HTML_PREFORMATTED},
    {"script", HTML_HIDDEN},
    {"section", HTML_LINE},
    {"style", HTML_HIDDEN},
    {"svg", HTML_HIDDEN},
    {"table", HTML_PARAGRAPH},
    {"td", HTML_CELL},
    {"template", HTML_HIDDEN},
    {"textarea", HTML_PREFORMATTED},
    {"th", HTML_CELL},
    {"title", HTML_HIDDEN},
    {"tr", HTML_LINE},
    {"ul", HTML_LIST},
};

static const struct element *find_element(const char *name)
{
    size_t low = 0;
    size_t high = ARRAY_LEN(elements);
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, elements[middle].name);
        if (order == 0)
            return &elements[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

enum html_meaning html_element_meaning(const char *name)
{
    const struct element *element = find_element(name);
    return element != NULL ? element->meaning : HTML_NONE;
}

const char *html_attribute(const char *const *attributes, const char *name)
{
    for (size_t i = 0; attributes != NULL && attributes[i] != NULL; i += 2)
        if (strcmp(attributes[i], name) == 0)
            return attributes[i + 1] != NULL ? attributes[i + 1] : "";
    return NULL;
}

bool html_is_displayed(const char *const *attributes)
{
    const char *style = html_attribute(attributes, "style");
    const char *display = style != NULL ? strcasestr(style, "display") : NULL;
    if (display != NULL) {
        display += strlen("display");
        display += strspn(display, " \t\r\n:");
        if (strncasecmp(display, "none", 4) == 0)
            return false;
    }
    return html_attribute(attributes, "hidden") == NULL;
}
