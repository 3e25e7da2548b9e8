/* SPDX-License-Identifier: MIT */
/*
 * Random bytes from the kernel, for ids, keys, jitter and hash seeds.
 */
#ifndef INBOXFS_BASE_RANDOM_H
#define INBOXFS_BASE_RANDOM_H

#include <stddef.h>

/* Fills a buffer of at most 256 bytes. Return: 0 or -errno. */
int random_bytes(void *ret_bytes, size_t len);

/* Writes 2 * `bytes_len` lower-case hex digits and a NUL. Return: 0; -EINVAL when `bytes_len` is above 64; or
 * -errno. */
int random_hex(char *ret_text, size_t bytes_len);

/* Writes a version 4 UUID (RFC 9562 section 5.4): 36 characters and a NUL. Return: 0 or -errno. */
int random_uuid(char ret_text[37]);

#endif
