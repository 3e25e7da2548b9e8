/* SPDX-License-Identifier: MIT */
#include "base/random.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void random_hex(char *ret_text, size_t bytes_len)
{
    static const char digits[] = "0123456789abcdef";
    arc4random_buf(ret_text, 2 * bytes_len);
    for (size_t i = 0; i < 2 * bytes_len; i++)
        ret_text[i] = digits[ret_text[i] & 15];
    ret_text[2 * bytes_len] = '\0';
}

void random_uuid(char ret_text[37])
{
    uint32_t words[4];
    arc4random_buf(words, sizeof(words));
    snprintf(ret_text, 37, "%08x-%04x-4%03x-%04x-%04x%08x", words[0], words[1] >> 16, words[1] & 0xfff,
             0x8000 | (words[2] >> 16 & 0x3fff), words[2] & 0xffff, words[3]);
}
