/* SPDX-License-Identifier: MIT */
/*
 * A multiplicative hash, a word at a time. Each step is a bijection of the state, which is why a change of
 * one word is never lost.
 */
#include "base/hash.h"

#include <string.h>

static uint64_t mix(uint64_t state, uint64_t word)
{
    state = (state ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return state ^ (state >> 29);
}

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;
    uint64_t state = mix(seed, len);
    uint64_t word;
    for (; len >= sizeof(word); len -= sizeof(word), from += sizeof(word)) {
        memcpy(&word, from, sizeof(word));
        state = mix(state, word);
    }
    if (len > 0) {
        word = 0;
        memcpy(&word, from, len);
        state = mix(state, word);
    }
    return mix(state, 0);
}
