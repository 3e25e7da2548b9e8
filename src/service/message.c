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

#include "base/character.h"
#include "base/cleanup.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/charset.h"
#include "mail/date.h"
#include "mail/draft.h"
#include "mail/file_name.h"
#include "mail/header_text.h"
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
    free(message->sender_text);
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
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s?, s:n}", "id", attachment->id, "filename",
                                              attachment->name, "content_type", attachment->content_type,
                                              "content_encoding", attachment->encoding, "content_id"));
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
    if (original == NULL) {
        /* To GMime, text that does not begin with a header is no message. */
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SIZE_MAX / 2);
        strbuf_append_char(&text, '\n');
        strbuf_append(&text, raw, len);
        original = text.error == 0 ? parse(text.data, text.len) : NULL;
    }
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

/* ---------------------------------------------------------------- reading */

/* The text of strangers is taken apart here, not by GMime, which changes line ends at the edges of parts, and
 * would make a message that is enclosed anew. What is read is a list of leaves in the order of the text: the
 * first text/plain and the first text/html are the bodies, every other one is an attachment. A file that is
 * named or called an attachment is no body. Both who lists attachments and who fetches one go this way, so
 * that they count alike. */

enum {
    NESTING_MAX = 32,            /* of multiparts; a deeper one is an attachment */
    PARTS_MAX = 10000,           /* that are looked at */
    LINE_MAX_BYTES = 8192,       /* of a subject and its like, in a record */
    VALUE_MAX_BYTES = 64 * 1024, /* of a header that is decoded, as it is written; the rest is not kept */
    NAME_MAX_BYTES = 255,
    TYPE_MAX_BYTES = 2 * 127 + 1, /* RFC 6838 section 4.2 */
    MESSAGE_ID_MAX_BYTES = 998,   /* RFC 5322: of a line */
};

struct span {
    const char *bytes;
    size_t len;
};

struct entity {
    struct span header;
    struct span body;
    char type[TYPE_MAX_BYTES + 1];
    unsigned int depth;
    const char *alternative; /* the body of the nearest multipart/alternative around, or NULL */
};

struct message_reading {
    struct message *message; /* to be filled; NULL: only an attachment is wanted */
    size_t wanted;           /* its index; SIZE_MAX: none */
    char *bytes;             /* its content */
    size_t bytes_len;
    size_t attachments_len; /* seen so far */
    size_t parts_len;
    bool has_plain;
    bool has_html;
    const char *plain_in; /* struct entity's alternative */
    const char *html_in;
};

static void skip(struct span *span, size_t len)
{
    span->bytes += len;
    span->len -= len;
}

