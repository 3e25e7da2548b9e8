/* SPDX-License-Identifier: MIT */
/*
 * Message-IDs (RFC 5322, section 3.6.4) as headers name them: between `<` and `>`. Programs write more than
 * that into In-Reply-To and References: phrases, commas, comments, ids folded in the middle. So what is in
 * brackets counts, and nothing else; the blanks of a folding within are no part of it.
 *
 * Everything takes time in proportion to the text.
 */
#ifndef INBOXFS_MAIL_MESSAGE_ID_H
#define INBOXFS_MAIL_MESSAGE_ID_H

#include <stdbool.h>
#include <stddef.h>

enum {
    MESSAGE_ID_SIZE = 999 /* a line's 998 bytes (section 2.1.1), and a NUL */
};

/* The next one in the value of a header; *text moves on behind it. Without its brackets. False: there are no
 * more. Empty ones, and those that are longer than a line, are passed over; comments and quoted strings, too.
 */
bool message_id_next(const char **text, char ret_id[MESSAGE_ID_SIZE]);

/* That of a message, by its first header `Message-ID`. `bytes` may end anywhere behind it. */
bool message_id_of(const char *bytes, size_t len, char ret_id[MESSAGE_ID_SIZE]);

#endif
