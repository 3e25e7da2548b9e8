/* SPDX-License-Identifier: MIT */
/*
 * draft_parse() works in three steps: it finds the form of the message, reads it into a `struct
 * draft_reading`, and checks the reading as a whole and writes it as a request.
 */
#include "mail/draft.h"

#include <errno.h>
#include <glib.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "mail/draft_reading.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"
#include "mail/reason.h"

enum {
    REQUEST_MAX_BYTES = 40 * 1000 * 1000,
};

/* ---- for both forms: the reading, reasons for refusals, lists of recipients */

static void free_parts(struct draft_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        free(parts[i].name);
        free(parts[i].content_type);
        free(parts[i].content_id);
        free(parts[i].bytes);
    }
    g_free(parts);
}

static void reading_init(struct draft_reading *reading, char **ret_reason)
{
    *reading = (struct draft_reading){
        .attachment_ids = g_ptr_array_new_null_terminated(0, g_free, true),
        .attachment_names = g_ptr_array_new_null_terminated(0, g_free, true),
        .in_reply_to = g_ptr_array_new_null_terminated(0, g_free, true),
        .references = g_ptr_array_new_null_terminated(0, g_free, true),
        .not_carried = g_ptr_array_new_null_terminated(0, g_free, true),
        .parts = g_array_new(false, false, sizeof(struct draft_part)),
        .ret_reason = ret_reason,
    };
}

static void reading_release(struct draft_reading *reading)
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
    g_ptr_array_unref(reading->attachment_ids);
    g_ptr_array_unref(reading->attachment_names);
    g_ptr_array_unref(reading->in_reply_to);
    g_ptr_array_unref(reading->references);
    g_ptr_array_unref(reading->not_carried);
    size_t parts_len = reading->parts->len;
    free_parts((struct draft_part *)(void *)g_array_free(reading->parts, false), parts_len);
    mime_texts_release(&reading->texts);
}

int draft_refuse_recipients(struct draft_reading *reading)
{
    return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d recipients", DRAFT_RECIPIENTS_MAX);
}

int draft_refuse_address(const struct draft_reading *reading, const char *path, const char *address)
{
    if (address == NULL)
        return reason_give(reading->ret_reason, -EBADMSG, "%s: not an email address", path);
    return reason_give(reading->ret_reason, -EBADMSG, "%s: not an email address: \"%.80s\"", path, address);
}

/* Returns true if `refused` is the beginning of a name whose comma lacks quotes: "Smith" in "Smith, John
 * <j@x.example>". */
static bool has_unquoted_comma(const char *text, const char *refused)
{
    const char *after = strstr(text, refused); /* NULL if the item was folded */
    if (after == NULL || strchr(refused, '@') != NULL)
        return false;
    after += strlen(refused);
    after += strspn(after, " \t\r\n");
    return *after == ',' && after[1 + strcspn(after + 1, "<,@")] == '<';
}

int draft_read_addresses(struct draft_reading *reading, const char *path, const char *text,
                         struct address_list *list)
{
    _cleanup_free_ char *refused = NULL;
    int error = address_list_parse(list, text, NULL, &refused);
    if (error == -EMSGSIZE)
        return draft_refuse_recipients(reading);
    if (error == -EBADMSG && has_unquoted_comma(text, refused))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "%s: not an email address: \"%.80s\"; a name with a comma needs quotes", path,
                           refused);
    return error == -EBADMSG ? draft_refuse_address(reading, path, refused) : error;
}

void draft_begin_list(struct draft_reading *reading, struct address_list *list)
{
    bool *is_default = list == &reading->to ? &reading->has_default_to : &reading->has_default_cc;
    if ((list != &reading->to && list != &reading->cc) || !*is_default)
        return;
    *is_default = false;
    address_list_release(list);
}

static size_t blank_len(const char *bytes, size_t len)
{
    size_t blank = 0;
    while (blank < len && character_is_blank(bytes[blank]))
        blank++;
    return blank;
}

/* ---- answers: fields of the user, completed by those of the answered email */

/* Reads an answer in either form, or a body alone. The JSON text `answered` is read first, and the fields of
 * the message replace its fields. The answer cannot name another email than `answered` does. */
