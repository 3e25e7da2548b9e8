/* SPDX-License-Identifier: MIT */
/*
 * Decoding of MIME parts. GMime decodes anything to something; what it would pass over is looked for here.
 */
#include "mail/mime_part.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/file_name.h"
#include "mail/reason.h"

enum {
    TYPE_MAX_BYTES = 2 * 127 /* RFC 6838 section 4.2 */
};

/* What writing to a stream gave, taken out of it. */
static int take_stream(GMimeStream *stream, char **ret_bytes, size_t *ret_len)
{
    const GByteArray *array = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(stream));
    char *bytes = malloc((size_t)array->len + 1);
    if (bytes != NULL) {
        if (array->len > 0)
            memcpy(bytes, array->data, array->len);
        bytes[array->len] = '\0';
        *ret_bytes = bytes;
        *ret_len = array->len;
    }
    g_object_unref(stream);
    return bytes == NULL ? -ENOMEM : 0;
}

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

static int check_base64(GMimeDataWrapper *content, char **ret_reason)
{
    GMimeStream *encoded = g_mime_data_wrapper_get_stream(content);
    GMimeStream *copy = g_mime_stream_mem_new();
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;

    g_mime_stream_reset(encoded);
    g_mime_stream_write_to_stream(encoded, copy);
    g_mime_stream_reset(encoded);
    int error = take_stream(copy, &bytes, &len);
    if (error == 0 && !is_whole_base64(bytes, len))
        error = reason_give(ret_reason, -EBADMSG, "a part in base64 is cut off or damaged");
    return error;
}

/* Only what mail programs write: of uuencoded parts GMime does not tell whether they are whole. */
static int check_encoding(GMimeObject *part, char **ret_reason)
{
    const char *name = g_mime_object_get_header(part, "Content-Transfer-Encoding");
    if (name == NULL)
        return 0;
    switch (g_mime_content_encoding_from_string(name)) {
    case GMIME_CONTENT_ENCODING_7BIT:
    case GMIME_CONTENT_ENCODING_8BIT:
    case GMIME_CONTENT_ENCODING_BINARY:
    case GMIME_CONTENT_ENCODING_BASE64:
    case GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE:
        return 0;
    default:
        return reason_give(ret_reason, -EBADMSG, "Content-Transfer-Encoding: \"%.40s\" is not supported",
                           name);
    }
}

/* GMime writes some line ends of its own, so that all are made CRLF. */
static int read_message_part(GMimeObject *part, char **ret_bytes, size_t *ret_len, char **ret_reason)
{
    GMimeMessage *message = g_mime_message_part_get_message(GMIME_MESSAGE_PART(part));
    if (message == NULL)
        return reason_give(ret_reason, -EBADMSG, "an attached message is empty");
    GMimeStream *stream = g_mime_stream_mem_new();
    GMimeStream *filtered = g_mime_stream_filter_new(stream);
    GMimeFilter *to_crlf = g_mime_filter_unix2dos_new(false);
    g_mime_stream_filter_add(GMIME_STREAM_FILTER(filtered), to_crlf);
    g_mime_object_write_to_stream(GMIME_OBJECT(message), NULL, filtered);
    g_mime_stream_flush(filtered);
    g_object_unref(to_crlf);
    g_object_unref(filtered);
    return take_stream(stream, ret_bytes, ret_len);
}

int mime_part_read_bytes(GMimeObject *part, char **ret_bytes, size_t *ret_len, char **ret_reason)
{
    if (GMIME_IS_MESSAGE_PART(part))
        return read_message_part(part, ret_bytes, ret_len, ret_reason);

    int error = check_encoding(part, ret_reason);
    if (error != 0)
        return error;
    GMimeStream *stream = g_mime_stream_mem_new();
    GMimeDataWrapper *content = g_mime_part_get_content(GMIME_PART(part));
    if (content != NULL) {
        if (g_mime_data_wrapper_get_encoding(content) == GMIME_CONTENT_ENCODING_BASE64)
            error = check_base64(content, ret_reason);
        if (error == 0)
            g_mime_data_wrapper_write_to_stream(content, stream);
    }
    if (error != 0) {
        g_object_unref(stream);
        return error;
    }
    return take_stream(stream, ret_bytes, ret_len);
}

