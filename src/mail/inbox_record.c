/* SPDX-License-Identifier: MIT */
/*
 * Records as the service gave them; then the requests that create and change an inbox. The types of a
 * request's fields are checked here, so that a user's slip is told in words instead of being sent.
 */
#include "mail/inbox_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/json_writer.h"
#include "mail/reason.h"

enum {
    INBOX_RECORD_MAX_BYTES = 4 * 1024 * 1024,
    /* Text may well have a NUL in it, escaped; it is carried like any other character. */
    TEXT_FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
};

static int write_text(const json_t *object, unsigned int indent, char **ret_text, size_t *ret_len)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(INBOX_RECORD_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &text, indent);
    json_value_write(object, &writer);
    if (indent > 0)
        strbuf_append_char(&text, '\n');
    if (text.error != 0)
        return text.error == -ENOMEM ? -ENOMEM : -EINVAL;
    *ret_text = strbuf_take(&text, ret_len);
    return *ret_text == NULL ? -ENOMEM : 0;
}

static bool is_address(const json_t *value)
{
    const char *text = json_string_value(value);
    return text != NULL && strlen(text) == json_string_length(value) && address_is_valid(text);
}

static int fill_in(const json_t *object, struct inbox_record *record)
{
    int error = json_value_read_id(json_object_get(object, "id"), &record->id);
    if (error != 0 || record->id == NULL)
        return error != 0 ? error : -EINVAL;
    const json_t *address = json_object_get(object, "email_address");
    if (is_address(address)) {
        record->address = strdup(json_string_value(address));
        if (record->address == NULL)
            return -ENOMEM;
    }
    return write_text(object, 2, &record->json, &record->json_len);
}

static int from_json(const json_t *object, struct inbox_record *ret_record)
{
    struct inbox_record record = {0};
    int error = json_is_object(object) ? fill_in(object, &record) : -EINVAL;
    if (error != 0) {
        inbox_record_release(&record);
        return error;
    }
    *ret_record = record;
    return 0;
}

int inbox_record_from_id(const char *id, struct inbox_record *ret_record)
{
    _cleanup_json_ json_t *object = json_pack("{s:s}", "id", id);
    return from_json(object, ret_record);
}

static int error_of(const json_error_t *problem)
{
    switch (json_error_code(problem)) {
    case json_error_invalid_utf8:
        return -EILSEQ;
    case json_error_duplicate_key:
        return -EEXIST;
    case json_error_out_of_memory:
        return -ENOMEM;
    default:
        return -EBADMSG;
    }
}

int inbox_record_from_text(const char *text, size_t len, struct inbox_record *ret_record)
{
    json_error_t problem;
    _cleanup_json_ json_t *object = json_loadb(text, len, TEXT_FLAGS, &problem);
    return object == NULL ? error_of(&problem) : from_json(object, ret_record);
}

static char *copy_string(const char *text)
{
    return text == NULL ? NULL : strdup(text);
}

int inbox_record_copy(const struct inbox_record *record, struct inbox_record *ret_record)
{
    struct inbox_record copy = {
        .id = copy_string(record->id),
        .address = copy_string(record->address),
        .json = malloc(record->json_len + 1),
        .json_len = record->json_len,
    };
    if (copy.id == NULL || (copy.address == NULL && record->address != NULL) || copy.json == NULL) {
        inbox_record_release(&copy);
        return -ENOMEM;
    }
    memcpy(copy.json, record->json, record->json_len + 1);
    *ret_record = copy;
    return 0;
}

void inbox_record_release(struct inbox_record *record)
{
    free(record->id);
    free(record->address);
    free(record->json);
    *record = (struct inbox_record){0};
}

int inbox_record_created(const char *request, const char *id, struct inbox_record *ret_record)
{
    _cleanup_json_ json_t *object = json_loads(request, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(object))
        return -EBADMSG;
    if (json_object_set_new(object, "id", json_string(id)) != 0)
        return -EBADMSG;
    return from_json(object, ret_record);
}

/* ---------------------------------------------------------------- requests */

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool is_text_or_null(const json_t *value)
{
    return json_is_string(value) || json_is_null(value);
}

static bool is_boolean(const json_t *value)
{
    return json_is_boolean(value);
}

static bool is_list_of_text(const json_t *value)
{
    if (!json_is_array(value))
        return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i)))
            return false;
    return true;
}

