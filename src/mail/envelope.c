/* SPDX-License-Identifier: MIT */
/*
 * Envelopes, and receipts made of them, in JSON. Written by json_writer, which cannot fail on what strangers
 * wrote; read by jansson.
 */
#include "mail/envelope.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/draft.h"
#include "mail/file_name.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"

enum {
    VERSION = 1,
    NOT_CARRIED_MAX = 10 * 1000,
};

static void release_attachments(struct envelope *envelope)
{
    for (size_t i = 0; i < envelope->attachments_len; i++)
        free(envelope->attachments[i].name);
    free(envelope->attachments);
    envelope->attachments = NULL;
    envelope->attachments_len = 0;
}

static void release_part_ids(struct envelope *envelope)
{
    for (size_t i = 0; i < envelope->part_ids_len; i++)
        free(envelope->part_ids[i]);
    free(envelope->part_ids);
    envelope->part_ids = NULL;
    envelope->part_ids_len = 0;
}

static void release_not_carried(struct envelope *envelope)
{
    for (size_t i = 0; i < envelope->not_carried_len; i++)
        free(envelope->not_carried[i]);
    free(envelope->not_carried);
    envelope->not_carried = NULL;
    envelope->not_carried_len = 0;
}

void envelope_release(struct envelope *envelope)
{
    release_attachments(envelope);
    release_part_ids(envelope);
    release_not_carried(envelope);
    free(envelope->name);
    free(envelope->answers);
    free(envelope->from);
    free(envelope->replies_to);
    free(envelope->request);
    free(envelope->id);
    free(envelope->error);
    *envelope = (struct envelope){0};
}

void envelope_clear_outcome(struct envelope *envelope)
{
    struct envelope cleared = {
        .number = envelope->number,
        .order = envelope->order,
        .kind = envelope->kind,
        .name = TAKE_PTR(envelope->name),
        .answers = TAKE_PTR(envelope->answers),
        .replies_to = TAKE_PTR(envelope->replies_to),
        .content = envelope->content,
        .is_hidden = envelope->is_hidden,
        .part_ids = TAKE_PTR(envelope->part_ids),
        .part_ids_len = envelope->part_ids_len,
        .supersedes = envelope->supersedes,
        .was_unknown = envelope->was_unknown,
    };
    envelope->part_ids_len = 0;
    memcpy(cleared.state, envelope->state, sizeof(cleared.state));
    memcpy(cleared.digest, envelope->digest, sizeof(cleared.digest));
    memcpy(cleared.key, envelope->key, sizeof(cleared.key));
    envelope_release(envelope);
    *envelope = cleared;
}

int envelope_new_part_ids(struct envelope *envelope, size_t len)
{
    release_part_ids(envelope);
    if (len == 0)
        return 0;
    envelope->part_ids = calloc(len, sizeof(*envelope->part_ids));
    if (envelope->part_ids == NULL)
        return -ENOMEM;
    envelope->part_ids_len = len;
    return 0;
}

int envelope_add_not_carried(struct envelope *envelope, const char *words)
{
    size_t len = envelope->not_carried_len;
    char **list = realloc(envelope->not_carried, (len + 1) * sizeof(*list));
    if (list == NULL)
        return -ENOMEM;
    envelope->not_carried = list;
    list[len] = strdup(words);
    envelope->not_carried_len += list[len] != NULL;
    return list[len] == NULL ? -ENOMEM : 0;
}

/* ---------------------------------------------------------------- copying */

static int copy_text(const char *from, char **to)
{
    *to = from == NULL ? NULL : strdup(from);
    return from != NULL && *to == NULL ? -ENOMEM : 0;
}

static int copy_lists(const struct envelope *from, struct envelope *to)
{
    int error = 0;
    if (from->attachments_len > 0) {
        to->attachments = calloc(from->attachments_len, sizeof(*to->attachments));
        if (to->attachments == NULL)
            return -ENOMEM;
        to->attachments_len = from->attachments_len;
        for (size_t i = 0; i < from->attachments_len && error == 0; i++) {
            to->attachments[i].content = from->attachments[i].content;
            error = copy_text(from->attachments[i].name, &to->attachments[i].name);
        }
    }
    error = error != 0 ? error : envelope_new_part_ids(to, from->part_ids_len);
    for (size_t i = 0; i < from->part_ids_len && error == 0; i++)
        error = copy_text(from->part_ids[i], &to->part_ids[i]);
    for (size_t i = 0; i < from->not_carried_len && error == 0; i++)
        error = envelope_add_not_carried(to, from->not_carried[i]);
    return error;
}

