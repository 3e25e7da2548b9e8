/* SPDX-License-Identifier: MIT */
/*
 * Messages: their values, the records and the search text made of them, and their RFC 5322 text, which GMime
 * writes and takes attachments out of again. The text always has the same form: the body, or multipart/mixed
 * with the body first and the attachments behind it.
 */
#include "service/message.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "mail/date.h"
#include "mail/html_text.h"

/* ---------------------------------------------------------------- values and records */

void message_release(struct message *message)
{
    free(message->message_id);
    free(message->in_reply_to);
    json_decref(message->references);
    json_decref(message->from);
    json_decref(message->to);
    json_decref(message->cc);
    json_decref(message->bcc);
    json_decref(message->reply_to);
    free(message->subject);
    free(message->plain_text);
    free(message->html);
    for (size_t i = 0; i < message->attachments_len; i++) {
        free(message->attachments[i].name);
        free(message->attachments[i].content_type);
        free(message->attachments[i].bytes);
    }
    free(message->attachments);
    free(message->forwarded);
    *message = (struct message){0};
}

int message_name(struct message *message, const char *domain)
{
    char id[37];
    int error = random_uuid(id);
    if (error != 0)
        return error;
    return asprintf(&message->message_id, "<%s@%s>", id, domain) < 0 ? -ENOMEM : 0;
}

static json_t *attachment_records(const struct message *message)
{
    json_t *list = json_array();
    for (size_t i = 0; i < message->attachments_len; i++) {
        const struct message_attachment *attachment = &message->attachments[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:n}", "id", attachment->id, "filename",
                                              attachment->name, "content_type", attachment->content_type,
                                              "content_encoding", "base64", "content_id"));
    }
    if (message->forwarded != NULL)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:n, s:n}", "id", message->forwarded_id,
                                              "filename", "forwarded.eml", "content_type", "message/rfc822",
                                              "content_encoding", "content_id"));
    return list;
}

json_t *message_header(const struct message *message)
{
    char date[32];
    date_format(message->date_ms, date);
    return json_pack("{s:s, s:s, s:O, s:O, s:O, s:O, s:s, s:s?, s:O?, s:b, s:o}", "subject", message->subject,
                     "date", date, "from_address", message->from, "to_addresses", message->to, "cc_addresses",
                     message->cc, "reply_to_addresses", message->reply_to, "message_id", message->message_id,
                     "in_reply_to_id", message->in_reply_to, "references", message->references,
                     "alternative_content", message->alternative_content, "attachments",
                     attachment_records(message));
}

char *message_fold(const char *text)
{
    char *folded = g_utf8_casefold(text, -1);
    char *copy = strdup(folded);
    g_free(folded);
    return copy;
}

char *message_search_text(const struct message *message)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SIZE_MAX / 2);
    strbuf_append_str(&text, message->subject);
    for (size_t i = 0; i < message->attachments_len; i++) {
        strbuf_append_char(&text, '\n');
        strbuf_append_str(&text, message->attachments[i].name);
    }
    if (message->plain_text != NULL) {
        strbuf_append_char(&text, '\n');
        strbuf_append_str(&text, message->plain_text);
    }
    if (message->html != NULL) {
        strbuf_append_char(&text, '\n');
        html_to_text(&text, message->html, strlen(message->html));
    }
    return text.error == 0 ? message_fold(strbuf_str(&text)) : NULL;
}

/* ---------------------------------------------------------------- the text */

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

static GMimeObject *new_attachment(const struct message_attachment *attachment)
{
    _cleanup_object_ GMimeContentType *type = g_mime_content_type_parse(NULL, attachment->content_type);
    const char *media = g_mime_content_type_get_media_type(type);
    /* RFC 2045 section 6.4: base64 is not allowed on composite types. */
    bool is_composite = strcasecmp(media, "multipart") == 0 || strcasecmp(media, "message") == 0;
    GMimePart *part = is_composite
                          ? g_mime_part_new_with_type("application", "octet-stream")
                          : g_mime_part_new_with_type(media, g_mime_content_type_get_media_subtype(type));
    g_mime_object_set_disposition(GMIME_OBJECT(part), GMIME_DISPOSITION_ATTACHMENT);
    g_mime_part_set_filename(part, attachment->name);
    _cleanup_object_ GMimeDataWrapper *content = new_content(attachment->bytes, attachment->len);
    g_mime_part_set_content(part, content);
    g_mime_part_set_content_encoding(part, GMIME_CONTENT_ENCODING_BASE64);
    return GMIME_OBJECT(part);
}

static GMimeMessage *parse(const char *raw, size_t len)
{
    _cleanup_object_ GMimeStream *stream = g_mime_stream_mem_new_with_buffer(raw, len);
    _cleanup_object_ GMimeParser *parser = g_mime_parser_new_with_stream(stream);
    return g_mime_parser_construct_message(parser, NULL);
}

static GMimeObject *new_forwarded(const char *raw, size_t len)
{
    _cleanup_object_ GMimeMessage *original = parse(raw, len);
    if (original == NULL)
        return NULL;
    GMimeMessagePart *part = g_mime_message_part_new_with_message("rfc822", original);
    g_mime_object_set_disposition(GMIME_OBJECT(part), GMIME_DISPOSITION_ATTACHMENT);
    g_mime_object_set_content_disposition_parameter(GMIME_OBJECT(part), "filename", "forwarded.eml");
    return GMIME_OBJECT(part);
}

