/* SPDX-License-Identifier: MIT */
/*
 * The header section of a message file. Any file may be put into the outbox, and GMime makes a message of
 * anything, so the section is first held against the grammar of RFC 5322 line by line.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "mail/draft_reading.h"
#include "mail/file_name.h"
#include "mail/mime_library.h"
#include "mail/reason.h"

enum {
    HEADER_SECTION_MAX_BYTES = 1000 * 1000
};

/* The bytes of the header's name; 0: the line is no header. */
static size_t header_name_len(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (line[i] == ':')
            return i;
        if (line[i] <= ' ' || line[i] >= 0x7f)
            return 0;
    }
    return 0;
}

static bool is_known_header(const char *name, size_t len)
{
    static const char *const known[] = {"To", "Cc", "Bcc", "Subject", "From"};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strlen(known[i]) == len && strncasecmp(known[i], name, len) == 0)
            return true;
    return false;
}

static size_t line_len(const char *bytes, size_t len)
{
    const char *newline = memchr(bytes, '\n', len);
    return newline == NULL ? len : (size_t)(newline - bytes) + 1;
}

static bool is_blank_line(const char *line, size_t len)
{
    return (len == 1 && line[0] == '\n') || (len == 2 && line[0] == '\r' && line[1] == '\n');
}

int draft_check_header_section(struct draft_reading *reading, const char *bytes, size_t len)
{
    bool has_known = false;
    unsigned int number = 1;
    size_t at = 0;
    for (size_t step; at < len; at += step, number++) {
        const char *line = bytes + at;
        step = line_len(line, len - at);
        if (is_blank_line(line, step))
            break;
        if (at + step > HEADER_SECTION_MAX_BYTES)
            return reason_give(reading->ret_reason, -EMSGSIZE, "the headers are larger than %d bytes",
                               HEADER_SECTION_MAX_BYTES);
        if (at > 0 && (line[0] == ' ' || line[0] == '\t'))
            continue;
        size_t name_len = header_name_len(line, step);
        if (name_len == 0)
            return reason_give(reading->ret_reason, -EBADMSG,
                               "not a message: line %u is neither a header nor the blank line after them",
                               number);
        has_known = has_known || is_known_header(line, name_len);
    }
    if (!has_known)
        return reason_give(reading->ret_reason, -EBADMSG,
                           "not a message: no To, Cc, Bcc, Subject or From among its headers");
    return 0;
}

/* The decoded value of a header that is text. */
static int decode_text(struct draft_reading *reading, const char *name, const char *raw, char **ret_text)
{
    GMimeParserOptions *options = mime_parser_options_new();
    g_autofree char *unfolded = g_mime_utils_header_unfold(raw);
    g_autofree char *decoded = g_mime_utils_header_decode_text(options, unfolded);
    g_mime_parser_options_free(options);

    g_strdelimit(decoded, "\t", ' ');
    g_strstrip(decoded);
    if (!address_name_is_valid(decoded))
        return reason_give(reading->ret_reason, -EBADMSG, "%s: holds a control character", name);
    *ret_text = strdup(decoded);
    return *ret_text == NULL ? -ENOMEM : 0;
}

static int read_subject(struct draft_reading *reading, const char *raw)
{
    return decode_text(reading, "Subject", raw, &reading->subject);
}

static int read_attach(struct draft_reading *reading, const char *raw)
{
    _cleanup_free_ char *name = NULL;
    int error = decode_text(reading, "Attach", raw, &name);
    if (error != 0)
        return error;
    if (!file_name_is_valid(name))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "Attach: \"%.80s\" is not the name of a file in attachments/", name);
    return string_list_append(&reading->attachment_names, name);
}

static int read_addresses(struct draft_reading *reading, const char *name, const char *raw,
                          struct address_list *list)
{
    int error = address_list_parse(list, raw);
    if (error != -EBADMSG)
        return error;
    g_autofree char *unfolded = g_mime_utils_header_unfold(raw);
    return reason_give(reading->ret_reason, -EBADMSG, "%s: not a list of email addresses: \"%.80s\"", name,
                       g_strstrip(unfolded));
}

static int read_from(struct draft_reading *reading, const char *raw)
{
    struct address_list list = {0};
    int error = read_addresses(reading, "From", raw, &list);
    if (error == 0 && list.len > 1)
        error = reason_give(reading->ret_reason, -EBADMSG, "From: more than one address");
    if (error == 0 && list.len == 1)
        reading->from = TAKE_PTR(list.items[0].address);
    address_list_release(&list);
    return error;
}

static int read_to(struct draft_reading *reading, const char *raw)
{
    return read_addresses(reading, "To", raw, &reading->to);
}

static int read_cc(struct draft_reading *reading, const char *raw)
{
    return read_addresses(reading, "Cc", raw, &reading->cc);
}

static int read_bcc(struct draft_reading *reading, const char *raw)
{
    return read_addresses(reading, "Bcc", raw, &reading->bcc);
}

static int read_reply_to(struct draft_reading *reading, const char *raw)
{
    return read_addresses(reading, "Reply-To", raw, &reading->reply_to);
}

static const struct header {
    const char *name;
    bool is_single;
    int (*read)(struct draft_reading *reading, const char *raw); /* NULL: GMime has read it */
} headers[] = {
    {"To", false, read_to},
    {"Cc", false, read_cc},
    {"Bcc", false, read_bcc},
    {"Reply-To", false, read_reply_to},
    {"Attach", false, read_attach},
    {"Subject", true, read_subject},
    {"From", true, read_from},
    {"Content-Type", true, NULL},
    {"Content-Transfer-Encoding", true, NULL},
};

int draft_read_headers(struct draft_reading *reading, GMimeMessage *message)
{
    GMimeHeaderList *list = g_mime_object_get_header_list(GMIME_OBJECT(message));
    unsigned int seen[ARRAY_LEN(headers)] = {0};
    for (int i = 0; i < g_mime_header_list_get_count(list); i++) {
        GMimeHeader *header = g_mime_header_list_get_header_at(list, i);
        for (size_t k = 0; k < ARRAY_LEN(headers); k++) {
            if (strcasecmp(headers[k].name, g_mime_header_get_name(header)) != 0)
                continue;
            if (headers[k].is_single && seen[k]++ > 0)
                return reason_give(reading->ret_reason, -EBADMSG, "%s: given twice", headers[k].name);
            int error =
                headers[k].read == NULL ? 0 : headers[k].read(reading, g_mime_header_get_raw_value(header));
            if (error != 0)
                return error;
        }
    }
    return 0;
}