int envelope_copy(const struct envelope *envelope, struct envelope *ret_envelope)
{
    struct envelope copy = *envelope;
    copy.name = copy.answers = copy.from = copy.replies_to = copy.request = copy.id = copy.error = NULL;
    copy.attachments = NULL;
    copy.part_ids = copy.not_carried = NULL;
    copy.attachments_len = copy.part_ids_len = copy.not_carried_len = 0;

    int error = copy_lists(envelope, &copy);
    error = error != 0 ? error : copy_text(envelope->name, &copy.name);
    error = error != 0 ? error : copy_text(envelope->answers, &copy.answers);
    error = error != 0 ? error : copy_text(envelope->from, &copy.from);
    error = error != 0 ? error : copy_text(envelope->replies_to, &copy.replies_to);
    error = error != 0 ? error : copy_text(envelope->request, &copy.request);
    error = error != 0 ? error : copy_text(envelope->id, &copy.id);
    error = error != 0 ? error : copy_text(envelope->error, &copy.error);
    if (error != 0)
        envelope_release(&copy);
    else
        *ret_envelope = copy;
    return error;
}

/* ---------------------------------------------------------------- reading */

static int64_t get_integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static int take_number(const json_t *object, const char *key, uint64_t *ret)
{
    int64_t value = get_integer(object, key);
    if (value < 0)
        return -EBADMSG;
    *ret = (uint64_t)value;
    return 0;
}

static int take_text(const json_t *object, const char *key, char **ret)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value))
        return 0;
    return json_is_string(value) ? copy_text(json_string_value(value), ret) : -EBADMSG;
}

static int take_short_text(const json_t *object, const char *key, char *ret, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL)
        return 0;
    size_t len = strlen(text);
    if (len >= size)
        return -EBADMSG;
    memcpy(ret, text, len + 1);
    return 0;
}

static int take_attachments(const json_t *list, struct envelope *envelope)
{
    size_t len = json_array_size(list);
    if (len == 0)
        return 0;
    envelope->attachments = len > ATTACHMENTS_MAX ? NULL : calloc(len, sizeof(*envelope->attachments));
    if (envelope->attachments == NULL)
        return len > ATTACHMENTS_MAX ? -EBADMSG : -ENOMEM;
    envelope->attachments_len = len;
    int error = 0;
    for (size_t i = 0; i < len && error == 0; i++) {
        const json_t *one = json_array_get(list, i);
        error = take_number(one, "content", &envelope->attachments[i].content);
        error = error != 0 ? error : take_text(one, "name", &envelope->attachments[i].name);
        if (error == 0 && envelope->attachments[i].name == NULL)
            error = -EBADMSG;
    }
    return error;
}

static int take_part_ids(const json_t *list, struct envelope *envelope)
{
    size_t len = json_array_size(list);
    int error = len > ATTACHMENTS_MAX ? -EBADMSG : envelope_new_part_ids(envelope, len);
    for (size_t i = 0; i < len && error == 0; i++)
        error = copy_text(json_string_value(json_array_get(list, i)), &envelope->part_ids[i]);
    return error;
}

static int take_not_carried(const json_t *list, struct envelope *envelope)
{
    int error = json_array_size(list) > NOT_CARRIED_MAX ? -EBADMSG : 0;
    for (size_t i = 0; i < json_array_size(list) && error == 0; i++) {
        const char *words = json_string_value(json_array_get(list, i));
        error = words == NULL ? -EBADMSG : envelope_add_not_carried(envelope, words);
    }
    return error;
}

static int take_texts(const json_t *root, struct envelope *to)
{
    int error = take_text(root, "name", &to->name);
    error = error != 0 ? error : take_text(root, "answers", &to->answers);
    error = error != 0 ? error : take_text(root, "from", &to->from);
    error = error != 0 ? error : take_text(root, "replies_to", &to->replies_to);
    error = error != 0 ? error : take_text(root, "request", &to->request);
    error = error != 0 ? error : take_text(root, "id", &to->id);
    error = error != 0 ? error : take_text(root, "error", &to->error);
    error = error != 0 ? error : take_short_text(root, "state", to->state, sizeof(to->state));
    error = error != 0 ? error : take_short_text(root, "digest", to->digest, sizeof(to->digest));
    error = error != 0 ? error : take_short_text(root, "idempotency_key", to->key, sizeof(to->key));
    error = error != 0 ? error : take_short_text(root, "lane", to->sequence, sizeof(to->sequence));
    return error;
}

