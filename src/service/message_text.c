/* SPDX-License-Identifier: MIT */
/*
 * The RFC 5322 text of a message, which GMime writes. The content is the body, or multipart/mixed with the
 * body and the attachments.
 */
#include "service/message.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum {
    LINE_MAX_BYTES = 998, /* of a line, without CR LF */
};

static void cleanup_object(void *pointer)
{
    GObject *object = *(GObject **)pointer;
    if (object != NULL)
        g_object_unref(object);
}

#define _cleanup_object_ _cleanup_(cleanup_object)

static GMimeDataWrapper *new_content(const char *bytes, size_t len)
{
    GMimeStream *stream = g_mime_stream_mem_new_with_buffer(bytes, len);
    GMimeDataWrapper *content = g_mime_data_wrapper_new_with_stream(stream, GMIME_CONTENT_ENCODING_DEFAULT);
    g_object_unref(stream);
    return content;
}

static GMimeObject *new_text(const char *subtype, const char *text)
{
    GMimePart *part = g_mime_part_new_with_type("text", subtype);
    g_mime_object_set_content_type_parameter(GMIME_OBJECT(part), "charset", "utf-8");
    _cleanup_object_ GMimeDataWrapper *content = new_content(text, strlen(text));
    g_mime_part_set_content(part, content);
    g_mime_part_set_content_encoding(
        part, g_mime_part_get_best_content_encoding(part, GMIME_ENCODING_CONSTRAINT_7BIT));
    return GMIME_OBJECT(part);
}

static GMimeObject *new_body(const struct message *message)
{
    if (message->html == NULL)
        return new_text("plain", message->plain_text != NULL ? message->plain_text : "");
    if (message->plain_text == NULL)
        return new_text("html", message->html);
    GMimeMultipart *both =
        g_mime_multipart_new_with_subtype(message->alternative_content ? "alternative" : "mixed");
    _cleanup_object_ GMimeObject *plain = new_text("plain", message->plain_text);
    _cleanup_object_ GMimeObject *html = new_text("html", message->html);
    g_mime_multipart_add(both, plain);
    g_mime_multipart_add(both, html);
    return GMIME_OBJECT(both);
}

static GMimeObject *new_file(const char *media, const char *subtype, const char *name,
                             GMimeDataWrapper *content)
{
    GMimePart *part = g_mime_part_new_with_type(media, subtype);
    g_mime_object_set_disposition(GMIME_OBJECT(part), GMIME_DISPOSITION_ATTACHMENT);
    g_mime_part_set_filename(part, name);
    g_mime_part_set_content(part, content);
    g_mime_part_set_content_encoding(part, GMIME_CONTENT_ENCODING_BASE64);
    return GMIME_OBJECT(part);
}

static GMimeObject *new_attachment(const struct message_attachment *attachment)
{
    _cleanup_object_ GMimeContentType *type = g_mime_content_type_parse(NULL, attachment->content_type);
    const char *media = g_mime_content_type_get_media_type(type);
    /* RFC 2045 section 6.4: base64 is not allowed on composite types. */
    bool is_composite = strcasecmp(media, "multipart") == 0 || strcasecmp(media, "message") == 0;
    _cleanup_object_ GMimeDataWrapper *content = new_content(attachment->bytes, attachment->len);
    return new_file(is_composite ? "application" : media,
                    is_composite ? "octet-stream" : g_mime_content_type_get_media_subtype(type),
                    attachment->name, content);
}

/* Returns true if mail servers take the bytes unchanged (RFC 5321 sections 4.1.1.4 and 4.5.3.1.6, RFC 6152).
 */
static bool is_fit_for_smtp(const char *text, size_t len)
{
    size_t line = 0;
    for (size_t i = 0; i < len; i++) {
        bool is_lone_cr = text[i] == '\r' && (i + 1 == len || text[i + 1] != '\n');
        line = text[i] == '\n' ? 0 : line + (text[i] != '\r');
        if (line > LINE_MAX_BYTES || text[i] == '\0' || is_lone_cr)
            return false;
    }
    return true;
}

/* A message/rfc822 part is empty until insert_forwarded() fills it. */
static GMimeObject *new_forwarded(const struct message *message)
{
    static const char name[] = "forwarded.eml";
    if (!is_fit_for_smtp(message->forwarded, message->forwarded_len)) {
        _cleanup_object_ GMimeDataWrapper *content = new_content(message->forwarded, message->forwarded_len);
        return new_file("application", "octet-stream", name, content);
    }
    GMimeObject *part = GMIME_OBJECT(g_mime_part_new_with_type("message", "rfc822"));
    g_mime_object_set_disposition(part, GMIME_DISPOSITION_ATTACHMENT);
    g_mime_object_set_content_disposition_parameter(part, "filename", name);
    return part;
}

static void set_content(GMimeMessage *mime, const struct message *message)
{
    _cleanup_object_ GMimeObject *body = new_body(message);
    if (message->attachments_len == 0 && message->forwarded == NULL) {
        g_mime_message_set_mime_part(mime, body);
        return;
    }
    _cleanup_object_ GMimeMultipart *mixed = g_mime_multipart_new_with_subtype("mixed");
    g_mime_multipart_add(mixed, body);
    for (size_t i = 0; i < message->attachments_len; i++) {
        _cleanup_object_ GMimeObject *part = new_attachment(&message->attachments[i]);
        g_mime_multipart_add(mixed, part);
    }
    if (message->forwarded != NULL) {
        _cleanup_object_ GMimeObject *part = new_forwarded(message);
        g_mime_multipart_add(mixed, part);
    }
    g_mime_message_set_mime_part(mime, GMIME_OBJECT(mixed));
}

