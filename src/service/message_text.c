/* SPDX-License-Identifier: MIT */
/*
 * The RFC 5322 text of a message, which GMime writes. It always has the same form: the body, or
 * multipart/mixed with the body first and the attachments behind it.
 *
 * For the relay, GMime takes a text apart only where it is not fit to be sent. What fits is left as it is: a
 * part whose signature or digest somebody may check has the bytes that it had.
 */
#include "service/message.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum {
    LINE_MAX_BYTES = 998,
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

/* Its content is put there by insert_forwarded(). */
static GMimeObject *new_forwarded(void)
{
    GMimeObject *part = GMIME_OBJECT(g_mime_part_new_with_type("message", "rfc822"));
    g_mime_object_set_disposition(part, GMIME_DISPOSITION_ATTACHMENT);
    g_mime_object_set_content_disposition_parameter(part, "filename", "forwarded.eml");
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
        _cleanup_object_ GMimeObject *part = new_forwarded();
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

/* All at once: GMime writes the whole header anew at each change of a message's list, even an empty one. */
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
    g_mime_object_set_header(object, "Message-Id", message->message_id, NULL);
    if (message->is_automatic)
        g_mime_object_set_header(object, "Auto-Submitted",
                                 message->in_reply_to != NULL ? "auto-replied" : "auto-generated", NULL);
    if (message->in_reply_to != NULL)
        g_mime_object_set_header(object, "In-Reply-To", message->in_reply_to, NULL);
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

static GMimeStream *write_object(GMimeObject *object,
                                 ssize_t (*write)(GMimeObject *, GMimeFormatOptions *, GMimeStream *))
{
    GMimeFormatOptions *options = g_mime_format_options_new();
    g_mime_format_options_set_newline_format(options, GMIME_NEWLINE_FORMAT_DOS);
    GMimeStream *memory = g_mime_stream_mem_new();
    write(object, options, memory);
    g_mime_format_options_free(options);
    return memory;
}

/* Returns true if the text is a body alone, with no blank line before it. */
static bool lacks_blank_line(struct span text)
{
    struct span header, body;
    mime_split(text, &header, &body);
    return header.len == 0 && body.bytes == text.bytes && (text.len == 0 || text.bytes[0] != '>');
}

/* Into the last part, which is empty. GMime would read the message, make it anew, and leave out lines that it
 * does not expect. */
static void insert_forwarded(GByteArray *written, struct span forwarded)
{
    static const char before_boundary[] = "\r\n--";
    const char *end = g_strrstr_len((const char *)written->data, written->len, before_boundary);
    size_t at = (size_t)(end - (const char *)written->data);
    size_t rest_len = written->len - at;
    g_autofree char *rest = g_memdup2(end, rest_len);
    g_byte_array_set_size(written, (guint)at);
    if (lacks_blank_line(forwarded))
        g_byte_array_append(written, (const guint8 *)"\r\n", 2);
    g_byte_array_append(written, (const guint8 *)forwarded.bytes, (guint)forwarded.len);
    g_byte_array_append(written, (const guint8 *)rest, (guint)rest_len);
}

int message_write(const struct message *message, char **ret_raw, size_t *ret_len)
{
    _cleanup_object_ GMimeMessage *mime = g_mime_message_new(TRUE);
    set_headers(mime, message);
    set_content(mime, message);
    _cleanup_object_ GMimeStream *memory = write_object(GMIME_OBJECT(mime), g_mime_object_write_to_stream);
    g_mime_stream_mem_set_owner(GMIME_STREAM_MEM(memory), FALSE);
    GByteArray *bytes = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(memory));
    if (message->forwarded != NULL)
        insert_forwarded(bytes, (struct span){message->forwarded, message->forwarded_len});
    *ret_len = bytes->len;
    *ret_raw = (char *)g_byte_array_free(bytes, FALSE);
    return 0;
}

/* ---------------------------------------------------------------- what is fit for the relay */

static bool is_line_end(const char *text, size_t len, size_t i)
{
    return text[i] == '\n' || (text[i] == '\r' && i + 1 < len && text[i + 1] == '\n');
}

static bool is_fit(const char *text, size_t len)
{
    size_t line = 0;
    for (size_t i = 0; i < len; i++) {
        bool is_end = is_line_end(text, len, i);
        line = is_end ? 0 : line + 1;
        if (line > LINE_MAX_BYTES ||
            (!is_end && (text[i] == '\0' || text[i] == '\r' || (text[i] & 0x80) != 0)))
            return false;
    }
    return true;
}