/* An attachment's stands in headers. */
static bool has_valid_name(const struct envelope *envelope)
{
    if (envelope->name == NULL)
        return false;
    return envelope->kind == ENVELOPE_MESSAGE ? file_name_is_text(envelope->name)
                                              : file_name_is_valid(envelope->name);
}

static int take_fields(const json_t *root, struct envelope *to)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    if (kind == NULL)
        return -EBADMSG;
    to->kind = strcmp(kind, "attachment") == 0 ? ENVELOPE_ATTACHMENT : ENVELOPE_MESSAGE;
    to->may_have_been_sent = json_is_true(json_object_get(root, "may_have_been_sent"));
    to->was_unknown = json_is_true(json_object_get(root, "was_unknown"));
    to->was_reuploaded = json_is_true(json_object_get(root, "was_reuploaded"));
    to->is_hidden = json_is_true(json_object_get(root, "is_hidden"));
    to->quota_day = get_integer(root, "quota_day");
    to->attempts = (unsigned int)get_integer(root, "attempts");
    to->accepted_ms = get_integer(root, "accepted_ms");
    to->finished_ms = get_integer(root, "finished_ms");
    to->http_status = (int)get_integer(root, "http_status");
    to->size = get_integer(root, "size");

    int error = take_number(root, "number", &to->number);
    error = error != 0 ? error : take_number(root, "order", &to->order);
    error = error != 0 ? error : take_number(root, "content", &to->content);
    error = error != 0 ? error : take_number(root, "supersedes", &to->supersedes);
    error = error != 0 ? error : take_texts(root, to);
    error = error != 0 ? error : take_attachments(json_object_get(root, "attachments"), to);
    error = error != 0 ? error : take_part_ids(json_object_get(root, "part_ids"), to);
    error = error != 0 ? error : take_not_carried(json_object_get(root, "not_carried"), to);
    to->has_request = to->request != NULL;
    if (error == 0 && (!has_valid_name(to) || to->state[0] == '\0'))
        error = -EBADMSG;
    return error;
}

int envelope_parse(const char *text, size_t len, struct envelope *ret_envelope)
{
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    struct envelope envelope = {0};
    int error = json_is_object(root) ? 0 : -EBADMSG;
    if (error == 0 && get_integer(root, "version") != VERSION)
        error = get_integer(root, "version") > VERSION ? -EPROTO : -EBADMSG;
    if (error == 0)
        error = take_fields(root, &envelope);
    json_decref(root);
    if (error != 0)
        envelope_release(&envelope);
    else
        *ret_envelope = envelope;
    return error;
}

/* ---------------------------------------------------------------- writing */

static void write_not_carried(struct json_writer *writer, const struct envelope *envelope)
{
    if (envelope->not_carried_len == 0)
        return;
    json_key(writer, "not_carried");
    json_begin_array(writer);
    for (size_t i = 0; i < envelope->not_carried_len; i++)
        json_write_string(writer, envelope->not_carried[i]);
    json_end_array(writer);
}

