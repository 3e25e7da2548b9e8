/* SPDX-License-Identifier: MIT */
/*
 * Text in headers: what a person reads of a header's value, as UTF-8.
 *
 * An encoded word (RFC 2047) is "=?charset?encoding?text?=". Words beside each other, with nothing but white
 * space between them, are one text, and where they have one charset, a character may begin in one of them and
 * end in the next. They are decoded wherever they stand, as other programs do: in the middle of an atom and
 * within quotes too. All else is UTF-8, or windows-1252 where it is not valid UTF-8.
 *
 * Anything is text: what cannot be decoded becomes U+FFFD or stays as it is written. A decoded text may hold
 * control characters, but no NUL. The only errors are -ENOMEM, and -ENOENT where one is named.
 */
#ifndef INBOXFS_MAIL_HEADER_TEXT_H
#define INBOXFS_MAIL_HEADER_TEXT_H

#include <stddef.h>

/* The value of a header that is text (RFC 5322, "unstructured"; a comment without its parentheses too). It
 * may be folded; white space around it is taken off, and each tab is a space. The caller frees. */
int header_text_decode(const char *value, size_t len, char **ret_text);

/* The parameter of that name in a structured value, as "filename" in that of Content-Disposition. It may be
 * written in pieces or with a charset (RFC 2231), as encoded words, or in bytes that nobody declared. A
 * backslash in quotes is taken off only before a quote or another backslash, since many names in mail
 * are paths of Windows. White space within quotes stays. -ENOENT: there is none. The caller frees. */
int header_text_decode_parameter(const char *value, size_t len, const char *name, char **ret_text);

/* A phrase, as of the name before an address: atoms, encoded words and strings in quotes, which are taken
 * off. The caller passes over comments before. The caller frees. */
int header_text_decode_phrase(const char *value, size_t len, char **ret_text);

/* Return what follows the quoted string, or the comment with those within it, that begins here; NULL: it has
 * no end. */
const char *header_text_skip_quoted(const char *text);
const char *header_text_skip_comment(const char *text);

#endif
