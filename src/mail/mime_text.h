/* SPDX-License-Identifier: MIT */
/*
 * The texts of a message: the leaves that mime_read() calls plain and HTML, decoded, and put together to what
 * the interface has for them: one plain text and one HTML.
 *
 * Each text is a piece. The two texts of a multipart/alternative are one piece that has both forms.
 */
#ifndef INBOXFS_MAIL_MIME_TEXT_H
#define INBOXFS_MAIL_MIME_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "mail/charset.h"
#include "mail/mime.h"
#include "mail/transfer_encoding.h"

struct mime_piece {
    const void *alternative; /* mime_alternative_of() */
    struct strbuf plain;     /* without data: none */
    struct strbuf html;
};

/* All zeros: none. */
struct mime_texts {
    struct mime_piece *pieces;
    size_t len;
};

/* The text of a leaf in UTF-8 with LF line ends, without NULs, the paragraphs of flowed text joined
 * (flowed.h); the caller frees. With CHARSET_REPLACE the only error is -ENOMEM. With CHARSET_REFUSE also
 * -ENOTSUP (the transfer encoding is unknown), -EBADMSG (its content is damaged, or the text holds a NUL:
 * *ret_words, static, say so), -EILSEQ (bytes that do not fit the charset that the leaf names). */
int mime_decode_text(const struct mime_entity *leaf, enum charset_damage damage, char **ret_text,
                     const char **ret_words);

/* Appends a text of this role. 0 or -ENOMEM. */
int mime_texts_add(struct mime_texts *texts, const struct mime_entity *leaf, enum mime_role role,
                   const char *text);

/* Joins the pieces in their order, of each text the first `max_bytes` (whole characters). The caller frees
 * both; NULL: there is no such text. *ret_is_alternative: both say the same. Where a message has all its
 * plain pieces before its HTML, each is joined by itself. Where these are mixed in any other way, both texts
 * get all pieces: plain ones are shown in the HTML as they are, and HTML in the plain text as html_to_text()
 * reads it. 0 or -ENOMEM. */
int mime_texts_join(struct mime_texts *texts, size_t max_bytes, char **ret_plain, char **ret_html,
                    bool *ret_is_alternative);

void mime_texts_release(struct mime_texts *texts);

#endif
