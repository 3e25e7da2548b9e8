/* SPDX-License-Identifier: MIT */
/*
 * Drafts: tells the two forms apart, checks what both have in common, writes the request.
 */
#include "mail/draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/draft_reading.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"
#include "mail/reason.h"

enum {
    REQUEST_MAX_BYTES = 40 * 1000 * 1000
};

int string_list_append(struct string_list *list, const char *text)
{
    char **items = realloc(list->items, (list->len + 1) * sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    list->items = items;
    items[list->len] = strdup(text);
    if (items[list->len] == NULL)
        return -ENOMEM;
    list->len++;
    return 0;
}

static void strings_free(char **items, size_t len)
{
    for (size_t i = 0; i < len; i++)
        free(items[i]);
    free(items);
}

static void parts_free(struct draft_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        free(parts[i].name);
        free(parts[i].content_type);
        free(parts[i].bytes);
    }
    free(parts);
}

int draft_append_part(struct draft_reading *reading, const char *name, const char *content_type, char *bytes,
                      size_t len)
{
    struct draft_part *parts = realloc(reading->parts, (reading->parts_len + 1) * sizeof(*parts));
    if (parts == NULL) {
        free(bytes);
        return -ENOMEM;
    }
    reading->parts = parts;
    struct draft_part *part = &parts[reading->parts_len++];
    *part = (struct draft_part){strdup(name), strdup(content_type), bytes, len};
    return part->name == NULL || part->content_type == NULL ? -ENOMEM : 0;
}

void draft_reading_release(struct draft_reading *reading)
{
    free(reading->from);
    address_list_release(&reading->to);
    address_list_release(&reading->cc);
    address_list_release(&reading->bcc);
    address_list_release(&reading->reply_to);
    free(reading->subject);
    free(reading->plain_text);
    free(reading->html);
    free(reading->existing_email_id);
    free(reading->message_type);
    strings_free(reading->attachment_ids.items, reading->attachment_ids.len);
    strings_free(reading->attachment_names.items, reading->attachment_names.len);
    parts_free(reading->parts, reading->parts_len);
    *reading = (struct draft_reading){.ret_reason = reading->ret_reason};
}

void draft_free(struct draft *draft)
{
    if (draft == NULL)
        return;
    free(draft->from);
    free(draft->request);
    strings_free(draft->attachment_names, draft->attachment_names_len);
    parts_free(draft->parts, draft->parts_len);
    free(draft);
}

static bool body_is_too_large(const char *body)
{
    return body != NULL && strlen(body) > DRAFT_BODY_MAX_BYTES;
}

int draft_refuse_recipients(struct draft_reading *reading)
{
    return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d recipients", DRAFT_RECIPIENTS_MAX);
}

/* What holds for a message in either form. */
static int check_whole(struct draft_reading *reading)
{
    size_t recipients = reading->to.len + reading->cc.len + reading->bcc.len;
    if (recipients == 0)
        return reason_give(reading->ret_reason, -EDESTADDRREQ, "no recipient: no To, Cc or Bcc");
    if (recipients + reading->reply_to.len > DRAFT_RECIPIENTS_MAX)
        return draft_refuse_recipients(reading);
    if (body_is_too_large(reading->plain_text) || body_is_too_large(reading->html))
        return reason_give(reading->ret_reason, -EMSGSIZE, "the text is larger than %d bytes",
                           DRAFT_BODY_MAX_BYTES);
    if (reading->attachment_ids.len + reading->attachment_names.len + reading->parts_len > ATTACHMENTS_MAX)
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d attachments", ATTACHMENTS_MAX);

    size_t bytes = 0;
    for (size_t i = 0; i < reading->parts_len; i++)
        bytes += reading->parts[i].len;
    if (bytes > ATTACHMENTS_MAX_BYTES)
        return reason_give(reading->ret_reason, -EMSGSIZE,
                           "the attachments are larger than %d bytes together", ATTACHMENTS_MAX_BYTES);
    return 0;
}

