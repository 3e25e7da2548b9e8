/* SPDX-License-Identifier: MIT */
/*
 * Finds the new text of a mail: its text without quoted history ("> ", "On … wrote:", "-----Original
 * Message-----", blocks of headers), signature ("-- "), the line that a telephone adds ("Sent from my …") and
 * the footer of a mailing list, in some twenty languages. Answers between the lines of a quote are kept as
 * separate paragraphs. A forwarded mail is kept with all the text after it.
 *
 * A first mail has no history: its quotes ("> npm install") and headers are its own text. The caller finds
 * out the kind by the headers of the mail; a text that is clearly an answer is read as an answer.
 */
#ifndef INBOXFS_MAIL_NEW_TEXT_H
#define INBOXFS_MAIL_NEW_TEXT_H

#include <stddef.h>

#include "base/strbuf.h"

enum new_text_kind {
    NEW_TEXT_OF_FIRST, /* by its headers neither an answer nor a forward */
    NEW_TEXT_OF_ANSWER,
    NEW_TEXT_OF_FORWARD, /* the history is kept as a whole */
};

/* Appends the new text, or the whole text if all of it is history, as in a forward without a comment. Accepts
 * any bytes, and does not change lines. Return: 0 or the buffer's error. */
int new_text_append(struct strbuf *out, enum new_text_kind kind, const char *text, size_t len);

#endif
