/* SPDX-License-Identifier: MIT */
/*
 * GMime decodes anything to something, and does not tell what it passed over. So the content is held against
 * its encoding here first; uuencode, where that cannot be told before, is decoded here, too.
 */
#include "mail/transfer_encoding.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/* Base64 with line breaks, in whole groups of four, padding at the end only (RFC 2045 section 6.8). */
static bool is_whole_base64(const char *text, size_t len)
{
    size_t digits = 0;
    size_t padding = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (g_ascii_isspace(c))
            continue;
        if (c == '=')
            padding++;
        else if (padding > 0 || !(g_ascii_isalnum(c) || c == '+' || c == '/'))
            return false;
        else
            digits++;
    }
    return padding <= 2 && (digits + padding) % 4 == 0;
}

/* GMime drops an escape that ends too early. */
static bool is_whole_quoted_printable(const char *text, size_t len)
{
    return len < 2 || text[len - 2] != '=' || g_ascii_isspace(text[len - 1]);
}

static int decode_by_gmime(GMimeContentEncoding encoding, const char *bytes, size_t len, char **ret_bytes,
                           size_t *ret_len)
{
    GMimeEncoding state;
    g_mime_encoding_init_decode(&state, encoding);
    char *decoded = malloc(g_mime_encoding_outlen(&state, len) + 1);
    if (decoded == NULL)
        return -ENOMEM;
    *ret_len = g_mime_encoding_flush(&state, bytes, len, decoded);
    decoded[*ret_len] = '\0';
    *ret_bytes = decoded;
    return 0;
}

static int copy_bytes(const char *bytes, size_t len, char **ret_bytes, size_t *ret_len)
{
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, bytes, len);
    copy[len] = '\0';
    *ret_bytes = copy;
    *ret_len = len;
    return 0;
}

/* ---- uuencode (POSIX, uuencode(1)) */

/* The line without its end; *at goes to the next one. */
static size_t take_line(const char **at, const char *end, const char **ret_line)
{
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    size_t len = (size_t)((newline == NULL ? end : newline + 1) - *at);
    *ret_line = *at;
    *at += len;
    while (len > 0 && ((*ret_line)[len - 1] == '\n' || (*ret_line)[len - 1] == '\r'))
        len--;
    return len;
}

static unsigned int uu_digit(char c)
{
    return ((unsigned char)c - 32U) & 63U;
}

/* A line's first character says how many bytes it holds; behind them may be a checksum of one character. */
static bool uu_decode_line(const char *line, size_t len, char *decoded, size_t *ret_len)
{
    size_t count = len > 0 ? uu_digit(line[0]) : 0;
    size_t digits = (count + 2) / 3 * 4;
    if (len > 0 && (len < 1 + digits || len > 2 + digits))
        return false;
    for (size_t i = 0; i < len; i++)
        if (line[i] < ' ' || line[i] > '`')
            return false;
    for (size_t i = 0; i < count; i += 3) {
        const char *c = line + 1 + i / 3 * 4;
        unsigned int group =
            uu_digit(c[0]) << 18 | uu_digit(c[1]) << 12 | uu_digit(c[2]) << 6 | uu_digit(c[3]);
        for (size_t k = 0; k < 3 && i + k < count; k++)
            decoded[(*ret_len)++] = (char)(group >> (16 - 8 * k) & 0xff);
    }
    return true;
}

/* Everything from "begin" to "end"; besides, only blank lines. `decoded` has room for as many bytes. */
static bool uu_decode(const char *bytes, size_t len, char *decoded, size_t *ret_len)
{
    enum {
        BEFORE,
        WITHIN,
        BEHIND
    } at = BEFORE;
    const char *end = bytes + len;
    const char *line;
    while (bytes < end) {
        size_t line_bytes = take_line(&bytes, end, &line);
        if (at == BEFORE && line_bytes > 6 && memcmp(line, "begin ", 6) == 0)
            at = WITHIN;
        else if (at == WITHIN && line_bytes == 3 && memcmp(line, "end", 3) == 0)
            at = BEHIND;
        else if (at == WITHIN ? !uu_decode_line(line, line_bytes, decoded, ret_len) : line_bytes > 0)
            return false;
    }
    return at == BEHIND;
}

