/* SPDX-License-Identifier: MIT */
/*
 * The reading of HTML: what the parser reports, element by element, laid out as text. For the html_*.c files
 * alone.
 */
#ifndef INBOXFS_MAIL_HTML_READING_H
#define INBOXFS_MAIL_HTML_READING_H

#include <stdbool.h>
#include <stddef.h>

#include "mail/text_layout.h"

enum {
    HTML_LISTS_MAX = 12 /* deeper ones are numbered as one */
};

/* Zeros, with the layout initialised. */
struct html_reading {
    struct text_layout layout;
    bool shows_all; /* what is not displayed, too */
    bool has_image;
    unsigned int open;         /* elements */
    unsigned int hidden;       /* of them, the outermost hidden one and those in it */
    unsigned int preformatted; /* of them */
    unsigned int lists;        /* of them */
    unsigned int
        next_item[HTML_LISTS_MAX + 1]; /* number of each list's next item; 0: not numbered. [0]: no list */
    char *link;                        /* address of the open link, or NULL */
    size_t link_begin;                 /* where its text begins in the output */
};

/* Begins and ends come in pairs, properly nested. `attributes`: html_element.h. */
void html_reading_begin(struct html_reading *reading, const char *name, const char *const *attributes);
void html_reading_end(struct html_reading *reading, const char *name);
void html_reading_text(struct html_reading *reading, const char *text, size_t len);

/* All that is open ends here; releases what the reading holds. */
void html_reading_close(struct html_reading *reading);

#endif
