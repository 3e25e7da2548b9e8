/* SPDX-License-Identifier: MIT */
/*
 * Reads Message-IDs (RFC 5322, section 3.6.4), which headers write between `<` and `>`. In-Reply-To and
 * References may also hold phrases, commas, comments, ids folded in the middle, and ids in encoded words (RFC
 * 2047). Only texts in brackets are ids; blanks that folding has left within an id are removed. In a value
 * without brackets, words are ids if each of them has an `@`.
 *
 * All code that compares Message-IDs reads them here, so that the form in which an id was written does not
 * matter. Reading takes time in proportion to the text.
 */
#ifndef INBOXFS_MAIL_MESSAGE_ID_H
#define INBOXFS_MAIL_MESSAGE_ID_H

#include <stddef.h>

enum {
    MESSAGE_ID_MAX_BYTES = 995 /* 998 bytes of a line (section 2.1.1) less two brackets and a leading blank */
};

/* Returns the ids in the value of a header, in their order, without brackets, with NULL at the end. Empty
 * ids, ids longer than MESSAGE_ID_MAX_BYTES and ids with control characters are left out. Only the last 64
 * KiB of a value are read, since the newest ids are at its end. The caller frees by g_strfreev(). */
char **message_id_list(const char *value, size_t len);

/* Returns the first id of message_id_list() (the caller frees); NULL if there is none. */
char *message_id_first(const char *value, size_t len);

/* Returns the id in the first header `Message-ID` of a message; the beginning of the message is enough. NULL
 * if there is no id. The caller frees. */
char *message_id_of(const char *bytes, size_t len);

#endif
