/* SPDX-License-Identifier: MIT */
/*
 * The values of messages, and the reading of their text. message_text.c writes the text.
 */
#include "service/message.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <limits.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/date.h"
#include "mail/draft.h"
#include "mail/header_date.h"
#include "mail/header_text.h"
#include "mail/html_text.h"
#include "mail/json_writer.h"
#include "mail/message_id.h"
#include "mail/mime.h"
#include "mail/mime_text.h"

/* ---------------------------------------------------------------- values and records */

void message_release(struct message *message)
{
    free(message->message_id);
    json_decref(message->in_reply_to);
    json_decref(message->references);
    json_decref(message->from);
    json_decref(message->authors);
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
        free(message->attachments[i].content_id);
        free(message->attachments[i].bytes);
    }
    free(message->attachments);
    free(message->forwarded);
    free(message->header);
    free(message->search_text);
    free(message->written);
    *message = (struct message){0};
}

char *message_ascii_address(const char *address)
{
    InternetAddress *mailbox = internet_address_mailbox_new(NULL, address);
    char *ascii = g_strdup(internet_address_mailbox_get_idn_addr(INTERNET_ADDRESS_MAILBOX(mailbox)));
    g_object_unref(mailbox);
    return ascii;
}

void message_make_id(struct message *message, const char *domain)
{
    char id[37];
    random_uuid(id);
    g_autofree char *address = g_strdup_printf("%s@%s", id, domain);
    g_autofree char *ascii = message_ascii_address(address);
    message->message_id = g_strdup_printf("<%s>", ascii);
}

json_t *message_attachment_records(const struct message *message)
{
    json_t *list = json_array();
    for (size_t i = 0; i < message->attachments_len; i++) {
        const struct message_attachment *attachment = &message->attachments[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s?, s:s?}", "id", attachment->id, "filename",
                                              attachment->name, "content_type", attachment->content_type,
                                              "content_encoding", attachment->encoding, "content_id",
                                              attachment->content_id));
    }
    if (message->forwarded != NULL)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:n, s:n}", "id", message->forwarded_id,
                                              "filename", "forwarded.eml", "content_type", "message/rfc822",
                                              "content_encoding", "content_id"));
    return list;
}

static char *write_header(const struct message *message)
{
    char date[32];
    date_format(message->date_ms, date);
    _cleanup_json_ json_t *header =
        json_pack("{s:s, s:s, s:O, s:O, s:O, s:O, s:s, s:s?, s:O?, s:b, s:o}", "subject", message->subject,
                  "date", date, "from_address", message->from, "to_addresses", message->to, "cc_addresses",
                  message->cc, "reply_to_addresses", message->reply_to, "message_id", message->message_id,
                  "in_reply_to_id", json_string_value(json_array_get(message->in_reply_to, 0)), "references",
                  message->references, "alternative_content", message->alternative_content, "attachments",
                  message_attachment_records(message));
    return json_dumps(header, JSON_COMPACT);
}

char *message_search_text(const struct message *message)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SIZE_MAX / 2);
    strbuf_append_str(&text, message->subject);
    for (size_t i = 0; i < message->attachments_len; i++)
        strbuf_appendf(&text, "\n%s", message->attachments[i].name);
    if (message->plain_text != NULL)
        strbuf_appendf(&text, "\n%s", message->plain_text);
    if (message->html != NULL) {
        strbuf_append_char(&text, '\n');
        html_to_text(&text, message->html, strlen(message->html));
    }
    return g_utf8_casefold(strbuf_str(&text), -1);
}

void message_make_columns(struct message *message)
{
    message->header = write_header(message);
    message->search_text = message_search_text(message);
}

void message_compose(struct message *message, const char *domain)
{
    message->date_ms = clock_realtime_ms(clock_system());
    message_make_id(message, domain);
    message_make_columns(message);
    message->raw = message->written = message_write(message, &message->raw_len);
}