static void write_message(struct json_writer *writer, const struct envelope *envelope)
{
    json_member_string(writer, "answers", envelope->answers);
    json_member_string(writer, "from", envelope->from);
    json_member_string(writer, "replies_to", envelope->replies_to);
    write_not_carried(writer, envelope);
    json_member_string(writer, "lane", envelope->sequence);
    json_key(writer, "attachments");
    json_begin_array(writer);
    for (size_t i = 0; i < envelope->attachments_len; i++) {
        json_begin_object(writer);
        json_member_integer(writer, "content", (int64_t)envelope->attachments[i].content);
        json_member_string(writer, "name", envelope->attachments[i].name);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_key(writer, "part_ids");
    json_begin_array(writer);
    for (size_t i = 0; i < envelope->part_ids_len; i++)
        json_write_string(writer, envelope->part_ids[i]);
    json_end_array(writer);
    json_member_integer(writer, "supersedes", (int64_t)envelope->supersedes);
    json_member_boolean(writer, "may_have_been_sent", envelope->may_have_been_sent);
    json_member_boolean(writer, "was_unknown", envelope->was_unknown);
    json_member_boolean(writer, "was_reuploaded", envelope->was_reuploaded);
    json_member_integer(writer, "quota_day", envelope->quota_day);
    json_member_string(writer, "request", envelope->request);
}

int envelope_format(const struct envelope *envelope, struct strbuf *out)
{
    if (envelope->has_request && envelope->request == NULL)
        return -EINVAL;
    struct json_writer writer;
    json_writer_init(&writer, out, 0);
    json_begin_object(&writer);
    json_member_integer(&writer, "version", VERSION);
    json_member_integer(&writer, "number", (int64_t)envelope->number);
    json_member_integer(&writer, "order", (int64_t)envelope->order);
    json_member_string(&writer, "kind", envelope->kind == ENVELOPE_MESSAGE ? "message" : "attachment");
    json_member_string(&writer, "state", envelope->state);
    json_member_string(&writer, "name", envelope->name);
    json_member_string(&writer, "digest", envelope->digest);
    json_member_string(&writer, "idempotency_key", envelope->key);
    json_member_integer(&writer, "attempts", envelope->attempts);
    json_member_integer(&writer, "accepted_ms", envelope->accepted_ms);
    json_member_integer(&writer, "finished_ms", envelope->finished_ms);
    json_member_integer(&writer, "http_status", envelope->http_status);
    json_member_string(&writer, "id", envelope->id);
    json_member_string(&writer, "error", envelope->error);
    if (envelope->kind == ENVELOPE_MESSAGE)
        write_message(&writer, envelope);
    else
        json_member_integer(&writer, "size", envelope->size);
    json_member_integer(&writer, "content", (int64_t)envelope->content);
    json_member_boolean(&writer, "is_hidden", envelope->is_hidden);
    json_end_object(&writer);
    return strbuf_append_char(out, '\n');
}

/* ---------------------------------------------------------------- receipts */

static const char *text_or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

/* It was harmless JSON when it was written. Of an envelope that was damaged since, what is still JSON is made
 * harmless again, and what is not is shown as what it is: a text. */
static void write_request(struct json_writer *writer, const char *request)
{
    _cleanup_json_ json_t *value = NULL;
    unsigned int indent = writer->indent;
    if (request == NULL)
        json_write_null(writer);
    else if (json_value_read(request, strlen(request), JSON_DECODE_ANY, &value) != 0)
        json_write_string(writer, request);
    if (value == NULL)
        return;
    writer->indent = 0; /* on one line */
    json_value_write(value, writer);
    writer->indent = indent;
}

int receipt_format(const struct envelope *envelope, struct strbuf *out)
{
    struct json_writer writer;
    json_writer_init(&writer, out, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "state", envelope->state);
    json_member_string(&writer, "kind", envelope->kind == ENVELOPE_MESSAGE ? "message" : "attachment");
    json_member_string(&writer, "id", envelope->id);
    json_member_string(&writer, "idempotency_key", text_or_null(envelope->key));
    json_member_date(&writer, "accepted_at", envelope->accepted_ms);
    json_member_date(&writer, "finished_at", envelope->finished_ms);
    json_member_integer(&writer, "attempts", envelope->attempts);
    json_key(&writer, "http_status");
    if (envelope->http_status == 0)
        json_write_null(&writer);
    else
        json_write_integer(&writer, envelope->http_status);
    json_member_string(&writer, "error", envelope->error);
    write_not_carried(&writer, envelope);
    json_key(&writer, "request");
    write_request(&writer, envelope->request);
    json_end_object(&writer);
    return strbuf_append_char(out, '\n');
}

static const char receipt_tail[] = "\n}\n";

int receipt_delivery_format(const char *record, size_t len, struct strbuf *out)
{
    static const char *const names[] = {"status", "latest_event"};
    _cleanup_json_ json_t *value = json_loadb(record, len, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(value))
        return -EBADMSG;
    struct json_writer writer;
    json_writer_init(&writer, out, 2);
    writer.depth = 1; /* within a receipt that has members already */
    writer.is_empty = false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const json_t *member = json_object_get(value, names[i]);
        if (member == NULL)
            continue;
        json_key(&writer, names[i]);
        json_value_write(member, &writer);
    }
    return out->error;
}

size_t receipt_end(const char *receipt, size_t len)
{
    size_t tail_len = strlen(receipt_tail);
    bool has_tail = len >= tail_len && memcmp(receipt + len - tail_len, receipt_tail, tail_len) == 0;
    return has_tail ? len - tail_len : len;
}
