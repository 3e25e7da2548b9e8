/* SPDX-License-Identifier: MIT */
/*
 * Converts an HTML body to readable text, for people and for searches. Blank lines separate paragraphs, marks
 * begin list items and quotes, and two blanks separate the cells of a row. A link's address follows its text
 * in angle brackets; a picture becomes its description. Scripts, styles, hidden elements, and links whose
 * only content is a picture without a description, are left out.
 *
 * The HTML may be any bytes; a conversion takes time in proportion to their number. The text is UTF-8 without
 * control characters. Since every line has the marks of its lists and quotes, hostile HTML becomes a text of
 * many times its length: the bound of the caller's buffer limits the text.
 */
#ifndef INBOXFS_MAIL_HTML_TEXT_H
#define INBOXFS_MAIL_HTML_TEXT_H

#include <stddef.h>

#include "base/strbuf.h"

/* Appends the text of `len` bytes of HTML in UTF-8, with a newline at its end unless it is empty. Return: 0;
 * -EMSGSIZE if the buffer's bound cuts the text. */
int html_to_text(struct strbuf *out, const char *html, size_t len);

/* Appends the text as Markdown for a section whose heading has `level` (1 or more): <h1> becomes a heading of
 * the next level. Return: as html_to_text(). */
int html_to_markdown(struct strbuf *out, const char *html, size_t len, unsigned int level);

#endif