static size_t line_len(struct span span)
{
    const char *newline = span.len > 0 ? memchr(span.bytes, '\n', span.len) : NULL;
    return newline == NULL ? span.len : (size_t)(newline - span.bytes) + 1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Takes a header field and the lines folded to it off the text. False: it does not begin with one. */
static bool take_field(struct span *text, struct span *ret_name, struct span *ret_value)
{
    size_t name_len = 0;
    while (name_len < text->len && g_ascii_isgraph(text->bytes[name_len]) && text->bytes[name_len] != ':')
        name_len++;
    size_t colon = name_len;
    while (colon < text->len && is_blank(text->bytes[colon]))
        colon++;
    if (name_len == 0 || colon == text->len || text->bytes[colon] != ':')
        return false;
    *ret_name = (struct span){text->bytes, name_len};
    *ret_value = *text;
    do
        skip(text, line_len(*text));
    while (text->len > 0 && is_blank(text->bytes[0]));
    ret_value->len = (size_t)(text->bytes - ret_value->bytes);
    skip(ret_value, colon + 1);
    return true;
}

/* Where a line is neither a field nor blank, the body has begun. ">From " in the first line is what became of
 * an mbox's on its way here. */
static void take_apart(struct span text, struct span *ret_header, struct span *ret_body)
{
    struct span name, value;
    if (text.len > 6 && memcmp(text.bytes, ">From ", 6) == 0)
        skip(&text, line_len(text));
    struct span rest = text;
    while (take_field(&rest, &name, &value))
        ;
    *ret_header = (struct span){text.bytes, text.len - rest.len};
    if (rest.len > 0 && rest.bytes[0] == '\n')
        skip(&rest, 1);
    else if (rest.len > 1 && rest.bytes[0] == '\r' && rest.bytes[1] == '\n')
        skip(&rest, 2);
    *ret_body = rest;
}

/* The next field of that name, which is taken off with all before it. */
static bool find_next(struct span *header, const char *field, struct span *ret_value)
{
    struct span name;
    while (take_field(header, &name, ret_value)) {
        if (name.len == strlen(field) && strncasecmp(name.bytes, field, name.len) == 0)
            return true;
    }
    return false;
}

/* The first one; empty: there is none. */
static struct span find_field(struct span header, const char *field)
{
    struct span value;
    return find_next(&header, field, &value) ? value : (struct span){"", 0};
}

static size_t decoded_len(struct span value)
{
    return value.len < VALUE_MAX_BYTES ? value.len : VALUE_MAX_BYTES;
}

/* *ret_text is NULL where the field has no such parameter. The caller frees. 0 or -ENOMEM. */
static int read_parameter(struct span header, const char *field, const char *name, char **ret_text)
{
    struct span value = find_field(header, field);
    *ret_text = NULL;
    int error = header_text_decode_parameter(value.bytes, decoded_len(value), name, ret_text);
    return error == -ENOENT ? 0 : error;
}

/* The word that a value begins with. */
static struct span first_word(struct span value)
{
    while (value.len > 0 && (g_ascii_isspace(value.bytes[0]) || value.bytes[0] == '"'))
        skip(&value, 1);
    size_t len = 0;
    while (len < value.len && g_ascii_isgraph(value.bytes[len]) &&
           strchr("()<>@,;:\\\"[]?=", value.bytes[len]) == NULL)
        len++;
    return (struct span){value.bytes, len};
}

static bool is_word(struct span word, const char *text)
{
    return word.len == strlen(text) && strncasecmp(word.bytes, text, word.len) == 0;
}

/* "type/subtype". Without a subtype it means text (RFC 2045 section 5.2). */
static void read_type(struct entity *entity, const char *default_type)
{
    struct span type = first_word(find_field(entity->header, "Content-Type"));
    const char *slash = type.len > 0 ? memchr(type.bytes, '/', type.len) : NULL;
    if (slash == NULL)
        type = (struct span){default_type, strlen(default_type)};
    else if (slash == type.bytes || slash + 1 == type.bytes + type.len || type.len > TYPE_MAX_BYTES ||
             memchr(slash + 1, '/', (size_t)(type.bytes + type.len - slash) - 1) != NULL)
        type = (struct span){"application/octet-stream", strlen("application/octet-stream")};
    for (size_t i = 0; i < type.len; i++)
        entity->type[i] = g_ascii_tolower(type.bytes[i]);
    entity->type[type.len] = '\0';
}

/* ---- contents */

static const struct known_encoding {
    const char *name;
    GMimeContentEncoding encoding;
} known_encodings[] = {
    {"base64", GMIME_CONTENT_ENCODING_BASE64},
    {"quoted-printable", GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE},
    {"x-uuencode", GMIME_CONTENT_ENCODING_UUENCODE},
    {"uuencode", GMIME_CONTENT_ENCODING_UUENCODE},
    {"x-uue", GMIME_CONTENT_ENCODING_UUENCODE},
    {"uue", GMIME_CONTENT_ENCODING_UUENCODE},
};

/* NULL: the bytes stand for themselves, as under an encoding that nobody knows. */
static const struct known_encoding *find_encoding(const struct entity *entity)
{
    struct span word = first_word(find_field(entity->header, "Content-Transfer-Encoding"));
    for (size_t i = 0; i < ARRAY_LEN(known_encodings); i++) {
        if (is_word(word, known_encodings[i].name))
            return &known_encodings[i];
    }
    return NULL;
}

/* GMime decodes the lines behind that one. */
static struct span skip_to_uuencoded(struct span body)
{
    while (body.len > 0) {
        bool begins = body.len > 6 && memcmp(body.bytes, "begin ", 6) == 0;
        skip(&body, line_len(body));
        if (begins)
            break;
    }
    return body;
}

/* NUL-terminated. The caller frees. 0 or -ENOMEM. */
static int decode(const struct entity *entity, char **ret_bytes, size_t *ret_len)
{
    const struct known_encoding *encoding = find_encoding(entity);
    struct span body = entity->body;
    GMimeEncoding state;
    if (encoding != NULL && encoding->encoding == GMIME_CONTENT_ENCODING_UUENCODE)
        body = skip_to_uuencoded(body);
    if (encoding != NULL)
        g_mime_encoding_init_decode(&state, encoding->encoding);
    char *bytes = malloc((encoding != NULL ? g_mime_encoding_outlen(&state, body.len) : body.len) + 1);
    if (bytes == NULL)
        return -ENOMEM;
    size_t len = body.len;
    if (encoding != NULL)
        len = g_mime_encoding_flush(&state, body.bytes, body.len, bytes);
    else if (len > 0)
        memcpy(bytes, body.bytes, len);
    bytes[len] = '\0';
    *ret_bytes = bytes;
    *ret_len = len;
    return 0;
}

/* At most so many bytes, whole characters. */
static void cut(char *text, size_t max_bytes)
{
    text[character_cut(text, strlen(text), max_bytes)] = '\0';
}

/* UTF-8 with LF line ends. A NUL, which no text can hold, is left out. */
static int read_text(const struct entity *entity, char **ret_text)
{
    _cleanup_free_ char *bytes = NULL;
    _cleanup_free_ char *charset = NULL;
    size_t len = 0;
    int error = decode(entity, &bytes, &len);
    if (error == 0)
        error = read_parameter(entity->header, "Content-Type", "charset", &charset);
    if (error != 0)
        return error;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SIZE_MAX / 2);
    error = charset_append(&text, charset != NULL ? charset : "", charset != NULL ? strlen(charset) : 0,
                           bytes, len, CHARSET_REPLACE);
    if (error != 0)
        return error;
    size_t kept = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool is_line_end = text.data[i] == '\r' && i + 1 < text.len && text.data[i + 1] == '\n';
        if (!is_line_end && text.data[i] != '\0')
            text.data[kept++] = text.data[i];
    }
    strbuf_truncate(&text, kept);
    *ret_text = strdup(strbuf_str(&text));
    if (*ret_text == NULL)
        return -ENOMEM;
    cut(*ret_text, DRAFT_BODY_MAX_BYTES);
    return 0;
}

