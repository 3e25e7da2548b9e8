/* SPDX-License-Identifier: MIT */
/*
 * The readable text of an HTML body, for people and for searches, by libxml2's HTML parser. Paragraphs are
 * set apart by blank lines, lists get their marks, quotes "> ", cells of a row two blanks between them; a
 * link is followed by its address in angle brackets, a picture stands as its description. Scripts, styles,
 * links that hold nothing but a picture without a description, and what is not displayed are left out, except
 * where nothing else is there to read.
 *
 * Senders are strangers: any bytes are taken, in time in proportion to their number. The text is UTF-8
 * without control characters, a few times as long as the HTML at most.
 */
#ifndef INBOXFS_MAIL_HTML_TEXT_H
#define INBOXFS_MAIL_HTML_TEXT_H

#include <stddef.h>

#include "base/strbuf.h"

/* Appends the text of `len` bytes of HTML in UTF-8, with a newline at its end unless it is empty. 0, -ENOMEM,
 * or -EMSGSIZE: it would pass the buffer's ceiling; what fits is appended. */
int html_to_text(struct strbuf *out, const char *html, size_t len);

/* The same as Markdown, for what stands below a heading of `level` (1 or more): <h1> is a heading one level
 * lower. */
int html_to_markdown(struct strbuf *out, const char *html, size_t len, unsigned int level);

#endif