static int set_content(GMimeMessage *mime, const struct message *message)
{
    _cleanup_object_ GMimeObject *body = new_body(message);
    if (message->attachments_len == 0 && message->forwarded == NULL) {
        g_mime_message_set_mime_part(mime, body);
        return 0;
    }
    _cleanup_object_ GMimeMultipart *mixed = g_mime_multipart_new_with_subtype("mixed");
    g_mime_multipart_add(mixed, body);
    for (size_t i = 0; i < message->attachments_len; i++) {
        _cleanup_object_ GMimeObject *part = new_attachment(&message->attachments[i]);
        g_mime_multipart_add(mixed, part);
    }
    if (message->forwarded != NULL) {
        _cleanup_object_ GMimeObject *part = new_forwarded(message->forwarded, message->forwarded_len);
        if (part == NULL)
            return -EBADMSG;
        g_mime_multipart_add(mixed, part);
    }
    g_mime_message_set_mime_part(mime, GMIME_OBJECT(mixed));
    return 0;
}

static void add_address(GMimeMessage *mime, GMimeAddressType type, const json_t *address)
{
    InternetAddress *mailbox =
        internet_address_mailbox_new(json_string_value(json_object_get(address, "name")),
                                     json_string_value(json_object_get(address, "address")));
    internet_address_set_charset(mailbox, "utf-8");
    internet_address_list_add(g_mime_message_get_addresses(mime, type), mailbox);
    g_object_unref(mailbox);
}

static void add_addresses(GMimeMessage *mime, GMimeAddressType type, const json_t *list)
{
    size_t i;
    const json_t *address;
    json_array_foreach (list, i, address)
        add_address(mime, type, address);
}

static void set_headers(GMimeMessage *mime, const struct message *message)
{
    add_address(mime, GMIME_ADDRESS_TYPE_FROM, message->from);
    add_addresses(mime, GMIME_ADDRESS_TYPE_REPLY_TO, message->reply_to);
    add_addresses(mime, GMIME_ADDRESS_TYPE_TO, message->to);
    add_addresses(mime, GMIME_ADDRESS_TYPE_CC, message->cc);
    g_mime_message_set_subject(mime, message->subject, "utf-8");

    GDateTime *date = g_date_time_new_from_unix_utc(message->date_ms / 1000);
    g_mime_message_set_date(mime, date);
    g_date_time_unref(date);

    GMimeObject *object = GMIME_OBJECT(mime);
    g_mime_object_set_header(object, "Message-Id", message->message_id, NULL);
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

static ssize_t write_object(GMimeObject *object, GMimeStream *stream)
{
    GMimeFormatOptions *options = g_mime_format_options_new();
    g_mime_format_options_set_newline_format(options, GMIME_NEWLINE_FORMAT_DOS);
    ssize_t written = g_mime_object_write_to_stream(object, options, stream);
    g_mime_format_options_free(options);
    return written;
}

static int copy_stream(GMimeStream *memory, char **ret_bytes, size_t *ret_len)
{
    const GByteArray *array = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(memory));
    char *bytes = malloc((size_t)array->len + 1);
    if (bytes == NULL)
        return -ENOMEM;
    if (array->len > 0)
        memcpy(bytes, array->data, array->len);
    bytes[array->len] = '\0';
    *ret_bytes = bytes;
    *ret_len = array->len;
    return 0;
}

int message_write(const struct message *message, char **ret_raw, size_t *ret_len)
{
    _cleanup_object_ GMimeMessage *mime = g_mime_message_new(TRUE);
    set_headers(mime, message);
    int error = set_content(mime, message);
    if (error != 0)
        return error;
    _cleanup_object_ GMimeStream *memory = g_mime_stream_mem_new();
    ssize_t written = write_object(GMIME_OBJECT(mime), memory);
    return written < 0 ? -EIO : copy_stream(memory, ret_raw, ret_len);
}

int message_read_attachment(const char *raw, size_t len, size_t index, char **ret_bytes, size_t *ret_len)
{
    _cleanup_object_ GMimeMessage *mime = parse(raw, len);
    GMimeObject *top = mime != NULL ? g_mime_message_get_mime_part(mime) : NULL;
    if (top == NULL || !GMIME_IS_MULTIPART(top) || index >= INT_MAX - 1)
        return -ENOENT;
    GMimeMultipart *mixed = GMIME_MULTIPART(top);
    if ((int)index + 1 >= g_mime_multipart_get_count(mixed))
        return -ENOENT;

    GMimeObject *part = g_mime_multipart_get_part(mixed, (int)index + 1);
    _cleanup_object_ GMimeStream *memory = g_mime_stream_mem_new();
    ssize_t written = -1;
    if (GMIME_IS_MESSAGE_PART(part)) {
        GMimeMessage *enclosed = g_mime_message_part_get_message(GMIME_MESSAGE_PART(part));
        written = enclosed == NULL ? 0 : write_object(GMIME_OBJECT(enclosed), memory);
    } else if (GMIME_IS_PART(part)) {
        GMimeDataWrapper *content = g_mime_part_get_content(GMIME_PART(part));
        written = content == NULL ? 0 : g_mime_data_wrapper_write_to_stream(content, memory);
    }
    return written < 0 ? -EIO : copy_stream(memory, ret_bytes, ret_len);
}