static bool is_rule_or_null(const json_t *value)
{
    json_t *borrowed = (json_t *)value; /* jansson's iterators take no const */
    if (json_is_null(value))
        return true;
    if (!json_is_object(value))
        return false;
    for (void *at = json_object_iter(borrowed); at != NULL; at = json_object_iter_next(borrowed, at)) {
        const char *key = json_object_iter_key(at);
        if (strcmp(key, "addresses") != 0 && strcmp(key, "domains") != 0)
            return false;
        if (!is_list_of_text(json_object_iter_value(at)))
            return false;
    }
    return true;
}

static const char rule_words[] = "null or {\"addresses\": [\u2026], \"domains\": [\u2026]}";

static const struct {
    const char *name;
    bool (*is_right)(const json_t *value);
    const char *words; /* what it has to be */
} fields[] = {
    {"name", is_text, "a string"},
    {"email_address", is_address, "an email address"},
    {"allow_cc", is_boolean, "true or false"},
    {"allow_bcc", is_boolean, "true or false"},
    {"spf_pass_required", is_boolean, "true or false"},
    {"dkim_pass_required", is_boolean, "true or false"},
    {"dmarc_pass_required", is_boolean, "true or false"},
    {"allowed_from_addresses", is_rule_or_null, rule_words},
    {"blocked_from_addresses", is_rule_or_null, rule_words},
    {"webhook_url", is_text_or_null, "a string or null"},
    {"webhook_signing_secret_id", is_text_or_null, "a string or null"},
    {"open_and_click_tracking", is_boolean, "true or false"},
};

/* Given by the service, and not to be sent back. */
static const char *const read_only_fields[] = {"updated_at", "webhook_secret"};

int inbox_request_create(const char *address, char **ret_request)
{
    if (!address_is_folder_name(address))
        return -EINVAL;
    size_t local_len = strcspn(address, "@");
    _cleanup_json_ json_t *request =
        json_pack("{s:n, s:s%, s:s}", "id", "name", address, local_len, "email_address", address);
    return request == NULL ? -ENOMEM : write_text(request, 0, ret_request, NULL);
}

static int check_fields(const json_t *request, char **ret_reason)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const json_t *value = json_object_get(request, fields[i].name);
        if (value != NULL && !fields[i].is_right(value))
            return reason_give(ret_reason, -EINVAL, "%s: has to be %s", fields[i].name, fields[i].words);
    }
    for (size_t i = 0; i < 2; i++)
        if (json_object_get(request, fields[i].name) == NULL)
            return reason_give(ret_reason, -EINVAL, "%s: is missing", fields[i].name);
    return 0;
}

/* The id of an inbox is the service's; a text without one, or with null, is taken to mean this inbox. */
static int check_id(const json_t *id, const json_t *edited, char **ret_reason)
{
    const json_t *edited_id = json_object_get(edited, "id");
    if (edited_id == NULL || json_is_null(edited_id) || json_equal(id, edited_id))
        return 0;
    return reason_give(ret_reason, -EINVAL, "id: is another inbox's; the id of an inbox cannot be changed");
}

int inbox_request_update(const struct inbox_record *current, const char *edited, size_t edited_len,
                         char **ret_request, char **ret_reason)
{
    json_error_t problem;
    *ret_reason = NULL;
    _cleanup_json_ json_t *request = json_loadb(current->json, current->json_len, JSON_ALLOW_NUL, NULL);
    _cleanup_json_ json_t *changes = json_loadb(edited, edited_len, TEXT_FLAGS, &problem);
    if (changes == NULL)
        return reason_give(ret_reason, -EINVAL, "not JSON: line %d, column %d: %s", problem.line,
                           problem.column, problem.text);
    if (!json_is_object(changes))
        return reason_give(ret_reason, -EINVAL, "not a JSON object");
    if (!json_is_object(request))
        return reason_give(ret_reason, -EINVAL, "the record of the inbox cannot be read");

    _cleanup_json_ json_t *id = json_incref(json_object_get(request, "id"));
    int error = check_id(id, changes, ret_reason);
    if (error != 0)
        return error;
    if (json_object_update(request, changes) != 0 || json_object_set(request, "id", id) != 0)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_LEN(read_only_fields); i++)
        json_object_del(request, read_only_fields[i]);

    error = check_fields(request, ret_reason);
    return error != 0 ? error : write_text(request, 0, ret_request, NULL);
}

bool inbox_text_is_complete(const char *text, size_t len)
{
    _cleanup_json_ json_t *value = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    return value != NULL;
}