static int read_answer(struct draft_reading *reading, const char *bytes, size_t len, const char *answered)
{
    reading->is_from_email = true;
    int error = draft_read_json(reading, answered, strlen(answered));
    reading->is_from_email = false;
    reading->is_answer = reading->has_default_to = reading->has_default_cc = true;
    g_autofree char *email_id = g_strdup(reading->existing_email_id);
    g_autofree char *type = g_strdup(reading->message_type);
    size_t blank = blank_len(bytes, len);
    bool is_json = blank < len && bytes[blank] == '{';
    if (error == 0)
        error = is_json ? draft_read_json(reading, bytes, len) : draft_read_answer_text(reading, bytes, len);
    if (error == 0 &&
        (g_strcmp0(email_id, reading->existing_email_id) != 0 || g_strcmp0(type, reading->message_type) != 0))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "existing_email_id, message_type: not those of the email answered here");
    return error;
}

/* Some editors begin a file with a byte order mark. */
static const char byte_order_mark[3] = "\xef\xbb\xbf";

static size_t byte_order_mark_len(const char *bytes, size_t len)
{
    bool has_mark =
        len >= sizeof(byte_order_mark) && memcmp(bytes, byte_order_mark, sizeof(byte_order_mark)) == 0;
    return has_mark ? sizeof(byte_order_mark) : 0;
}

/* An answer needs every recipient that the email names, so an unusable one is an error. */
static int refuse_unusable(struct draft_reading *reading)
{
    const char *to = reading->to.unusable;
    const char *cc = reading->cc.unusable;
    if (to == NULL && cc == NULL)
        return 0;
    return reason_give(
        reading->ret_reason, -EDESTADDRREQ,
        "the email names \"%.80s\", which is not an email address: a %s header has to say where "
        "this goes",
        to != NULL ? to : cc, to != NULL ? "To" : "Cc");
}

static int refuse_no_recipients(struct draft_reading *reading)
{
    return reason_give(reading->ret_reason, -EDESTADDRREQ, "no recipient: no To, Cc or Bcc");
}

/* Returns true if a text with this beginning may be JSON, or may begin with a header, whose name may be cut
 * off. Any other text is a body alone. */
static bool may_have_fields(const char *bytes, size_t len)
{
    size_t blank = blank_len(bytes, len);
    size_t name_len = 0;
    while (name_len < len && bytes[name_len] > ' ' && bytes[name_len] < 0x7f && bytes[name_len] != ':')
        name_len++;
    return blank == len || bytes[blank] == '{' || name_len == len || (name_len > 0 && bytes[name_len] == ':');
}

int draft_check_beginning(const char *bytes, size_t len, const char *answered, char **ret_reason)
{
    _cleanup_(reading_release) struct draft_reading from_email;
    reading_init(&from_email, ret_reason);
    from_email.is_from_email = true;
    bool may_be_mark = len < sizeof(byte_order_mark) && memcmp(bytes, byte_order_mark, len) == 0;
    size_t mark_len = byte_order_mark_len(bytes, len);
    *ret_reason = NULL;
    if (may_be_mark || may_have_fields(bytes + mark_len, len - mark_len))
        return 0;
    int error = draft_read_json(&from_email, answered, strlen(answered));
    error = error != 0 ? error : refuse_unusable(&from_email);
    bool has_recipient = from_email.to.len + from_email.cc.len > 0;
    return error == 0 && !has_recipient ? refuse_no_recipients(&from_email) : error;
}

/* ---- checks of both forms, and the request */

void draft_free(struct draft *draft)
{
    if (draft == NULL)
        return;
    free(draft->from);
    free(draft->request);
    g_strfreev(draft->not_carried);
    g_strfreev(draft->attachment_names);
    free_parts(draft->parts, draft->parts_len);
    g_strfreev(draft->message_ids);
    free(draft);
}

static bool body_is_too_large(const char *body)
{
    return body != NULL && strlen(body) > DRAFT_BODY_MAX_BYTES;
}

