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

/* Appends flowed text (RFC 3676) with each paragraph on one line: its program left a blank at the end of the
 * lines that continue, which is no part of the text with DelSp. A blank before a line hides what the line
 * begins with ("From ", ">") and is no part of the text either. Lines of different quote depth, blank lines
 * and the separator of a signature ("-- ") stay lines of their own; quote marks and line ends stay as they
 * are written. Takes UTF-8 and any other bytes. 0 or the buffer's error. */
int flowed_append(struct strbuf *out, const char *text, size_t len, bool is_delsp);

/* The text of a leaf in UTF-8 with LF line ends, without NULs, the paragraphs of flowed text joined
 * (flowed_append()); the caller frees. With CHARSET_REPLACE the only error is -ENOMEM. With CHARSET_REFUSE
 * also -ENOTSUP (the transfer encoding is unknown), -EBADMSG (its content is damaged, or the text holds a
 * NUL: *ret_words, static, say so), -EILSEQ (bytes that do not fit the charset that the leaf names). */
int mime_decode_text(const struct mime_entity *leaf, enum charset_damage damage, char **ret_text,
                     const char **ret_words);

/* Appends a text of this role. 0 or -ENOMEM. */
int mime_texts_add(struct mime_texts *texts, const struct mime_entity *leaf, enum mime_role role,
                   const char *text);

/* Joins the pieces in their order. Each text is cut after `max_bytes`, and is NULL if there is none. The
 * caller frees both. *ret_is_alternative: both say the same.
 *
 * A message with all its plain pieces before its HTML has each kind joined by itself. In any other mixture
 * both texts get all pieces: the HTML shows a plain piece as it is, the plain text has of HTML what
 * html_to_text() reads. Return: 0 or -ENOMEM. */
int mime_texts_join(struct mime_texts *texts, size_t max_bytes, char **ret_plain, char **ret_html,
                    bool *ret_is_alternative);

void mime_texts_release(struct mime_texts *texts);

#endif
