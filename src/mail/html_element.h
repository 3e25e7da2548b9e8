/* SPDX-License-Identifier: MIT */
/*
 * What the elements of HTML mean for its text. For the html_*.c files alone.
 */
#ifndef INBOXFS_MAIL_HTML_ELEMENT_H
#define INBOXFS_MAIL_HTML_ELEMENT_H

#include <stdbool.h>

enum html_meaning {
    HTML_NONE,
    HTML_LINE,      /* begins and ends a line */
    HTML_PARAGRAPH, /* set apart by blank lines */
    HTML_QUOTE,
    HTML_LIST,
    HTML_NUMBERED_LIST,
    HTML_LIST_ITEM,
    HTML_DEFINITION,
    HTML_PREFORMATTED,
    HTML_CELL,
    HTML_LINE_END,
    HTML_RULE,
    HTML_LINK,
    HTML_IMAGE,
    HTML_HIDDEN,
};

/* HTML_NONE for those that mean nothing, and unknown ones. */
enum html_meaning html_element_meaning(const char *name);

/* The value of an attribute, "" when it has none; NULL: there is no such attribute. `attributes` are name and
 * value in turn, NULL behind them; or NULL. */
const char *html_attribute(const char *const *attributes, const char *name);

/* Whether an element with these attributes is shown. */
bool html_is_displayed(const char *const *attributes);

#endif