static int check_recipients_and_sizes(struct draft_reading *reading)
{
    size_t recipients = reading->to.len + reading->cc.len + reading->bcc.len;
    int error = refuse_unusable(reading);
    if (error != 0)
        return error;
    if (recipients == 0)
        return refuse_no_recipients(reading);
    if (recipients + reading->reply_to.len > DRAFT_RECIPIENTS_MAX)
        return draft_refuse_recipients(reading);
    if (body_is_too_large(reading->plain_text) || body_is_too_large(reading->html))
        return reason_give(reading->ret_reason, -EMSGSIZE, "the text is larger than %d bytes",
                           DRAFT_BODY_MAX_BYTES);
    if (reading->attachment_ids->len + reading->attachment_names->len + reading->parts->len > ATTACHMENTS_MAX)
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d attachments", ATTACHMENTS_MAX);

    size_t bytes = 0;
    for (unsigned int i = 0; i < reading->parts->len; i++)
        bytes += g_array_index(reading->parts, struct draft_part, i).len;
    if (bytes > ATTACHMENTS_MAX_BYTES)
        return reason_give(reading->ret_reason, -EMSGSIZE,
                           "the attachments are larger than %d bytes together", ATTACHMENTS_MAX_BYTES);
    return 0;
}

static void write_addresses_if_any(struct json_writer *writer, const char *key,
                                   const struct address_list *list)
{
    if (list->len > 0)
        address_list_write(list, writer, key);
}

static int write_request(const struct draft_reading *reading, char **ret_request)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(REQUEST_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &text, 0);
    json_begin_object(&writer);
    address_list_write(&reading->to, &writer, "to_addresses");
    write_addresses_if_any(&writer, "cc_addresses", &reading->cc);
    write_addresses_if_any(&writer, "bcc_addresses", &reading->bcc);
    write_addresses_if_any(&writer, "reply_to_addresses", &reading->reply_to);
    if (reading->subject != NULL || reading->message_type == NULL)
        json_member_string(&writer, "subject", reading->subject == NULL ? "" : reading->subject);
    json_member_string(&writer, "plain_text", reading->plain_text == NULL ? "" : reading->plain_text);
    if (reading->html != NULL && reading->html[0] != '\0') {
        json_member_string(&writer, "html", reading->html);
        json_member_boolean(&writer, "alternative_content", reading->alternative_content);
    }
    if (reading->message_type != NULL) {
        json_member_string(&writer, "existing_email_id", reading->existing_email_id);
        json_member_string(&writer, "message_type", reading->message_type);
    }
    if (reading->attachment_ids->len > 0) {
        json_key(&writer, "attachment_ids");
        json_begin_array(&writer);
        for (unsigned int i = 0; i < reading->attachment_ids->len; i++)
            json_write_string(&writer, reading->attachment_ids->pdata[i]);
        json_end_array(&writer);
    }
    json_end_object(&writer);
    if (text.error == -EMSGSIZE)
        return reason_give(reading->ret_reason, -EMSGSIZE, "the message is too large to be sent");
    *ret_request = strbuf_take(&text, NULL);
    return 0;
}

/* Returns true for the beginning of a JSON array. A header cannot begin with "[" and a JSON value. */
static bool is_json_list(const char *bytes, size_t len)
{
    size_t next = len > 0 && bytes[0] == '[' ? 1 + blank_len(bytes + 1, len - 1) : len;
    return next < len && strchr("{[\"", bytes[next]) != NULL;
}

static int read_message(struct draft_reading *reading, const char *bytes, size_t len, const char *answered)
{
    if (len > DRAFT_MAX_BYTES)
        return reason_give(reading->ret_reason, -EMSGSIZE, "the message is larger than %d bytes",
                           DRAFT_MAX_BYTES);
    if (len > 0 && memchr(bytes, '\0', len) != NULL)
        return reason_give(reading->ret_reason, -EBADMSG, "not a message: it holds a NUL byte");
    size_t mark_len = byte_order_mark_len(bytes, len);
    bytes += mark_len;
    len -= mark_len;

    size_t blank = blank_len(bytes, len);
    if (blank == len)
        return reason_give(reading->ret_reason, -EBADMSG, "not a message: it is empty");
    if (bytes[blank] == '{' && json_has_too_many_values(bytes, len, DRAFT_JSON_VALUES_MAX))
        return reason_give(reading->ret_reason, -EMSGSIZE, "more than %d values", DRAFT_JSON_VALUES_MAX);
    if (answered != NULL)
        return read_answer(reading, bytes, len, answered);
    if (is_json_list(bytes + blank, len - blank))
        return reason_give(reading->ret_reason, -EBADMSG,
                           "a JSON list: a message is one object, and each has a file of its own");
    return bytes[blank] == '{' ? draft_read_json(reading, bytes, len) : draft_read_mime(reading, bytes, len);
}

