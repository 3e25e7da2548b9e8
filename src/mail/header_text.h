/* SPDX-License-Identifier: MIT */
/*
 * Text in headers: decodes the value of a header to readable UTF-8.
 *
 * An encoded word (RFC 2047) is "=?charset?encoding?text?=". Words with only white space between them are one
 * text; a character may begin in one word and end in the next word of the same charset. Words are decoded in
 * any position, also in the middle of an atom and within quotes, as other programs do. All other bytes are
 * read as UTF-8, or as windows-1252 if they are not valid UTF-8.
 *
 * Every value can be decoded: damaged bytes become U+FFFD or are kept unchanged. The text may hold control
 * characters, but no NUL. The caller frees the text.
 */
#ifndef INBOXFS_MAIL_HEADER_TEXT_H
#define INBOXFS_MAIL_HEADER_TEXT_H

#include <stddef.h>

/* Decodes an unstructured value (RFC 5322), or a comment without its parentheses. The value may be folded.
 * White space around the text is removed, and tabs become spaces. */
char *header_text_decode(const char *value, size_t len);

/* Decodes one parameter of a structured value, such as "filename" of Content-Disposition. The parameter may
 * be written in pieces or with a charset (RFC 2231), as encoded words, or in undeclared bytes. A backslash in
 * quotes is an escape only before a quote or another backslash, since many names in mail are Windows paths.
 * White space within quotes is kept. Returns NULL if the value has no such parameter. */
char *header_text_decode_parameter(const char *value, size_t len, const char *name);

/* Decodes a phrase, such as the name before an address: atoms, encoded words and quoted strings, whose quotes
 * are removed. The phrase must hold no comments. */
char *header_text_decode_phrase(const char *value, size_t len);

/* Return the position after the quoted string, or after the comment with its nested comments, that begins at
 * `text`; NULL if the string or comment has no end. */
const char *header_text_skip_quoted(const char *text);
const char *header_text_skip_comment(const char *text);

#endif