/* ---------------------------------------------------------------- reading */

enum {
    LINE_MAX_BYTES = 8192,       /* of a header's decoded text in a record; the rest is cut off */
    VALUE_MAX_BYTES = 64 * 1024, /* of a header that are decoded; the rest is ignored */
    NAME_MAX_BYTES = 255,
};

/* The same visitor reads a whole message or one attachment, so that both count attachments alike. */
struct message_reading {
    struct message *message; /* to be filled; NULL if only an attachment is wanted */
    struct mime_texts texts;
    size_t skipped; /* attachments before the wanted one */
    char *bytes;    /* content of the wanted attachment */
    size_t bytes_len;
};

/* Makes blanks of the characters of these kinds, and cuts the text. */
static void make_line(char *text, unsigned int kinds, size_t max_bytes)
{
    character_replace(text, kinds, ' ');
    text[character_cut(text, strlen(text), max_bytes)] = '\0';
}

/* A first line that begins with ">From " was the "From " line of an mbox before a program quoted it. */
static struct span skip_mbox_line(const char *raw, size_t len)
{
    struct span text = {raw, len};
    if (span_begins_with(text, ">From "))
        mime_take_line(&text);
    return text;
}

/* ---- parts */

static void add_attachment(struct message *message, const struct mime_entity *part)
{
    size_t count = message->attachments_len;
    if (count == ATTACHMENTS_MAX)
        return;
    message->attachments = g_renew(struct message_attachment, message->attachments, count + 1);
    struct message_attachment *attachment = &message->attachments[message->attachments_len++];
    struct span content_id = mime_find_field(part->header, "Content-ID");
    *attachment = (struct message_attachment){
        .name = mime_name_file(part, count + 1),
        .content_type = g_strdup(part->type),
        .encoding = mime_encoding_name(part->header),
        .content_id = message_id_first(content_id.bytes, content_id.len),
    };
    random_uuid(attachment->id);
}

/* Returns 1 if it has read the wanted attachment. */
static int read_leaf(void *context, const struct mime_entity *leaf, enum mime_role role)
{
    struct message_reading *reading = context;
    if (role == MIME_ATTACHMENT && reading->message != NULL) {
        add_attachment(reading->message, leaf);
        return 0;
    }
    if (role == MIME_ATTACHMENT) {
        if (reading->skipped-- > 0)
            return 0;
        mime_decode(leaf, &reading->bytes, &reading->bytes_len, NULL);
        return 1;
    }
    if (reading->message == NULL)
        return 0;
    mime_texts_add(&reading->texts, leaf, role, NULL);
    return 0;
}

int message_read_attachment(const char *raw, size_t len, size_t index, char **ret_bytes, size_t *ret_len)
{
    struct message_reading reading = {.skipped = index};
    const struct mime_visitor visitor = {.context = &reading, .leaf = read_leaf};
    mime_read(skip_mbox_line(raw, len), &visitor);
    if (reading.bytes == NULL)
        return -ENOENT;
    *ret_bytes = reading.bytes;
    *ret_len = reading.bytes_len;
    return 0;
}

/* ---- headers */

static char *read_line(struct span value)
{
    size_t len = value.len < VALUE_MAX_BYTES ? value.len : VALUE_MAX_BYTES;
    char *text = header_text_decode(value.bytes, len);
    make_line(text, CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION, LINE_MAX_BYTES);
    return text;
}

/* Makes an address of a text that is none, so that a reply to all includes the text. If replaced characters
 * make the text look like an address, a U+FFFD is added, which no address has. */
static json_t *make_other(const char *item)
{
    g_autofree char *text = g_utf8_make_valid(item, -1);
    character_replace(text, CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION, ' ');
    make_line(g_strstrip(text), 0, NAME_MAX_BYTES);
    struct address_list readable = {0};
    bool is_address = address_list_parse(&readable, text, NULL, NULL) == 0;
    address_list_release(&readable);
    return json_pack("{s:s+, s:n}", "address", text, is_address ? "\uFFFD" : "", "name");
}