int draft_parse(const char *bytes, size_t len, const char *answered, struct draft **ret_draft,
                char **ret_reason)
{
    *ret_reason = NULL;
    _cleanup_(reading_release) struct draft_reading reading;
    reading_init(&reading, ret_reason);
    int error = read_message(&reading, bytes, len, answered);
    if (error == 0)
        error = check_recipients_and_sizes(&reading);
    char *request = NULL;
    if (error == 0)
        error = write_request(&reading, &request);
    if (error != 0)
        return error;
    struct draft *draft = g_new0(struct draft, 1);
    draft->from = TAKE_PTR(reading.from);
    draft->request = request;
    draft->attachment_names =
        (char **)g_ptr_array_steal(reading.attachment_names, &draft->attachment_names_len);
    draft->not_carried = (char **)g_ptr_array_steal(reading.not_carried, &draft->not_carried_len);
    draft->parts = g_array_steal(reading.parts, &draft->parts_len);
    if (reading.existing_email_id == NULL) {
        /* The likeliest ids come first: In-Reply-To, then References from the last to the first. */
        for (unsigned int i = reading.references->len; i-- > 0;)
            g_ptr_array_add(reading.in_reply_to, g_ptr_array_steal_index(reading.references, i));
        draft->message_ids = (char **)g_ptr_array_steal(reading.in_reply_to, &draft->message_ids_len);
    }
    *ret_draft = draft;
    return 0;
}

int draft_complete_request(const struct draft *draft, const char *from, const char *replies_to,
                           const char *const *attachment_ids, size_t attachment_ids_len, char **ret_request)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * REQUEST_MAX_BYTES);
    _cleanup_json_ json_t *rest = json_loads(draft->request, 0, NULL);
    _cleanup_json_ json_t *request = json_pack("{s:s}", "from_address", from);
    struct json_writer writer;
    json_object_update(request, rest);
    if (replies_to != NULL && draft->message_ids_len > 0) {
        json_object_set_new(request, "existing_email_id", json_string(replies_to));
        json_object_set_new(request, "message_type", json_string("reply"));
    }
    /* The list of attachments moves to the end of the request. */
    json_t *given_ids = json_object_get(rest, "attachment_ids");
    json_object_del(request, "attachment_ids");
    _cleanup_json_ json_t *ids = given_ids != NULL ? json_incref(given_ids) : json_array();
    for (size_t i = 0; i < attachment_ids_len; i++)
        json_array_append_new(ids, json_string(attachment_ids[i]));
    if (json_array_size(ids) > 0)
        json_object_set(request, "attachment_ids", ids);
    json_writer_init(&writer, &text, 0);
    json_write_value(&writer, request);
    *ret_request = strbuf_take(&text, NULL);
    return *ret_request == NULL ? -EMSGSIZE : 0;
}

/* ---------------------------------------------------------------- the order of sending */

/* Appends the addresses of a list in small letters. */
static void collect_addresses(const json_t *list, GPtrArray *addresses)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *address = json_string_value(json_object_get(json_array_get(list, i), "address"));
        if (address != NULL)
            g_ptr_array_add(addresses, g_ascii_strdown(address, -1));
    }
}

static int compare_addresses(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

void draft_sequence(const char *request, const char *from, char ret_sequence[65])
{
    _cleanup_json_ json_t *root = json_loads(request, JSON_ALLOW_NUL, NULL);
    g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
    collect_addresses(json_object_get(root, "to_addresses"), lines);
    collect_addresses(json_object_get(root, "cc_addresses"), lines);
    collect_addresses(json_object_get(root, "bcc_addresses"), lines);
    g_ptr_array_sort(lines, compare_addresses);
    g_ptr_array_insert(lines, 0, g_ascii_strdown(from, -1));
    g_ptr_array_add(lines, g_strdup(""));
    g_ptr_array_add(lines, NULL);
    g_autofree char *text = g_strjoinv("\n", (char **)lines->pdata);
    hash_sha256(text, strlen(text), ret_sequence);
}