static bool is_fit_stream(GMimeStream *memory)
{
    const GByteArray *bytes = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(memory));
    return is_fit((const char *)bytes->data, bytes->len);
}

/* ---------------------------------------------------------------- its headers */

static InternetAddress *without_address(InternetAddress *address)
{
    g_autofree char *name = internet_address_to_string(address, NULL, FALSE);
    InternetAddress *group = internet_address_group_new(name);
    internet_address_set_charset(group, "utf-8");
    return group;
}

/* All at once: GMime writes the whole header anew at each change of a message's list. */
static void hide_addresses_of(InternetAddressList *addresses)
{
    bool has_changed = false;
    _cleanup_object_ InternetAddressList *result = internet_address_list_new();
    for (int i = 0; i < internet_address_list_length(addresses); i++) {
        InternetAddress *address = internet_address_list_get_address(addresses, i);
        bool is_sendable =
            !INTERNET_ADDRESS_IS_MAILBOX(address) ||
            g_str_is_ascii(internet_address_mailbox_get_idn_addr((InternetAddressMailbox *)address));
        _cleanup_object_ InternetAddress *shown =
            is_sendable ? g_object_ref(address) : without_address(address);
        internet_address_list_add(result, shown);
        has_changed = has_changed || !is_sendable;
    }
    if (has_changed) {
        internet_address_list_clear(addresses);
        internet_address_list_append(addresses, result);
    }
}

static void hide_addresses(GMimeMessage *message)
{
    for (int type = GMIME_ADDRESS_TYPE_SENDER; type <= GMIME_ADDRESS_TYPE_BCC; type++)
        hide_addresses_of(g_mime_message_get_addresses(message, (GMimeAddressType)type));
}

static bool is_fit_field(GMimeHeader *header)
{
    g_autofree char *field =
        g_strconcat(g_mime_header_get_name(header), ":", g_mime_header_get_raw_value(header), NULL);
    return is_fit(field, strlen(field));
}

/* Encodes and folds as the field's form has it, and where that is not enough, the field as text. */
static void encode_headers(GMimeObject *object)
{
    GMimeHeaderList *headers = g_mime_object_get_header_list(object);
    for (int i = 0; i < g_mime_header_list_get_count(headers); i++) {
        GMimeHeader *header = g_mime_header_list_get_header_at(headers, i);
        if (is_fit_field(header))
            continue;
        g_autofree char *value = g_strdup(g_mime_header_get_value(header));
        g_mime_header_set_value(header, NULL, value, "utf-8");
        if (is_fit_field(header))
            continue;
        g_autofree char *text = g_mime_utils_header_encode_text(NULL, value, "utf-8");
        g_autofree char *field = g_strconcat(g_mime_header_get_name(header), ":", text, NULL);
        g_autofree char *folded = g_mime_utils_unstructured_header_fold(NULL, NULL, field);
        g_mime_header_set_raw_value(header, strchr(folded, ':') + 1);
    }
}

/* ---------------------------------------------------------------- its parts */

static void encode_part(GMimePart *part)
{
    _cleanup_object_ GMimeStream *written =
        write_object(GMIME_OBJECT(part), g_mime_object_write_content_to_stream);
    if (is_fit_stream(written))
        return;
    _cleanup_object_ GMimeStream *decoded = g_mime_stream_mem_new();
    g_mime_data_wrapper_write_to_stream(g_mime_part_get_content(part), decoded);
    _cleanup_object_ GMimeDataWrapper *content =
        g_mime_data_wrapper_new_with_stream(decoded, GMIME_CONTENT_ENCODING_DEFAULT);
    g_mime_part_set_content(part, content);
    GMimeContentEncoding encoding =
        g_mime_part_get_best_content_encoding(part, GMIME_ENCODING_CONSTRAINT_7BIT);
    bool is_encoded =
        encoding == GMIME_CONTENT_ENCODING_BASE64 || encoding == GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE;
    g_mime_part_set_content_encoding(part, is_encoded ? encoding : GMIME_CONTENT_ENCODING_BASE64);
}

static void encode_message(GMimeMessage *message);

