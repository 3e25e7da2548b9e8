/* SPDX-License-Identifier: MIT */
/*
 * The RFC 5322 form of a draft. The first text/plain and the first text/html become the bodies, every other
 * leaf an attachment, so that nothing is dropped: signatures and the halves of encrypted parts too. Headers
 * that the service sets itself (Date, Message-ID, References, …) are passed over.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/draft_reading.h"
#include "mail/mime_library.h"
#include "mail/mime_part.h"
#include "mail/reason.h"

enum {
    NESTING_MAX = 32,
    BOUNDARY_LINES_MAX = 50 * 1000
};

/* Where in the tree the walk is. */
struct place {
    unsigned int depth;
    const GMimeObject *alternative; /* the nearest multipart/alternative around, or NULL */
};

struct mime_walk {
    struct draft_reading *reading;
    const GMimeObject *plain_in; /* the multipart/alternative that the body came from, or NULL */
    const GMimeObject *html_in;
};

static bool is_type(GMimeObject *part, const char *media, const char *subtype)
{
    return g_mime_content_type_is_type(g_mime_object_get_content_type(part), media, subtype);
}

/* A Content-Type without a subtype means text (RFC 2045 section 5.2), to GMime it means bytes. */
static bool is_plain_text(GMimeObject *part)
{
    const char *type = g_mime_object_get_header(part, "Content-Type");
    return is_type(part, "text", "plain") || (type != NULL && strchr(type, '/') == NULL);
}

/* A leaf that names a file is meant as one, except for a message that is nothing but its text. */
static bool is_attachment(GMimeObject *part, const struct place *place)
{
    const char *disposition = g_mime_object_get_disposition(part);
    if (disposition != NULL && g_ascii_strcasecmp(disposition, "attachment") == 0)
        return true;
    _cleanup_free_ char *name = mime_part_file_name(part);
    return name != NULL && place->depth > 0;
}

/* "attachment-2.pdf", for a part without a name of its own. */
static char *make_up_name(const char *content_type, size_t number)
{
    static const struct {
        const char *content_type;
        const char *extension;
    } known[] = {
        {"message/rfc822", ".eml"},
        {"text/plain", ".txt"},
        {"text/html", ".html"},
        {"text/calendar", ".ics"},
        {"text/csv", ".csv"},
        {"text/vcard", ".vcf"},
        {"application/pdf", ".pdf"},
        {"application/json", ".json"},
        {"application/zip", ".zip"},
        {"application/pgp-signature", ".asc"},
        {"application/pkcs7-signature", ".p7s"},
        {"application/pkcs7-mime", ".p7m"},
        {"image/png", ".png"},
        {"image/jpeg", ".jpg"},
        {"image/gif", ".gif"},
    };
    const char *extension = "";
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(known[i].content_type, content_type) == 0)
            extension = known[i].extension;
    char *name = NULL;
    return asprintf(&name, "attachment-%zu%s", number, extension) < 0 ? NULL : name;
}

static int read_attachment(struct mime_walk *walk, GMimeObject *part)
{
    struct draft_reading *reading = walk->reading;
    if (reading->parts_len >= ATTACHMENTS_MAX)
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d attachments", ATTACHMENTS_MAX);

    _cleanup_free_ char *content_type = mime_part_content_type(part);
    _cleanup_free_ char *name = mime_part_file_name(part);
    if (name == NULL && content_type != NULL)
        name = make_up_name(content_type, reading->parts_len + 1);
    if (name == NULL)
        return -ENOMEM;

    char *bytes = NULL;
    size_t len = 0;
    int error = mime_part_read_bytes(part, &bytes, &len, reading->ret_reason);
    return error != 0 ? error : draft_append_part(reading, name, content_type, bytes, len);
}

static int read_leaf(struct mime_walk *walk, GMimeObject *part, const struct place *place)
{
    struct draft_reading *reading = walk->reading;
    if (!is_attachment(part, place)) {
        if (is_plain_text(part) && reading->plain_text == NULL) {
            walk->plain_in = place->alternative;
            return mime_part_read_text(part, &reading->plain_text, reading->ret_reason);
        }
        if (is_type(part, "text", "html") && reading->html == NULL) {
            walk->html_in = place->alternative;
            return mime_part_read_text(part, &reading->html, reading->ret_reason);
        }
    }
    return read_attachment(walk, part);
}

