/* SPDX-License-Identifier: MIT */
/*
 * A fast 64-bit hash of bytes, for tables and for noticing damage. Not for anything that an attacker must not
 * be able to forge. Any change within one aligned word of eight bytes changes it for certain.
 */
#ifndef INBOXFS_BASE_HASH_H
#define INBOXFS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Depends on the byte order of the machine. */
uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t len);

#endif