static void add_address(InternetAddressList *addresses, const json_t *address)
{
    InternetAddress *mailbox =
        internet_address_mailbox_new(json_string_value(json_object_get(address, "name")),
                                     json_string_value(json_object_get(address, "address")));
    internet_address_set_charset(mailbox, "utf-8");
    internet_address_list_add(addresses, mailbox);
    g_object_unref(mailbox);
}

/* Adds all addresses at once: after each change of a message's list, GMime writes the whole header anew. */
static void add_addresses(GMimeMessage *mime, GMimeAddressType type, const json_t *list)
{
    if (json_array_size(list) == 0)
        return;
    InternetAddressList *addresses = internet_address_list_new();
    size_t i;
    const json_t *address;
    json_array_foreach (list, i, address)
        add_address(addresses, address);
    internet_address_list_append(g_mime_message_get_addresses(mime, type), addresses);
    g_object_unref(addresses);
}

static void set_headers(GMimeMessage *mime, const struct message *message)
{
    add_address(g_mime_message_get_addresses(mime, GMIME_ADDRESS_TYPE_FROM), message->from);
    add_addresses(mime, GMIME_ADDRESS_TYPE_REPLY_TO, message->reply_to);
    add_addresses(mime, GMIME_ADDRESS_TYPE_TO, message->to);
    add_addresses(mime, GMIME_ADDRESS_TYPE_CC, message->cc);
    g_mime_message_set_subject(mime, message->subject, "utf-8");

    GDateTime *date = g_date_time_new_from_unix_utc(message->date_ms / 1000);
    g_mime_message_set_date(mime, date);
    g_date_time_unref(date);

    GMimeObject *object = GMIME_OBJECT(mime);
    const char *in_reply_to = json_string_value(json_array_get(message->in_reply_to, 0));
    g_mime_object_set_header(object, "Message-Id", message->message_id, NULL);
    if (message->is_automatic)
        g_mime_object_set_header(object, "Auto-Submitted",
                                 in_reply_to != NULL ? "auto-replied" : "auto-generated", NULL);
    if (in_reply_to != NULL)
        g_mime_object_set_header(object, "In-Reply-To", in_reply_to, NULL);
    if (json_array_size(message->references) == 0)
        return;
    GString *references = g_string_new(NULL);
    size_t i;
    const json_t *reference;
    json_array_foreach (message->references, i, reference)
        g_string_append_printf(references, "%s%s", i > 0 ? " " : "", json_string_value(reference));
    g_mime_object_set_header(object, "References", references->str, NULL);
    g_string_free(references, TRUE);
}

/* Inserts the forwarded message into the last part, which is empty. GMime would parse the message, write it
 * anew, and leave out lines that it does not expect. */
static void insert_forwarded(GByteArray *written, struct span forwarded)
{
    static const char before_boundary[] = "\r\n--";
    const char *end = g_strrstr_len((const char *)written->data, written->len, before_boundary);
    size_t at = (size_t)(end - (const char *)written->data);
    size_t rest_len = written->len - at;
    g_autofree char *rest = g_memdup2(end, rest_len);
    g_byte_array_set_size(written, (guint)at);
    g_byte_array_append(written, (const guint8 *)forwarded.bytes, (guint)forwarded.len);
    g_byte_array_append(written, (const guint8 *)rest, (guint)rest_len);
}

char *message_write(const struct message *message, size_t *ret_len)
{
    _cleanup_object_ GMimeMessage *mime = g_mime_message_new(TRUE);
    set_headers(mime, message);
    set_content(mime, message);
    _cleanup_object_ GMimeStream *memory = g_mime_stream_mem_new();
    GMimeFormatOptions *options = g_mime_format_options_new();
    g_mime_format_options_set_newline_format(options, GMIME_NEWLINE_FORMAT_DOS);
    g_mime_object_write_to_stream(GMIME_OBJECT(mime), options, memory);
    g_mime_format_options_free(options);
    g_mime_stream_mem_set_owner(GMIME_STREAM_MEM(memory), FALSE);
    GByteArray *bytes = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(memory));
    if (message->forwarded != NULL && is_fit_for_smtp(message->forwarded, message->forwarded_len))
        insert_forwarded(bytes, (struct span){message->forwarded, message->forwarded_len});
    *ret_len = bytes->len;
    return (char *)g_byte_array_free(bytes, FALSE);
}

/* LF, CR and CR LF become CR LF, the only line end of SMTP. Only lines of headers can be too long, and are
 * folded, at a blank if there is one. */
int message_write_for_relay(const char *raw, size_t len, struct strbuf *text)
{
    size_t start = 0, line_max = LINE_MAX_BYTES;
    for (size_t i = 0; i < len; i++) {
        bool is_end = raw[i] == '\r' || raw[i] == '\n';
        if (!is_end && i - start < line_max)
            continue;
        const char *blank = is_end ? NULL : memrchr(raw + start + 1, ' ', i - start - 1);
        size_t end = blank != NULL ? (size_t)(blank - raw) : i;
        strbuf_append(text, raw + start, end - start);
        strbuf_append_str(text, is_end || blank != NULL ? "\r\n" : "\r\n ");
        line_max = is_end || blank != NULL ? LINE_MAX_BYTES : LINE_MAX_BYTES - 1;
        i = is_end && raw[i] == '\r' && i + 1 < len && raw[i + 1] == '\n' ? i + 1 : end;
        start = is_end ? i + 1 : end;
    }
    return strbuf_append(text, raw + start, len - start);
}