/* ---- parts */

/* *ret_name is NULL where the part names no file. The caller frees. 0 or -ENOMEM. */
static int read_file_name(const struct entity *entity, char **ret_name)
{
    int error = read_parameter(entity->header, "Content-Disposition", "filename", ret_name);
    if (error == 0 && *ret_name == NULL)
        error = read_parameter(entity->header, "Content-Type", "name", ret_name);
    if (*ret_name == NULL)
        return error;
    character_replace(*ret_name, CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION, '_');
    char *name = file_name_shortened(*ret_name, NAME_MAX_BYTES);
    free(*ret_name);
    *ret_name = name;
    return name != NULL ? 0 : -ENOMEM;
}

static int list_attachment(struct message *message, const struct entity *entity, const char *file_name)
{
    size_t count = message->attachments_len;
    if (count == ATTACHMENTS_MAX)
        return 0;
    struct message_attachment *list = realloc(message->attachments, (count + 1) * sizeof(*list));
    if (list == NULL)
        return -ENOMEM;
    message->attachments = list;
    struct message_attachment *attachment = &list[message->attachments_len++];
    const struct known_encoding *encoding = find_encoding(entity);
    *attachment = (struct message_attachment){.name = NULL,
                                              .content_type = strdup(entity->type),
                                              .encoding = encoding != NULL ? encoding->name : NULL};
    bool is_message = strcmp(entity->type, "message/rfc822") == 0;
    if (file_name != NULL && file_name[0] != '\0')
        attachment->name = strdup(file_name);
    else if (asprintf(&attachment->name, "attachment-%zu%s", count + 1, is_message ? ".eml" : "") < 0)
        attachment->name = NULL;
    if (attachment->name == NULL || attachment->content_type == NULL)
        return -ENOMEM;
    return random_uuid(attachment->id);
}

/* 1: what was wanted is there. */
static int read_attachment(struct message_reading *reading, const struct entity *entity,
                           const char *file_name)
{
    size_t index = reading->attachments_len++;
    if (reading->message != NULL)
        return list_attachment(reading->message, entity, file_name);
    if (index != reading->wanted)
        return 0;
    int error = decode(entity, &reading->bytes, &reading->bytes_len);
    return error != 0 ? error : 1;
}

