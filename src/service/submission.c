/* SPDX-License-Identifier: MIT */
/*
 * Reading a request to send. Published clients send from_address as an object, the interface's core as a
 * string: both are taken.
 */
#include "service/submission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/address.h"
#include "mail/content_digest.h"
#include "mail/draft.h"

static const char *const type_names[] = {"new", "reply", "forward"};

const char *message_type_name(enum message_type type)
{
    return type_names[type];
}

static const char *read_address(struct validation *validation, const struct place *place,
                                const json_t *object, const char **ret_name)
{
    if (!json_is_object(object)) {
        validation_fail(validation, place, "model_attributes_type", "Input should be a valid dictionary");
        return NULL;
    }
    struct field in = {validation, place, object};
    *ret_name = validate_line(&in, "name", false);
    const char *address = validate_line(&in, "address", true);
    if (address == NULL || address_is_valid(address))
        return address;
    struct place member = {.parent = place, .name = "address"};
    validation_fail(validation, &member, "value_error", "value is not a valid email address");
    return NULL;
}

static json_t *read_addresses(const struct field *in, const char *name, bool is_required)
{
    json_t *result = json_array();
    struct place list_place = {.parent = in->place, .name = name};
    size_t i;
    const json_t *item;
    json_array_foreach (validate_array(in, name, is_required, DRAFT_RECIPIENTS_MAX), i, item) {
        struct place place = {.parent = &list_place, .index = i};
        const char *display_name = NULL;
        const char *address = read_address(in->validation, &place, item, &display_name);
        if (address != NULL)
            json_array_append_new(result, json_pack("{s:s, s:s?}", "address", address, "name", display_name));
    }
    return result;
}

static void read_from(const struct field *in, struct submission *submission)
{
    struct place place = {.parent = in->place, .name = "from_address"};
    json_t *from = json_object_get(in->object, "from_address");
    if (from == NULL || json_is_null(from)) {
        validation_fail(in->validation, &place, "missing", "Field required");
    } else if (!json_is_string(from)) {
        submission->from_address = read_address(in->validation, &place, from, &submission->from_name);
    } else {
        submission->from_address = json_string_value(from);
        if (!address_is_valid(submission->from_address))
            validation_fail(in->validation, &place, "value_error", "value is not a valid email address");
    }
    if (submission->from_name != NULL && submission->from_name[0] == '\0')
        submission->from_name = NULL;
}

static void read_type(const struct field *in, struct submission *submission)
{
    submission->existing_email_id = validate_line(in, "existing_email_id", false);
    submission->type = submission->existing_email_id != NULL ? MESSAGE_REPLY : MESSAGE_NEW;
    const char *name = validate_line(in, "message_type", false);
    if (name == NULL)
        return;
    struct place place = {.parent = in->place, .name = "message_type"};
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++) {
        if (strcmp(type_names[i], name) != 0)
            continue;
        submission->type = (enum message_type)i;
        if (submission->type != MESSAGE_NEW && submission->existing_email_id == NULL)
            validation_fail(in->validation, &place, "value_error",
                            "A reply or forward needs existing_email_id");
        return;
    }
    validation_fail(in->validation, &place, "enum", "Input should be 'new', 'reply' or 'forward'");
}

static void read_attachment_ids(const struct field *in, struct submission *submission)
{
    submission->attachment_ids = validate_array(in, "attachment_ids", false, ATTACHMENTS_MAX);
    struct place list_place = {.parent = in->place, .name = "attachment_ids"};
    size_t i;
    const json_t *id;
    json_array_foreach (submission->attachment_ids, i, id) {
        struct place place = {.parent = &list_place, .index = i};
        if (!json_is_string(id))
            validation_fail(in->validation, &place, "string_type", "Input should be a valid string");
    }
}

static void check_body(const struct field *in, const char *name, const char *text)
{
    struct place place = {.parent = in->place, .name = name};
    if (text != NULL && strlen(text) > DRAFT_BODY_MAX_BYTES)
        validation_fail(in->validation, &place, "string_too_long", "The text is over 8,000,000 bytes");
}

static void check_recipients(const struct field *in, const struct submission *submission)
{
    size_t count =
        json_array_size(submission->to) + json_array_size(submission->cc) + json_array_size(submission->bcc);
    struct place place = {.parent = in->place, .name = "to_addresses"};
    if (count > DRAFT_RECIPIENTS_MAX)
        validation_fail(in->validation, &place, "too_long", "The email has too many recipients");
    if (count == 0 && !validation_has_failed(in->validation))
        validation_fail(in->validation, &place, "too_short", "The email has no recipient");
}

static int digest_request(const json_t *body, char ret_digest[65])
{
    json_t *copy = json_object();
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)body, name, value) {
        if (!json_is_null(value) && strcmp(name, "idempotency_key") != 0)
            json_object_set(copy, name, value);
    }
    _cleanup_free_ char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(copy);
    if (text == NULL)
        return -ENOMEM;
    content_digest(text, strlen(text), ret_digest);
    return 0;
}

int submission_read(json_t *body, struct validation *validation, struct submission *ret_submission)
{
    struct submission *submission = ret_submission;
    *submission = (struct submission){0};
    struct place top = {.name = "body"};
    struct field in = {validation, &top, body};

    read_from(&in, submission);
    read_type(&in, submission);
    submission->subject = validate_line(&in, "subject", submission->type == MESSAGE_NEW);
    submission->html = validate_text(&in, "html", false);
    submission->plain_text = validate_text(&in, "plain_text", submission->html == NULL);
    submission->alternative_content = validate_boolean(&in, "alternative_content", false);
    submission->to = read_addresses(&in, "to_addresses", true);
    submission->cc = read_addresses(&in, "cc_addresses", false);
    submission->bcc = read_addresses(&in, "bcc_addresses", false);
    submission->reply_to = read_addresses(&in, "reply_to_addresses", false);
    read_attachment_ids(&in, submission);
    submission->idempotency_key = validate_line(&in, "idempotency_key", false);
    if (submission->to == NULL || submission->cc == NULL || submission->bcc == NULL ||
        submission->reply_to == NULL)
        return -ENOMEM;
    check_body(&in, "plain_text", submission->plain_text);
    check_body(&in, "html", submission->html);
    check_recipients(&in, submission);
    return digest_request(body, submission->digest);
}

void submission_release(struct submission *submission)
{
    json_decref(submission->to);
    json_decref(submission->cc);
    json_decref(submission->bcc);
    json_decref(submission->reply_to);
    *submission = (struct submission){0};
}
