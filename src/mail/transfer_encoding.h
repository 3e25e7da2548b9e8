/* SPDX-License-Identifier: MIT */
/*
 * Transfer encodings of MIME parts (RFC 2045 section 6). Misspelt names that are common in mail are accepted,
 * such as "8bits" and "quoted-printable;".
 */
#ifndef INBOXFS_MAIL_TRANSFER_ENCODING_H
#define INBOXFS_MAIL_TRANSFER_ENCODING_H

#include <stdbool.h>
#include <stddef.h>

#include "mail/mime.h"

/* Returns the encoding of a header section, in small letters, such as "base64"; NULL if the content needs no
 * decoding, or the encoding is unknown. */
const char *transfer_encoding_name(struct span header);

/* Decodes content by the header section of its part. *ret_bytes is NUL-terminated; the caller frees. Return:
 * 0 or -ENOMEM; with `is_strict` also -ENOTSUP (an unknown encoding) and -EBADMSG (damaged
 * content; *ret_words, static, name the damage). Without `is_strict`, damage is skipped, and an unknown
 * encoding counts as none. */
int transfer_encoding_decode(struct span header, struct span content, bool is_strict, char **ret_bytes,
                             size_t *ret_len, const char **ret_words);

#endif
