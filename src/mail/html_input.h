/* SPDX-License-Identifier: MIT */
/*
 * HTML from strangers, made fit for libxml2's parser: valid UTF-8 without NULs, and no start tag that costs
 * the parser more than its length. The parser compares each attribute of a tag with all before it, so that a
 * message of a few megabytes in one tag would keep it busy for hours. For html_text.c alone.
 */
#ifndef INBOXFS_MAIL_HTML_INPUT_H
#define INBOXFS_MAIL_HTML_INPUT_H

#include <stddef.h>

/* A copy that the parser can be given; g_free() it. A start tag with a few hundred attributes, or one that
 * readers of HTML do not agree about, loses its attributes, or counts as text. */
char *html_input_copy(const char *html, size_t len, size_t *ret_len);

#endif