/* Lists the addresses in all fields of this name, and behind them the texts that are not addresses. */
static json_t *read_addresses(struct span header, const char *field)
{
    _cleanup_(address_list_release) struct address_list addresses = {0};
    g_autoptr(GPtrArray) others = g_ptr_array_new_with_free_func(g_free);
    json_t *list = json_array();
    struct span value;
    while (mime_next_field(&header, field, &value)) {
        g_autofree char *text = g_strndup(value.bytes, value.len);
        address_list_parse_each(&addresses, text, others);
    }
    for (size_t i = 0; i < addresses.len; i++) {
        struct address *address = &addresses.items[i];
        if (address->name != NULL)
            make_line(address->name, CHARACTER_LINE_END | CHARACTER_DIRECTION, NAME_MAX_BYTES);
        json_array_append_new(list,
                              json_pack("{s:s, s:s?}", "address", address->address, "name", address->name));
    }
    for (unsigned int i = 0; i < others->len; i++)
        json_array_append_new(list, make_other(others->pdata[i]));
    return list;
}

/* Lists the Message-IDs in a field, except those that are not ASCII, which a reply could not repeat. If there
 * are too many, keeps the first and the newest. */
static json_t *read_message_ids(struct span header, const char *field)
{
    struct span value = mime_find_field(header, field);
    g_auto(GStrv) ids = message_id_list(value.bytes, value.len);
    json_t *list = json_array();
    for (size_t i = 0; ids[i] != NULL; i++) {
        if (g_str_is_ascii(ids[i]))
            json_array_append_new(list, json_sprintf("<%s>", ids[i]));
        if (json_array_size(list) > MESSAGE_REFERENCES_MAX)
            json_array_remove(list, 1);
    }
    return list;
}

static void read_sender(struct span header, struct message *message)
{
    _cleanup_json_ json_t *senders = read_addresses(header, "Sender");
    message->authors = read_addresses(header, "From");
    const json_t *const lists[] = {message->authors, senders};
    for (size_t i = 0; i < ARRAY_LEN(lists) && message->from == NULL; i++) {
        json_t *first = json_array_get(lists[i], 0);
        if (first != NULL && address_is_valid(json_string_value(json_object_get(first, "address"))))
            message->from = json_incref(first);
    }
    struct span from = mime_find_field(header, "From");
    if (message->from == NULL && from.len > 0)
        message->sender_text = read_line(from);
}

static void read_headers(struct span header, struct message *message)
{
    struct span date = mime_find_field(header, "Date");
    if (header_date_parse(date.bytes, date.len, &message->date_ms) != 0)
        message->date_ms = 0;
    _cleanup_json_ json_t *own_ids = read_message_ids(header, "Message-ID");
    message->message_id = g_strdup(json_string_value(json_array_get(own_ids, 0)));
    message->in_reply_to = read_message_ids(header, "In-Reply-To");
    message->references = read_message_ids(header, "References");
    message->subject = read_line(mime_find_field(header, "Subject"));
    read_sender(header, message);
    message->to = read_addresses(header, "To");
    message->cc = read_addresses(header, "Cc");
    message->bcc = json_array();
    message->reply_to = read_addresses(header, "Reply-To");
}

void message_read(const char *raw, size_t len, struct message *message)
{
    struct span header, body;
    struct span text = skip_mbox_line(raw, len);
    struct message_reading reading = {.message = message};
    const struct mime_visitor visitor = {.context = &reading, .leaf = read_leaf};
    message->raw = raw;
    message->raw_len = len;
    mime_split(text, &header, &body);
    read_headers(header, message);
    mime_read(text, &visitor);
    mime_texts_join(&reading.texts, DRAFT_BODY_MAX_BYTES, &message->plain_text, &message->html,
                    &message->alternative_content);
    mime_texts_release(&reading.texts);
}