static int read_leaf(struct message_reading *reading, const struct entity *entity)
{
    _cleanup_free_ char *file_name = NULL;
    int error = read_file_name(entity, &file_name);
    if (error != 0)
        return error;
    bool is_file = is_word(first_word(find_field(entity->header, "Content-Disposition")), "attachment") ||
                   (file_name != NULL && entity->depth > 0);
    if (!is_file && !reading->has_plain && strcmp(entity->type, "text/plain") == 0) {
        reading->has_plain = true;
        reading->plain_in = entity->alternative;
        return reading->message != NULL ? read_text(entity, &reading->message->plain_text) : 0;
    }
    if (!is_file && !reading->has_html && strcmp(entity->type, "text/html") == 0) {
        reading->has_html = true;
        reading->html_in = entity->alternative;
        return reading->message != NULL ? read_text(entity, &reading->message->html) : 0;
    }
    return read_attachment(reading, entity, file_name);
}

static int read_entity(struct message_reading *reading, struct span text, const struct entity *around);

enum boundary_line {
    LINE_IS_TEXT,
    LINE_BEGINS_PART,
    LINE_ENDS_MULTIPART,
};

/* RFC 2046 section 5.1.1: "--", the boundary, "--" if it is the last one, blanks. */
static enum boundary_line find_boundary(struct span line, const char *boundary, size_t boundary_len)
{
    if (line.len < 2 + boundary_len || line.bytes[0] != '-' || line.bytes[1] != '-' ||
        memcmp(line.bytes + 2, boundary, boundary_len) != 0)
        return LINE_IS_TEXT;
    skip(&line, 2 + boundary_len);
    bool is_last = line.len >= 2 && line.bytes[0] == '-' && line.bytes[1] == '-';
    for (skip(&line, is_last ? 2 : 0); line.len > 0; skip(&line, 1)) {
        if (!g_ascii_isspace(line.bytes[0]))
            return LINE_IS_TEXT;
    }
    return is_last ? LINE_ENDS_MULTIPART : LINE_BEGINS_PART;
}

/* The line end before a boundary belongs to the boundary. */
static struct span part_before(const char *begin, const char *boundary)
{
    size_t len = (size_t)(boundary - begin);
    len -= len > 0;
    len -= len > 0 && begin[len - 1] == '\r';
    return (struct span){begin, len};
}

/* A multipart that is cut off ends with its text. `ret_parts`: how many there were. */
static int read_parts(struct message_reading *reading, const struct entity *entity, const char *boundary,
                      size_t *ret_parts)
{
    struct span rest = entity->body;
    enum boundary_line found = LINE_IS_TEXT;
    const char *begin = NULL; /* of the part whose end is looked for */
    size_t boundary_len = strlen(boundary);
    int result = 0;
    while (rest.len > 0 && boundary_len > 0 && found != LINE_ENDS_MULTIPART && result == 0) {
        struct span line = {rest.bytes, line_len(rest)};
        skip(&rest, line.len);
        found = find_boundary(line, boundary, boundary_len);
        if (found == LINE_IS_TEXT)
            continue;
        if (begin != NULL && begin < line.bytes) {
            ++*ret_parts;
            result = read_entity(reading, part_before(begin, line.bytes), entity);
        }
        begin = rest.bytes;
    }
    if (result != 0 || begin == NULL || found == LINE_ENDS_MULTIPART || begin == rest.bytes)
        return result;
    ++*ret_parts;
    return read_entity(reading, (struct span){begin, (size_t)(rest.bytes - begin)}, entity);
}

/* One without parts is text, if there is any: the parts of some stand behind it, with its boundary. */
static int read_multipart(struct message_reading *reading, struct entity *entity)
{
    _cleanup_free_ char *boundary = NULL;
    int result = read_parameter(entity->header, "Content-Type", "boundary", &boundary);
    if (result != 0)
        return result;
    size_t parts = 0;
    result = read_parts(reading, entity, boundary != NULL ? g_strchomp(boundary) : "", &parts);
    if (result != 0 || parts > 0)
        return result;
    struct span rest = entity->body;
    while (rest.len > 0 && g_ascii_isspace(rest.bytes[0]))
        skip(&rest, 1);
    strcpy(entity->type, "text/plain");
    return rest.len > 0 ? read_leaf(reading, entity) : 0;
}

/* 0: go on, 1: nothing more is wanted, or -errno. `around`: NULL for the whole message. */
static int read_entity(struct message_reading *reading, struct span text, const struct entity *around)
{
    if (reading->parts_len++ == PARTS_MAX)
        return 1;
    struct entity entity = {0};
    const char *default_type = "text/plain";
    if (around != NULL) {
        entity.depth = around->depth + 1;
        bool is_alternative = strcmp(around->type, "multipart/alternative") == 0;
        entity.alternative = is_alternative ? around->body.bytes : around->alternative;
        if (strcmp(around->type, "multipart/digest") == 0)
            default_type = "message/rfc822";
    }
    take_apart(text, &entity.header, &entity.body);
    read_type(&entity, default_type);
    bool is_multipart = strncmp(entity.type, "multipart/", 10) == 0 && entity.depth < NESTING_MAX;
    return is_multipart ? read_multipart(reading, &entity) : read_leaf(reading, &entity);
}