static int decode_uuencode(const char *bytes, size_t len, char **ret_bytes, size_t *ret_len)
{
    _cleanup_free_ char *decoded = malloc(len + 1);
    if (decoded == NULL)
        return -ENOMEM;
    *ret_len = 0;
    if (!uu_decode(bytes, len, decoded, ret_len))
        return -EBADMSG;
    decoded[*ret_len] = '\0';
    *ret_bytes = TAKE_PTR(decoded);
    return 0;
}

/* ---- the encodings by name */

/* As the value stands in mail: "8bits" and "quoted-printable;" too. */
static const struct transfer_encoding {
    const char *name;
    GMimeContentEncoding encoding;
} transfer_encodings[] = {
    {"", GMIME_CONTENT_ENCODING_DEFAULT},
    {"7bit", GMIME_CONTENT_ENCODING_DEFAULT},
    {"7bits", GMIME_CONTENT_ENCODING_DEFAULT},
    {"7-bit", GMIME_CONTENT_ENCODING_DEFAULT},
    {"8bit", GMIME_CONTENT_ENCODING_DEFAULT},
    {"8bits", GMIME_CONTENT_ENCODING_DEFAULT},
    {"8-bit", GMIME_CONTENT_ENCODING_DEFAULT},
    {"binary", GMIME_CONTENT_ENCODING_DEFAULT},
    {"base64", GMIME_CONTENT_ENCODING_BASE64},
    {"quoted-printable", GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE},
    {"uuencode", GMIME_CONTENT_ENCODING_UUENCODE},
    {"x-uuencode", GMIME_CONTENT_ENCODING_UUENCODE},
    {"uue", GMIME_CONTENT_ENCODING_UUENCODE},
    {"x-uue", GMIME_CONTENT_ENCODING_UUENCODE},
};

static const struct transfer_encoding *find_encoding(const char *value)
{
    static const char before[] = " \t\r\n\"";
    static const char behind[] = " \t\r\n\";,(";
    const char *name = value == NULL ? "" : value + strspn(value, before);
    size_t len = strcspn(name, behind);
    for (size_t i = 0; i < ARRAY_LEN(transfer_encodings); i++)
        if (strlen(transfer_encodings[i].name) == len &&
            strncasecmp(transfer_encodings[i].name, name, len) == 0)
            return &transfer_encodings[i];
    return NULL;
}

int transfer_encoding_decode(const char *value, const char *bytes, size_t len, char **ret_bytes,
                             size_t *ret_len, const char **ret_words)
{
    const struct transfer_encoding *encoding = find_encoding(value);
    if (encoding == NULL)
        return -ENOTSUP;
    switch (encoding->encoding) {
    case GMIME_CONTENT_ENCODING_BASE64:
        *ret_words = "the base64 is cut off or damaged";
        return is_whole_base64(bytes, len)
                   ? decode_by_gmime(encoding->encoding, bytes, len, ret_bytes, ret_len)
                   : -EBADMSG;
    case GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE:
        *ret_words = "the quoted-printable text is cut off";
        return is_whole_quoted_printable(bytes, len)
                   ? decode_by_gmime(encoding->encoding, bytes, len, ret_bytes, ret_len)
                   : -EBADMSG;
    case GMIME_CONTENT_ENCODING_UUENCODE:
        *ret_words = "the uuencoded content is cut off or damaged";
        return decode_uuencode(bytes, len, ret_bytes, ret_len);
    default:
        return copy_bytes(bytes, len, ret_bytes, ret_len);
    }
}