static void write_addresses(struct json_writer *writer, const char *key, const struct address_list *list)
{
    json_key(writer, key);
    json_begin_array(writer);
    for (size_t i = 0; i < list->len; i++) {
        json_begin_object(writer);
        json_member_string(writer, "address", list->items[i].address);
        json_member_string(writer, "name", list->items[i].name);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_addresses_if_any(struct json_writer *writer, const char *key,
                                   const struct address_list *list)
{
    if (list->len > 0)
        write_addresses(writer, key, list);
}

static void write_ids(struct json_writer *writer, const char *const *ids, size_t len)
{
    for (size_t i = 0; i < len; i++)
        json_write_string(writer, ids[i]);
}

static void write_fields(const struct draft_reading *reading, struct json_writer *writer)
{
    write_addresses(writer, "to_addresses", &reading->to);
    write_addresses_if_any(writer, "cc_addresses", &reading->cc);
    write_addresses_if_any(writer, "bcc_addresses", &reading->bcc);
    write_addresses_if_any(writer, "reply_to_addresses", &reading->reply_to);
    if (reading->subject != NULL || reading->message_type == NULL)
        json_member_string(writer, "subject", reading->subject == NULL ? "" : reading->subject);
    json_member_string(writer, "plain_text", reading->plain_text == NULL ? "" : reading->plain_text);
    if (reading->html != NULL && reading->html[0] != '\0') {
        json_member_string(writer, "html", reading->html);
        json_member_boolean(writer, "alternative_content", reading->alternative_content);
    }
    if (reading->message_type != NULL) {
        json_member_string(writer, "existing_email_id", reading->existing_email_id);
        json_member_string(writer, "message_type", reading->message_type);
    }
    if (reading->attachment_ids.len > 0) {
        json_key(writer, "attachment_ids");
        json_begin_array(writer);
        write_ids(writer, (const char *const *)reading->attachment_ids.items, reading->attachment_ids.len);
        json_end_array(writer);
    }
}

static int write_request(const struct draft_reading *reading, char **ret_request)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(REQUEST_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &text, 0);
    json_begin_object(&writer);
    write_fields(reading, &writer);
    json_end_object(&writer);
    if (text.error == -EMSGSIZE)
        return reason_give(reading->ret_reason, -EMSGSIZE, "the message is too large to be sent");
    *ret_request = strbuf_take(&text, NULL);
    return *ret_request == NULL ? -ENOMEM : 0;
}

/* jansson takes a hundred bytes and more for each value, which can be three bytes long. */
static bool has_too_many_values(const char *json, size_t len)
{
    size_t values = 1;
    bool is_quoted = false;
    for (size_t i = 0; i < len && values <= DRAFT_JSON_VALUES_MAX; i++) {
        if (is_quoted && json[i] == '\\')
            i++;
        else if (json[i] == '"')
            is_quoted = !is_quoted;
        else
            values += !is_quoted && json[i] == ',';
    }
    return values > DRAFT_JSON_VALUES_MAX;
}

static int read_message(struct draft_reading *reading, const char *bytes, size_t len, const char *answered)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    if (len > DRAFT_MAX_BYTES)
        return reason_give(reading->ret_reason, -EMSGSIZE, "the message is larger than %d bytes",
                           DRAFT_MAX_BYTES);
    if (len > 0 && memchr(bytes, '\0', len) != NULL)
        return reason_give(reading->ret_reason, -EBADMSG, "not a message: it holds a NUL byte");
    if (len >= 3 && memcmp(bytes, byte_order_mark, 3) == 0) {
        bytes += 3;
        len -= 3;
    }

    size_t blank = 0;
    while (blank < len && strchr(" \t\r\n", bytes[blank]) != NULL)
        blank++;
    if (blank == len)
        return reason_give(reading->ret_reason, -EBADMSG, "not a message: it is empty");
    if (bytes[blank] == '{' && has_too_many_values(bytes, len))
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d values", DRAFT_JSON_VALUES_MAX);
    if (answered != NULL)
        return draft_read_answer(reading, bytes, len, answered);
    return bytes[blank] == '{' ? draft_read_json(reading, bytes, len) : draft_read_mime(reading, bytes, len);
}

/* Hands over what the draft keeps of what was read. */
static int make_draft(struct draft_reading *reading, struct draft **ret_draft)
{
    struct draft *draft = calloc(1, sizeof(*draft));
    if (draft == NULL)
        return -ENOMEM;
    int error = write_request(reading, &draft->request);
    if (error != 0) {
        draft_free(draft);
        return error;
    }
    draft->from = TAKE_PTR(reading->from);
    draft->attachment_names = TAKE_PTR(reading->attachment_names.items);
    draft->attachment_names_len = reading->attachment_names.len;
    reading->attachment_names.len = 0;
    draft->parts = TAKE_PTR(reading->parts);
    draft->parts_len = reading->parts_len;
    reading->parts_len = 0;
    *ret_draft = draft;
    return 0;
}

int draft_parse_answer(const char *bytes, size_t len, const char *answered, struct draft **ret_draft,
                       char **ret_reason)
{
    *ret_reason = NULL;
    _cleanup_(draft_reading_release) struct draft_reading reading = {.ret_reason = ret_reason};
    int error = read_message(&reading, bytes, len, answered);
    if (error == 0)
        error = check_whole(&reading);
    return error != 0 ? error : make_draft(&reading, ret_draft);
}

int draft_parse(const char *bytes, size_t len, struct draft **ret_draft, char **ret_reason)
{
    return draft_parse_answer(bytes, len, NULL, ret_draft, ret_reason);
}

int draft_complete_request(const struct draft *draft, const char *from, const char *const *attachment_ids,
                           size_t attachment_ids_len, char **ret_request)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * REQUEST_MAX_BYTES);
    _cleanup_json_ json_t *request = json_loads(draft->request, 0, NULL);
    if (request == NULL)
        return -ENOMEM; /* it was written here, so it is JSON */

    struct json_writer writer;
    const char *key;
    json_t *value;
    json_writer_init(&writer, &text, 0);
    json_begin_object(&writer);
    json_member_string(&writer, "from_address", from);
    json_object_foreach (request, key, value) {
        if (strcmp(key, "attachment_ids") == 0)
            continue;
        json_key(&writer, key);
        json_value_write(value, &writer);
    }

    const json_t *ids = json_object_get(request, "attachment_ids");
    if (json_array_size(ids) + attachment_ids_len > 0) {
        json_key(&writer, "attachment_ids");
        json_begin_array(&writer);
        for (size_t i = 0; i < json_array_size(ids); i++)
            json_value_write(json_array_get(ids, i), &writer);
        write_ids(&writer, attachment_ids, attachment_ids_len);
        json_end_array(&writer);
    }
    json_end_object(&writer);
    *ret_request = strbuf_take(&text, NULL);
    return *ret_request == NULL ? -ENOMEM : 0;
}