/* The bytes in UTF-8, NULL where they are not in that charset. */
static char *convert(const char *bytes, size_t len, const char *charset, size_t *ret_len)
{
    return g_convert(bytes, (gssize)len, "UTF-8", charset, NULL, ret_len, NULL);
}

static char *convert_undeclared(const char *bytes, size_t len, size_t *ret_len)
{
    char *text = convert(bytes, len, "WINDOWS-1252", ret_len);
    return text != NULL ? text : convert(bytes, len, "ISO-8859-1", ret_len);
}

/* Freed with g_free(); NULL: the text is in no way readable. */
static char *to_utf8(const char *bytes, size_t len, const char *charset, size_t *ret_len)
{
    bool is_undeclared = charset == NULL || g_ascii_strcasecmp(charset, "us-ascii") == 0;
    bool is_utf8 = charset != NULL && g_ascii_strcasecmp(charset, "utf-8") == 0;
    char *text = NULL;

    if (!is_undeclared && !is_utf8)
        text = convert(bytes, len, g_mime_charset_iconv_name(charset), ret_len);
    if (text == NULL && g_utf8_validate_len(bytes, len, NULL)) {
        text = g_strndup(bytes, len);
        *ret_len = len;
    }
    if (text == NULL && is_undeclared)
        text = convert_undeclared(bytes, len, ret_len);
    return text;
}

static char *copy_with_lf(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    if (copy == NULL)
        return NULL;
    char *to = copy;
    for (const char *c = text; *c != '\0'; c++)
        if (c[0] != '\r' || c[1] != '\n')
            *to++ = *c;
    *to = '\0';
    return copy;
}

int mime_part_read_text(GMimeObject *part, char **ret_text, char **ret_reason)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    int error = mime_part_read_bytes(part, &bytes, &len, ret_reason);
    if (error != 0)
        return error;

    const char *charset = g_mime_object_get_content_type_parameter(part, "charset");
    size_t text_len = 0;
    g_autofree char *text = to_utf8(bytes, len, charset, &text_len);
    if (text == NULL)
        return reason_give(ret_reason, -EBADMSG, "the text cannot be read as the charset it names, \"%.40s\"",
                           charset);
    if (strlen(text) != text_len)
        return reason_give(ret_reason, -EBADMSG, "the text holds a NUL character");
    *ret_text = copy_with_lf(text);
    return *ret_text == NULL ? -ENOMEM : 0;
}

char *mime_part_file_name(GMimeObject *part)
{
    const char *name = g_mime_object_get_content_disposition_parameter(part, "filename");
    if (name == NULL)
        name = g_mime_object_get_content_type_parameter(part, "name");
    if (name == NULL)
        return NULL;
    for (const char *c = name; *c != '\0'; c++)
        if (*c == '/' || *c == '\\')
            name = c + 1;
    return file_name_is_valid(name) ? strdup(name) : NULL;
}

static bool is_token(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (!g_ascii_isgraph(*c) || strchr("()<>@,;:\\\"/[]?=", *c) != NULL)
            return false;
    return text[0] != '\0';
}

char *mime_part_content_type(GMimeObject *part)
{
    GMimeContentType *type = g_mime_object_get_content_type(part);
    const char *media = type == NULL ? NULL : g_mime_content_type_get_media_type(type);
    const char *subtype = type == NULL ? NULL : g_mime_content_type_get_media_subtype(type);
    if (media == NULL || subtype == NULL || !is_token(media) || !is_token(subtype) ||
        strlen(media) + strlen(subtype) > TYPE_MAX_BYTES)
        return strdup("application/octet-stream");

    char *text = NULL;
    if (asprintf(&text, "%s/%s", media, subtype) < 0)
        return NULL;
    for (char *c = text; *c != '\0'; c++)
        *c = g_ascii_tolower(*c);
    return text;
}
