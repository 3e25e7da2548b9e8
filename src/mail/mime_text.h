/* SPDX-License-Identifier: MIT */
/*
 * The content of a message: decodes the leaves of mime_read(), and joins the texts among them to the two
 * texts of the interface: one plain text and one HTML.
 *
 * The transfer encodings are those of RFC 2045, section 6. Misspelt names that are common in mail are
 * accepted, such as "8bits" and "quoted-printable;".
 *
 * Each text is a piece. The two texts of a multipart/alternative are one piece that has both forms.
 */
#ifndef INBOXFS_MAIL_MIME_TEXT_H
#define INBOXFS_MAIL_MIME_TEXT_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

#include "mail/mime.h"

struct mime_piece {
    const void *alternative; /* body of the outermost multipart/alternative around the text; NULL if none */
    GString *plain;          /* NULL if the piece has no plain form */
    GString *html;           /* NULL if the piece has no HTML */
};

/* All zeros is an empty list. */
struct mime_texts {
    struct mime_piece *pieces;
    size_t len;
};

/* Returns the encoding of a header section, in small letters, such as "base64"; NULL if the content needs no
 * decoding, or the encoding is unknown. */
const char *mime_encoding_name(struct span header);

/* Decodes the content of a leaf by its transfer encoding. *ret_bytes is NUL-terminated; the caller frees. If
 * `ret_reason` is NULL, damage is skipped, and an unknown encoding counts as none. Otherwise returns -EBADMSG
 * for damage or an unknown encoding, with *ret_reason for the user (the caller frees). */
int mime_decode(const struct mime_entity *leaf, char **ret_bytes, size_t *ret_len, char **ret_reason);

/* Appends flowed text (RFC 3676) with each paragraph on one line. A line with a blank at its end continues in
 * the next line; with DelSp, this blank is removed. The blank that RFC 3676 adds before "From " and ">" is
 * also removed. Lines of different quote depth, blank lines and the separator of a signature ("-- ") are not
 * joined; quote marks and line ends are kept. Accepts any bytes. */
void flowed_append(GString *out, const char *text, size_t len, bool is_delsp);

/* Decodes the text of a leaf to UTF-8 with LF line ends, without NULs, joins the paragraphs of flowed text
 * (flowed_append()), and appends the text to its piece. `ret_reason` and the return value are as above; bytes
 * that do not fit the charset of the leaf, and NULs, are damage, too. */
int mime_texts_add(struct mime_texts *texts, const struct mime_entity *leaf, enum mime_role role,
                   char **ret_reason);

/* Joins the pieces in their order. Each text is cut after `max_bytes`, and is NULL if no piece has it. The
 * caller frees both. *ret_is_alternative is true if both texts have the same content.
 *
 * If all plain pieces are before the HTML, each kind is joined by itself. In any other mixture both texts get
 * all pieces: the HTML shows a plain piece unchanged, and html_to_text() converts an HTML piece for the plain
 * text. */
void mime_texts_join(struct mime_texts *texts, size_t max_bytes, char **ret_plain, char **ret_html,
                     bool *ret_is_alternative);

void mime_texts_release(struct mime_texts *texts);

#endif