int message_read_attachment(const char *raw, size_t len, size_t index, char **ret_bytes, size_t *ret_len)
{
    struct message_reading reading = {.wanted = index};
    int result = read_entity(&reading, (struct span){raw, len}, NULL);
    if (reading.bytes == NULL)
        return result < 0 ? result : -ENOENT;
    *ret_bytes = reading.bytes;
    *ret_len = reading.bytes_len;
    return 0;
}

/* ---- headers */

/* One line for a record. */
static int read_line(struct span value, char **ret_text)
{
    int error = header_text_decode(value.bytes, decoded_len(value), ret_text);
    if (error != 0)
        return error;
    character_replace(*ret_text, CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION, ' ');
    cut(*ret_text, LINE_MAX_BYTES);
    return 0;
}

/* Up to the next comma that is in no string, comment or bracket; or with a ";", which may end a group. */
static size_t list_item_len(struct span list)
{
    bool is_quoted = false;
    int depth = 0;
    for (size_t i = 0; i < list.len; i++) {
        char c = list.bytes[i];
        if (c == '\\')
            i++;
        else if (c == '"')
            is_quoted = !is_quoted;
        else if (!is_quoted && (c == '(' || c == '<'))
            depth++;
        else if (!is_quoted && (c == ')' || c == '>') && depth > 0)
            depth--;
        else if (!is_quoted && depth == 0 && (c == ',' || c == ';'))
            return i + (c == ';');
    }
    return list.len;
}

/* Adds what is no address as it stands, so that nobody who answers leaves somebody out without knowing. Made
 * fit to be shown, it must not read as an address: then a U+FFFD, which no address has, stands behind it. */
static int add_unreadable(const char *item, json_t *others)
{
    g_autofree char *text = g_utf8_make_valid(item, -1);
    character_replace(text, CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION, ' ');
    g_strstrip(text);
    cut(text, NAME_MAX_BYTES);
    struct address_list readable = {0};
    int error = address_list_parse(&readable, text, NULL);
    address_list_release(&readable);
    if (error == -ENOMEM)
        return error;
    json_t *address = json_pack("{s:s+, s:n}", "address", text, error == 0 ? "\uFFFD" : "", "name");
    return json_array_append_new(others, address) == 0 ? 0 : -ENOMEM;
}

/* A list that cannot be read whole: the addresses that can be read, and in `others` what is none. */
static int read_damaged_list(struct span list, struct address_list *addresses, json_t *others)
{
    while (list.len > 0 && addresses->len + json_array_size(others) < ADDRESS_LIST_MAX) {
        size_t len = list_item_len(list);
        _cleanup_free_ char *item = strndup(list.bytes, len);
        if (item == NULL)
            return -ENOMEM;
        int error = address_list_parse_first(addresses, item);
        if (error == -EBADMSG)
            error = add_unreadable(item, others);
        if (error != 0)
            return error;
        skip(&list, len);
        skip(&list, list.len > 0 && list.bytes[0] == ',');
    }
    return 0;
}

static int add_readable(struct address_list *addresses, json_t *list)
{
    for (size_t i = 0; i < addresses->len; i++) {
        const struct address *address = &addresses->items[i];
        if (address->name != NULL) {
            character_replace(address->name, CHARACTER_LINE_END | CHARACTER_DIRECTION, ' ');
            cut(address->name, NAME_MAX_BYTES);
        }
        json_t *readable = json_pack("{s:s, s:s?}", "address", address->address, "name", address->name);
        if (json_array_append_new(list, readable) != 0)
            return -ENOMEM;
    }
    return 0;
}

/* All fields of that name as two lists: the addresses, and what is none, in the same form; of each at most
 * ADDRESS_LIST_MAX, however many fields there are. The caller owns both. 0 or -ENOMEM. */
