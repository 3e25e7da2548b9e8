/* SPDX-License-Identifier: MIT */
/*
 * Transfer encodings: how the content of a MIME part is written in its message (RFC 2045 section 6; uuencode,
 * which is older). They are named as mail has them, "8bits" and "quoted-printable;" too. Content is decoded
 * strictly: all of it, or not at all.
 */
#ifndef INBOXFS_MAIL_TRANSFER_ENCODING_H
#define INBOXFS_MAIL_TRANSFER_ENCODING_H

#include <stddef.h>

/* `value`: of the header Content-Transfer-Encoding; NULL: there is none. *ret_bytes is NUL-terminated; the
 * caller frees. 0, -ENOTSUP (nobody knows this encoding), -EBADMSG (*ret_words, static, say what is wrong),
 * -ENOMEM. */
int transfer_encoding_decode(const char *value, const char *bytes, size_t len, char **ret_bytes,
                             size_t *ret_len, const char **ret_words);

#endif
