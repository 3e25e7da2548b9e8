/* SPDX-License-Identifier: MIT */
/*
 * Three hashes of bytes: a fast hash, for tables and for finding damage; a digest that cannot be forged, for
 * finding edits and for records without an id; and a digest with a key, which proves who wrote the bytes.
 */
#ifndef INBOXFS_BASE_HASH_H
#define INBOXFS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Returns a fast hash, which an attacker can forge. Every change within one aligned word of eight bytes
 * changes the hash. The hash depends on the byte order of the machine. */
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t len);

/* A GHashFunc for keys that come from strangers. Its seed is random in each process, so that a stranger
 * cannot choose keys that collide. */
unsigned int hash_string(const void *text);

/* Writes the SHA-256 digest as 64 hex digits and a NUL. */
void hash_sha256(const void *bytes, size_t len, char ret_digest[65]);

/* Writes the HMAC-SHA-256 (RFC 2104) as 64 hex digits and a NUL. The caller compares it in constant time. */
void hash_hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t len, char ret_digest[65]);

#endif