static int read_addresses(struct span header, const char *field, json_t **ret_list, json_t **ret_others)
{
    struct address_list addresses = {0};
    struct span value;
    *ret_list = json_array();
    *ret_others = json_array();
    int error = *ret_list != NULL && *ret_others != NULL ? 0 : -ENOMEM;
    while (error == 0 && addresses.len + json_array_size(*ret_others) < ADDRESS_LIST_MAX &&
           find_next(&header, field, &value)) {
        _cleanup_free_ char *text = strndup(value.bytes, value.len);
        error = text != NULL ? address_list_parse_first(&addresses, text) : -ENOMEM;
        if (error == -EBADMSG)
            error = read_damaged_list((struct span){text, strlen(text)}, &addresses, *ret_others);
    }
    if (error == 0)
        error = add_readable(&addresses, *ret_list);
    address_list_release(&addresses);
    return error;
}

/* The addresses of these fields, and behind them what stands there and is none. */
static int read_recipients(struct span header, const char *field, json_t **ret_list)
{
    json_t *others = NULL;
    int error = read_addresses(header, field, ret_list, &others);
    for (size_t i = 0;
         error == 0 && i < json_array_size(others) && json_array_size(*ret_list) < ADDRESS_LIST_MAX; i++)
        error = json_array_append(*ret_list, json_array_get(others, i)) == 0 ? 0 : -ENOMEM;
    json_decref(others);
    return error;
}

/* Takes "<…@…>" off the value; NULL: there is none any more. What could not stand in a header of a reply is
 * none. The caller frees. */
static char *take_message_id(struct span *value)
{
    const char *begin = NULL;
    while (value->len > 0) {
        char c = value->bytes[0];
        if (c == '<')
            begin = value->bytes;
        else if (!g_ascii_isgraph(c))
            begin = NULL;
        skip(value, 1);
        size_t len = begin != NULL ? (size_t)(value->bytes - begin) : 0;
        if (c == '>' && len > 2 && len <= MESSAGE_ID_MAX_BYTES)
            return strndup(begin, len);
        if (c == '>')
            begin = NULL;
    }
    return NULL;
}

/* Of many, the first and the newest are kept. */
static int read_references(struct span value, struct message *message)
{
    message->references = json_array();
    char *id;
    while ((id = take_message_id(&value)) != NULL) {
        int result = json_array_append_new(message->references, json_string(id));
        free(id);
        if (result != 0)
            return -ENOMEM;
        if (json_array_size(message->references) > MESSAGE_REFERENCES_MAX)
            json_array_remove(message->references, 1);
    }
    return message->references != NULL ? 0 : -ENOMEM;
}

static int read_sender(struct span header, struct message *message)
{
    static const char *const fields[] = {"From", "Sender"};
    int error = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields) && error == 0 && message->from == NULL; i++) {
        json_t *list = NULL, *others = NULL;
        error = read_addresses(header, fields[i], &list, &others);
        message->from = json_incref(json_array_get(list, 0));
        json_decref(list);
        json_decref(others);
    }
    struct span from = find_field(header, "From");
    return error == 0 && message->from == NULL && from.len > 0 ? read_line(from, &message->sender_text)
                                                               : error;
}

/* Milliseconds since 1970; 0: there is none that can be understood. */
static int64_t read_date(struct span value)
{
    int64_t ms = 0;
    return date_parse_header(value.bytes, value.len, &ms) == 0 ? ms : 0;
}

static int read_headers(struct span header, struct message *message)
{
    struct span id = find_field(header, "Message-ID");
    struct span in_reply_to = find_field(header, "In-Reply-To");
    message->message_id = take_message_id(&id);
    message->in_reply_to = take_message_id(&in_reply_to);
    message->date_ms = read_date(find_field(header, "Date"));
    message->bcc = json_array();
    int error = read_references(find_field(header, "References"), message);
    if (error == 0)
        error = read_line(find_field(header, "Subject"), &message->subject);
    if (error == 0)
        error = read_sender(header, message);
    if (error == 0)
        error = read_recipients(header, "To", &message->to);
    if (error == 0)
        error = read_recipients(header, "Cc", &message->cc);
    if (error == 0)
        error = read_recipients(header, "Reply-To", &message->reply_to);
    return error;
}

int message_read(const char *raw, size_t len, struct message *message)
{
    struct span header, body;
    struct message_reading reading = {.message = message, .wanted = SIZE_MAX};
    take_apart((struct span){raw, len}, &header, &body);
    int error = read_headers(header, message);
    if (error == 0)
        error = read_entity(&reading, (struct span){raw, len}, NULL);
    message->alternative_content = reading.html_in != NULL && reading.html_in == reading.plain_in;
    return error < 0 ? error : 0;
}
