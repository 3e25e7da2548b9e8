/* SPDX-License-Identifier: MIT */
/*
 * The part that a mail adds to its thread: its text without the history that it quotes ("> ", "On … wrote:",
 * "-----Original Message-----", blocks of headers), without the signature ("-- "), the line that a telephone
 * adds ("Sent from my …") and a mailing list's footer, in some twenty languages. Answers between the lines of
 * a quote stay, each apart from the next. So does a forward, with all that follows.
 *
 * A mail that answers nothing has no history: its quotes ("> npm install") and headers are its own words. The
 * caller says what is known; where the text itself shows that it answers, it counts as an answer.
 */
#ifndef INBOXFS_MAIL_NEW_TEXT_H
#define INBOXFS_MAIL_NEW_TEXT_H

#include <stddef.h>

#include "base/strbuf.h"

enum new_text_kind {
    NEW_TEXT_OF_FIRST, /* neither of the two, as far as its headers say */
    NEW_TEXT_OF_ANSWER,
    NEW_TEXT_OF_FORWARD, /* from where history begins all of it is kept */
};

/* Appends it. A text of which nothing would be left, such as that of a forward without a word, is appended
 * whole. Any bytes are taken; lines stay as they are. 0 or the buffer's error. */
int new_text(struct strbuf *out, enum new_text_kind kind, const char *text, size_t len);

#endif
