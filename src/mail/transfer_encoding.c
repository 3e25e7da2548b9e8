/* SPDX-License-Identifier: MIT */
/*
 * GMime decodes any bytes, and does not report the bytes that it skips. So strict decoding checks the content
 * here first.
 */
#include "mail/transfer_encoding.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Returns true for whole groups of four base64 digits, with padding only at the end (RFC 2045, 6.8). */
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

/* The names of encodings in mail, with common misspellings. */
static const struct transfer_encoding {
    const char *name;
    GMimeContentEncoding encoding;
} transfer_encodings[] = {
    {"", GMIME_CONTENT_ENCODING_DEFAULT},      {"7bit", GMIME_CONTENT_ENCODING_DEFAULT},
    {"7bits", GMIME_CONTENT_ENCODING_DEFAULT}, {"7-bit", GMIME_CONTENT_ENCODING_DEFAULT},
    {"8bit", GMIME_CONTENT_ENCODING_DEFAULT},  {"8bits", GMIME_CONTENT_ENCODING_DEFAULT},
    {"8-bit", GMIME_CONTENT_ENCODING_DEFAULT}, {"binary", GMIME_CONTENT_ENCODING_DEFAULT},
    {"base64", GMIME_CONTENT_ENCODING_BASE64}, {"quoted-printable", GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE},
};

static const struct transfer_encoding *find_encoding(struct span header)
{
    struct span name = mime_first_token(mime_find_field(header, "Content-Transfer-Encoding"));
    for (size_t i = 0; i < ARRAY_LEN(transfer_encodings); i++)
        if (span_is(name, transfer_encodings[i].name))
            return &transfer_encodings[i];
    return NULL;
}

const char *transfer_encoding_name(struct span header)
{
    const struct transfer_encoding *encoding = find_encoding(header);
    return encoding == NULL || encoding->encoding == GMIME_CONTENT_ENCODING_DEFAULT ? NULL : encoding->name;
}

int transfer_encoding_decode(struct span header, struct span content, bool is_strict, char **ret_bytes,
                             size_t *ret_len, const char **ret_words)
{
    const struct transfer_encoding *found = find_encoding(header);
    GMimeContentEncoding encoding = found != NULL ? found->encoding : GMIME_CONTENT_ENCODING_DEFAULT;
    if (is_strict && found == NULL)
        return -ENOTSUP;
    if (is_strict && encoding == GMIME_CONTENT_ENCODING_BASE64 &&
        !is_whole_base64(content.bytes, content.len)) {
        *ret_words = "the base64 is cut off or damaged";
        return -EBADMSG;
    }
    /* GMime drops an escape that is cut off at the end of the content. */
    bool ends_in_escape = content.len >= 2 && content.bytes[content.len - 2] == '=' &&
                          !g_ascii_isspace(content.bytes[content.len - 1]);
    if (is_strict && encoding == GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE && ends_in_escape) {
        *ret_words = "the quoted-printable text is cut off";
        return -EBADMSG;
    }
    GMimeEncoding state;
    g_mime_encoding_init_decode(&state, encoding);
    char *decoded = malloc(g_mime_encoding_outlen(&state, content.len) + 1);
    if (decoded == NULL)
        return -ENOMEM;
    *ret_len = content.len > 0 ? g_mime_encoding_flush(&state, content.bytes, content.len, decoded) : 0;
    decoded[*ret_len] = '\0';
    *ret_bytes = decoded;
    return 0;
}
