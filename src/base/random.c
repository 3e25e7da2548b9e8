/* SPDX-License-Identifier: MIT */
/*
 * getentropy(3) never blocks after the machine has started.
 */
#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int random_bytes(void *ret_bytes, size_t len)
{
    return getentropy(ret_bytes, len) == 0 ? 0 : -errno;
}

static void to_hex(const unsigned char *bytes, size_t len, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * len] = '\0';
}

int random_hex(char *ret_text, size_t bytes_len)
{
    unsigned char bytes[64];
    if (bytes_len > sizeof(bytes))
        return -EINVAL;
    int error = random_bytes(bytes, bytes_len);
    if (error == 0)
        to_hex(bytes, bytes_len, ret_text);
    return error;
}

int random_uuid(char ret_text[37])
{
    unsigned char bytes[16];
    int error = random_bytes(bytes, sizeof(bytes));
    if (error != 0)
        return error;
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    char hex[33];
    to_hex(bytes, sizeof(bytes), hex);
    snprintf(ret_text, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
    return 0;
}
