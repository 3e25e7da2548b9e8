/* SPDX-License-Identifier: MIT */
/*
 * Addresses of links, as they are shown in text. For the html_*.c files alone.
 */
#ifndef INBOXFS_MAIL_HTML_LINK_H
#define INBOXFS_MAIL_HTML_LINK_H

#include <stdbool.h>
#include <stddef.h>

/* What is shown of a link with this address (an href): the caller frees. NULL: nothing, for it leads nowhere
 * from a text file, or is over-long, or holds blanks. Without memory NULL, too. */
char *html_link_address(const char *href);

/* Whether a link's text says its address already: a scheme, or a slash at the end, may be missing. */
bool html_link_is_said(const char *text, size_t len, const char *address);

#endif
