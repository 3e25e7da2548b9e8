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

/* The headers that matter to the section as a whole. */
static const struct known_header {
    const char *name;
    bool makes_a_message; /* one of these has to be there */
    bool is_single;
} known_headers[] = {
    {"To", true, false},           {"Cc", true, false},
    {"Bcc", true, false},          {"Subject", true, true},
    {"From", true, true},          {"Reply-To", false, false},
    {"Attach", false, false},      {"MIME-Version", false, false},
    {"Content-Type", false, true}, {"Content-Transfer-Encoding", false, true},
};

static const struct known_header *find_known_header(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(known_headers); i++)
        if (strlen(known_headers[i].name) == len && strncasecmp(known_headers[i].name, name, len) == 0)
            return &known_headers[i];
    return NULL;
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

/* A carriage return that ends no line ends one to some mail programs. */
static bool has_bare_return(const char *line, size_t len)
{
    const char *found = memchr(line, '\r', len);
    return found != NULL && (found + 2 != line + len || found[1] != '\n');
}

static int check_header_line(struct draft_reading *reading, const char *line, size_t len, unsigned int number,
                             bool *seen)
{
    size_t name_len = header_name_len(line, len);
    if (name_len == 0 || has_bare_return(line, len))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "not a message: line %u is neither a header nor the blank line after them",
                           number);
    const struct known_header *known = find_known_header(line, name_len);
    if (known == NULL)
        return 0;
    if (known->is_single && seen[known - known_headers])
        return reason_give(reading->ret_reason, -EBADMSG, "%s: given twice", known->name);
    seen[known - known_headers] = true;
    return 0;
}

int draft_check_header_section(struct draft_reading *reading, const char *bytes, size_t len,
                               bool *ret_has_type)
{
    bool seen[ARRAY_LEN(known_headers)] = {false};
    bool is_ended = false;
    unsigned int number = 1;
    size_t at = 0;
    for (size_t step; at < len; at += step, number++) {
        const char *line = bytes + at;
        step = line_len(line, len - at);
        is_ended = is_blank_line(line, step);
        if (is_ended)
            break;
        if (at + step > HEADER_SECTION_MAX_BYTES)
            return reason_give(reading->ret_reason, -EMSGSIZE, "the headers are larger than %d bytes",
                               HEADER_SECTION_MAX_BYTES);
        bool is_folded = at > 0 && (line[0] == ' ' || line[0] == '\t') && !has_bare_return(line, step);
        int error = is_folded ? 0 : check_header_line(reading, line, step, number, seen);
        if (error != 0)
            return error;
    }
    *ret_has_type = seen[find_known_header("Content-Type", strlen("Content-Type")) - known_headers];
    bool is_message = false;
    for (size_t i = 0; i < ARRAY_LEN(known_headers); i++)
        is_message = is_message || ((known_headers[i].makes_a_message || reading->is_answer) && seen[i]);
    if (!is_message)
        return reason_give(reading->ret_reason, -EBADMSG,
                           "not a message: no To, Cc, Bcc, Subject or From among its headers");
    /* What ends within its headers may be cut in the middle of an address. */
    return is_ended ? 0
                    : reason_give(reading->ret_reason, -EBADMSG,
                                  "the message is cut off: no blank line ends its headers");
}

bool draft_begins_with_header(const char *bytes, size_t len)
{
    size_t name_len = header_name_len(bytes, len);
    return name_len > 0 && find_known_header(bytes, name_len) != NULL;
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
    if (error == -EMSGSIZE)
        return draft_refuse_recipients(reading);
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
    int (*read)(struct draft_reading *reading, const char *raw);
} headers[] = {
    {"To", read_to},           {"Cc", read_cc},         {"Bcc", read_bcc},   {"Reply-To", read_reply_to},
    {"Subject", read_subject}, {"Attach", read_attach}, {"From", read_from},
};

static int read_header(struct draft_reading *reading, GMimeHeader *header)
{
    for (size_t i = 0; i < ARRAY_LEN(headers); i++)
        if (strcasecmp(headers[i].name, g_mime_header_get_name(header)) == 0)
            return headers[i].read(reading, g_mime_header_get_raw_value(header));
    return 0;
}

int draft_read_headers(struct draft_reading *reading, GMimeMessage *message)
{
    GMimeHeaderList *list = g_mime_object_get_header_list(GMIME_OBJECT(message));
    int error = 0;
    for (int i = 0; i < g_mime_header_list_get_count(list) && error == 0; i++)
        error = read_header(reading, g_mime_header_list_get_header_at(list, i));
    return error;
}