/* A multipart that lacks its end is a message that was cut off. */
static int check_multipart(struct draft_reading *reading, GMimeMultipart *multipart, unsigned int depth)
{
    if (depth >= NESTING_MAX)
        return reason_give(reading->ret_reason, -EBADMSG, "parts within parts, more than %d deep",
                           NESTING_MAX);
    if (g_mime_multipart_get_count(multipart) == 0)
        return reason_give(reading->ret_reason, -EBADMSG, "a multipart message without its parts");
    if (!multipart->write_end_boundary)
        return reason_give(reading->ret_reason, -EBADMSG,
                           "the message is cut off: the closing boundary \"--%.70s--\" is missing",
                           g_mime_multipart_get_boundary(multipart));
    return 0;
}

static int read_object(struct mime_walk *walk, GMimeObject *object, const struct place *place)
{
    if (!GMIME_IS_MULTIPART(object))
        return read_leaf(walk, object, place);

    GMimeMultipart *multipart = GMIME_MULTIPART(object);
    int error = check_multipart(walk->reading, multipart, place->depth);
    struct place inside = {
        .depth = place->depth + 1,
        .alternative = is_type(object, "multipart", "alternative") ? object : place->alternative,
    };
    for (int i = 0; i < g_mime_multipart_get_count(multipart) && error == 0; i++)
        error = read_object(walk, g_mime_multipart_get_part(multipart, i), &inside);
    return error;
}

static int read_body(struct draft_reading *reading, GMimeObject *body)
{
    struct mime_walk walk = {.reading = reading};
    if (body == NULL)
        return 0;
    int error = read_object(&walk, body, &(struct place){0});
    reading->alternative_content = walk.html_in != NULL && walk.html_in == walk.plain_in;
    return error;
}

/* GMime drops what is nested too deeply for it, and says so only here. */
static void note_nesting(gint64 offset, GMimeParserWarning problem, const gchar *item, gpointer is_too_deep)
{
    (void)offset;
    (void)item;
    if (problem == GMIME_CRIT_NESTING_OVERFLOW)
        *(bool *)is_too_deep = true;
}

static GMimeMessage *parse(const char *bytes, size_t len, bool *ret_is_too_deep)
{
    *ret_is_too_deep = false;
    GMimeParserOptions *options = mime_parser_options_new();
    g_mime_parser_options_set_warning_callback(options, note_nesting, ret_is_too_deep);
    GMimeStream *stream = g_mime_stream_mem_new_with_buffer(bytes, len);
    GMimeParser *parser = g_mime_parser_new_with_stream(stream);
    GMimeMessage *message = g_mime_parser_construct_message(parser, options);
    g_object_unref(parser);
    g_object_unref(stream);
    g_mime_parser_options_free(options);
    return message;
}

/* GMime makes objects of over a kilobyte of each part, and a part can be a few bytes. */
static bool has_too_many_parts(const char *bytes, size_t len)
{
    size_t lines = 0;
    const char *end = bytes + len;
    for (const char *at = bytes; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
        lines += end - at > 2 && at[1] == '-' && at[2] == '-';
    return lines > BOUNDARY_LINES_MAX;
}

/* The line that an mbox file has before each message. */
static size_t mbox_line_len(const char *bytes, size_t len)
{
    if (len < 5 || memcmp(bytes, "From ", 5) != 0)
        return 0;
    const char *newline = memchr(bytes, '\n', len);
    return newline == NULL ? len : (size_t)(newline - bytes) + 1;
}

int draft_read_mime(struct draft_reading *reading, const char *bytes, size_t len)
{
    size_t skipped = mbox_line_len(bytes, len);
    bytes += skipped;
    len -= skipped;
    bool has_type;
    int error = draft_check_header_section(reading, bytes, len, &has_type);
    if (error != 0)
        return error;
    if (has_type && has_too_many_parts(bytes, len))
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d lines that can begin a part",
                           BOUNDARY_LINES_MAX);

    bool is_too_deep;
    GMimeMessage *message = parse(bytes, len, &is_too_deep);
    if (message == NULL)
        return reason_give(reading->ret_reason, -EBADMSG, "not a message");
    if (is_too_deep)
        error = reason_give(reading->ret_reason, -EBADMSG, "parts within parts, too deep to be read");
    if (error == 0)
        error = draft_read_headers(reading, message);
    if (error == 0)
        error = read_body(reading, g_mime_message_get_mime_part(message));
    g_object_unref(message);
    return error;
}
