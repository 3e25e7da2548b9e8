/* SPDX-License-Identifier: MIT */
/*
 * The readable text of an HTML body, for prompts and searches: tags, scripts and styles left out, entities
 * decoded. It takes any input, well-formed or not, in time in proportion to its length.
 */
#ifndef INBOXFS_SERVICE_HTML_TEXT_H
#define INBOXFS_SERVICE_HTML_TEXT_H

#include "base/strbuf.h"

/* Appends it; 0 or the buffer's error. */
int html_text_append(struct strbuf *out, const char *html);

#endif