/* What is signed must not be changed (RFC 1847 section 2.1). What stands around the parts is no text. */
static void encode_object(GMimeObject *object)
{
    encode_headers(object);
    if (GMIME_IS_PART(object)) {
        encode_part(GMIME_PART(object));
    } else if (GMIME_IS_MESSAGE_PART(object)) {
        g_mime_object_remove_header(object, "Content-Transfer-Encoding");
        encode_message(g_mime_message_part_get_message(GMIME_MESSAGE_PART(object)));
    } else if (GMIME_IS_MULTIPART(object) && !GMIME_IS_MULTIPART_SIGNED(object)) {
        GMimeMultipart *multipart = GMIME_MULTIPART(object);
        g_mime_object_remove_header(object, "Content-Transfer-Encoding");
        g_mime_multipart_set_prologue(multipart, NULL);
        g_mime_multipart_set_epilogue(multipart, NULL);
        for (int i = 0; i < g_mime_multipart_get_count(multipart); i++)
            encode_object(g_mime_multipart_get_part(multipart, i));
    }
}

static void encode_message(GMimeMessage *message)
{
    if (message == NULL)
        return;
    hide_addresses(message);
    encode_headers(GMIME_OBJECT(message));
    if (g_mime_object_get_header(GMIME_OBJECT(message), "MIME-Version") == NULL)
        g_mime_object_set_header(GMIME_OBJECT(message), "MIME-Version", "1.0", NULL);
    if (g_mime_message_get_mime_part(message) != NULL)
        encode_object(g_mime_message_get_mime_part(message));
}

/* The messages that a message written here encloses: all else in it is encoded. */
static void encode_enclosed(GMimeMultipart *mixed)
{
    for (int i = 0; i < g_mime_multipart_get_count(mixed); i++) {
        GMimeObject *part = g_mime_multipart_get_part(mixed, i);
        if (!GMIME_IS_MESSAGE_PART(part))
            continue;
        _cleanup_object_ GMimeStream *original = write_object(part, g_mime_object_write_content_to_stream);
        if (is_fit_stream(original))
            continue;
        encode_object(part);
        _cleanup_object_ GMimeStream *encoded = write_object(part, g_mime_object_write_content_to_stream);
        if (is_fit_stream(encoded))
            continue;
        _cleanup_object_ GMimeDataWrapper *content =
            g_mime_data_wrapper_new_with_stream(original, GMIME_CONTENT_ENCODING_DEFAULT);
        _cleanup_object_ GMimeObject *file =
            new_file("application", "octet-stream", "forwarded.eml", content);
        g_object_unref(g_mime_multipart_replace(mixed, i, file));
    }
}

/* ---------------------------------------------------------------- lines */

/* SMTP has one line end, and what it calls the end of a message must not stand within it in another's words:
 * each LF, CR and CR LF becomes CR LF. A line that is too long is one of a header: it is folded, at a blank
 * if it has one. */
static int append_lines(struct strbuf *text, const char *raw, size_t len)
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
        i = is_end && is_line_end(raw, len, i) && raw[i] == '\r' ? i + 1 : end;
        start = is_end ? i + 1 : end;
    }
    return strbuf_append(text, raw + start, len - start);
}

static GMimeMessage *parse(const char *raw, size_t len)
{
    _cleanup_object_ GMimeStream *stream = g_mime_stream_mem_new_with_buffer(raw, len);
    _cleanup_object_ GMimeParser *parser = g_mime_parser_new_with_stream(stream);
    return g_mime_parser_construct_message(parser, NULL);
}

static GMimeStream *encode(const char *raw, size_t len, bool has_utf8)
{
    _cleanup_object_ GMimeMessage *message = parse(raw, len);
    if (message == NULL)
        return NULL;
    if (!has_utf8)
        hide_addresses(message);
    GMimeObject *content = g_mime_message_get_mime_part(message);
    if (GMIME_IS_MULTIPART(content))
        encode_enclosed(GMIME_MULTIPART(content));
    return write_object(GMIME_OBJECT(message), g_mime_object_write_to_stream);
}

int message_write_for_relay(const char *raw, size_t len, bool has_utf8, struct strbuf *text)
{
    if (is_fit(raw, len))
        return append_lines(text, raw, len);
    _cleanup_object_ GMimeStream *encoded = encode(raw, len, has_utf8);
    if (encoded == NULL)
        return -EBADMSG;
    const GByteArray *bytes = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(encoded));
    return append_lines(text, (const char *)bytes->data, bytes->len);
}
