/* SPDX-License-Identifier: MIT */
/*
 * Hashes of bytes: a fast one for tables and for noticing damage, a digest that nobody can forge, which tells
 * whether content was edited and stands for ids that are missing, and a digest with a key, which tells who
 * wrote it.
 */
#ifndef INBOXFS_BASE_HASH_H
#define INBOXFS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* 64 bits. Not for anything that an attacker must not be able to forge. Any change within one aligned word of
 * eight bytes changes it for certain. Depends on the byte order of the machine. */
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t len);

/* A GHashFunc for keys that come from strangers: nobody can know which of them fall together, for its seed is
 * drawn at random once. */
unsigned int hash_string(const void *text);

/* SHA-256, as 64 hex digits and a NUL. */
void hash_sha256(const void *bytes, size_t len, char ret_digest[65]);

/* HMAC (RFC 2104) with SHA-256, as 64 hex digits and a NUL. Compare with what others sent in constant time.
 */
void hash_hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t len, char ret_digest[65]);

#endif
