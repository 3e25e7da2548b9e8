/* SPDX-License-Identifier: MIT */
/*
 * Random ids and keys, made of arc4random_buf(3), which cannot fail and which nobody can predict.
 */
#ifndef INBOXFS_BASE_RANDOM_H
#define INBOXFS_BASE_RANDOM_H

#include <stddef.h>

/* Writes 2 * `bytes_len` lower-case hex digits and a NUL. */
void random_hex(char *ret_text, size_t bytes_len);

/* Writes a version 4 UUID (RFC 9562 section 5.4): 36 characters and a NUL. */
void random_uuid(char ret_text[37]);

#endif
