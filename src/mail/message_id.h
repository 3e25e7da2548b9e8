/* SPDX-License-Identifier: MIT */
/*
 * Message-IDs (RFC 5322, section 3.6.4) as headers name them: between `<` and `>`. Programs write more than
 * that into In-Reply-To and References: phrases, commas, comments, ids folded in the middle, ids in encoded
 * words (RFC 2047). What is in brackets counts, and nothing else; the blanks of a folding within are no part
 * of it. In a text without brackets, words with an `@` are ids, if there are no other words.
 *
 * All who compare Message-IDs read them here, so that one is the same in whatever way it was written.
 * Everything takes time in proportion to the text.
 */
#ifndef INBOXFS_MAIL_MESSAGE_ID_H
#define INBOXFS_MAIL_MESSAGE_ID_H

#include <stddef.h>

enum {
    MESSAGE_ID_MAX_BYTES =
        995 /* with its brackets and the blank of a folding, a line's 998 (section 2.1.1) */
};

/* The ids in the value of a header, in their order, without brackets; behind the last one stands NULL. Left
 * out are empty ones, those longer than MESSAGE_ID_MAX_BYTES, and those with control characters. The end of a
 * very long value counts, where the newest ids are. NULL: no memory. The caller frees by g_strfreev(). */
char **message_id_list(const char *value, size_t len);

/* The first of these; NULL: there is none, or no memory. The caller frees. */
char *message_id_first(const char *value, size_t len);

/* Returns the id of a message, by its first header `Message-ID`. `bytes` may end anywhere behind it. NULL:
 * there is none, or no memory. The caller frees. */
char *message_id_of(const char *bytes, size_t len);

#endif
