/* SPDX-License-Identifier: MIT */
/*
 * hash_bytes() multiplies, one word at a time. Each step is a bijection of the state, so that the change of
 * one word always changes the result. Since each step waits for the product of the step before it, long texts
 * are mixed into four independent states.
 */
#include "base/hash.h"

#include <glib.h>
#include <stdio.h>
#include <string.h>

enum {
    WORD_BYTES = sizeof(uint64_t),
    LANES = 4,
    STRIDE_BYTES = LANES * WORD_BYTES,
};

static uint64_t mix(uint64_t state, uint64_t word)
{
    state = (state ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return state ^ (state >> 29);
}

static uint64_t word_at(const unsigned char *bytes, size_t len)
{
    uint64_t word = 0;
    memcpy(&word, bytes, len);
    return word;
}

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;
    uint64_t state = mix(seed, len);
    if (len >= STRIDE_BYTES) {
        uint64_t lanes[LANES] = {state, state + 1, state + 2, state + 3};
        for (; len >= STRIDE_BYTES; len -= STRIDE_BYTES, from += STRIDE_BYTES)
            for (size_t lane = 0; lane < LANES; lane++)
                lanes[lane] = mix(lanes[lane], word_at(from + lane * WORD_BYTES, WORD_BYTES));
        state = mix(mix(mix(lanes[0], lanes[1]), lanes[2]), lanes[3]);
    }
    for (; len >= WORD_BYTES; len -= WORD_BYTES, from += WORD_BYTES)
        state = mix(state, word_at(from, WORD_BYTES));
    if (len > 0)
        state = mix(state, word_at(from, len));
    return mix(state, 0);
}

unsigned int hash_string(const void *text)
{
    static gsize seed;
    if (g_once_init_enter(&seed))
        g_once_init_leave(&seed, (gsize)g_random_int() | 1);
    return (unsigned int)hash_bytes(seed, text, strlen(text));
}

void hash_sha256(const void *bytes, size_t len, char ret_digest[65])
{
    g_autofree char *digest = g_compute_checksum_for_data(G_CHECKSUM_SHA256, bytes, len);
    snprintf(ret_digest, 65, "%s", digest);
}

void hash_hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t len, char ret_digest[65])
{
    g_autofree char *digest = g_compute_hmac_for_data(G_CHECKSUM_SHA256, key, key_len, bytes, len);
    snprintf(ret_digest, 65, "%s", digest);
}
