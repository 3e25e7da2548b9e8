/* SPDX-License-Identifier: MIT */
/*
 * The upsert requests: what creates an inbox, and what changes one. Types are checked here, so that a user's
 * slip is told in words instead of being sent.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/file_name.h"
#include "mail/inbox_record.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"
#include "mail/reason.h"

enum {
    REQUEST_MAX_BYTES = 4 * 1024 * 1024
};

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool is_text_or_null(const json_t *value)
{
    return json_is_string(value) || json_is_null(value);
}

static bool is_address(const json_t *value)
{
    return json_is_string(value) && address_is_valid(json_string_value(value));
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

static const struct field {
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

static int make_text(const json_t *request, char **ret_request)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(REQUEST_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &text, 0);
    json_value_write(request, &writer);
    if (text.error != 0)
        return text.error == -ENOMEM ? -ENOMEM : -EINVAL;
    *ret_request = strbuf_take(&text, NULL);
    return *ret_request == NULL ? -ENOMEM : 0;
}

int inbox_request_create(const char *address, char **ret_request)
{
    if (!address_is_valid(address) || !file_name_is_harmless(address))
        return -EINVAL;
    size_t local_len = strcspn(address, "@");
    _cleanup_json_ json_t *request =
        json_pack("{s:n, s:s%, s:s}", "id", "name", address, local_len, "email_address", address);
    return request == NULL ? -ENOMEM : make_text(request, ret_request);
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
    _cleanup_json_ json_t *changes = json_loadb(edited, edited_len, JSON_REJECT_DUPLICATES, &problem);
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
    return error != 0 ? error : make_text(request, ret_request);
}

bool inbox_text_is_complete(const char *text, size_t len)
{
    _cleanup_json_ json_t *value = json_loadb(text, len, 0, NULL);
    return value != NULL;
}
