/* SPDX-License-Identifier: MIT */
/*
 * Reading an upsert. A field left out falls to its default, for an update is a full update.
 */
#include "service/upsert_request.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/address.h"

enum {
    RULE_ENTRIES_MAX = 10000,
};

static json_t *read_entries(const struct field *in, const char *name, bool (*is_valid)(const char *))
{
    json_t *result = json_array();
    struct place list_place = {.parent = in->place, .name = name};
    size_t i;
    json_t *entry;
    json_array_foreach (validate_array(in, name, false, RULE_ENTRIES_MAX), i, entry) {
        struct place place = {.parent = &list_place, .index = i};
        if (!json_is_string(entry))
            validation_fail(in->validation, &place, "string_type", "Input should be a valid string");
        else if (!is_valid(json_string_value(entry)))
            validation_fail(in->validation, &place, "value_error", "value is not a valid address or domain");
        else
            json_array_append(result, entry);
    }
    return result;
}

static json_t *read_rule(const struct field *in, const char *name)
{
    json_t *rule = validate_object(in, name, false);
    if (rule == NULL)
        return json_null();
    struct place place = {.parent = in->place, .name = name};
    struct field inner = {in->validation, &place, rule};
    return json_pack("{s:o, s:o}", "addresses", read_entries(&inner, "addresses", address_is_valid),
                     "domains", read_entries(&inner, "domains", validate_is_domain));
}

static const char *read_address(const struct field *in)
{
    const char *address = validate_line(in, "email_address", true);
    if (address == NULL || address_is_valid(address))
        return address;
    struct place place = {.parent = in->place, .name = "email_address"};
    validation_fail(in->validation, &place, "value_error", "value is not a valid email address");
    return NULL;
}

int upsert_request_read(json_t *body, struct validation *validation, struct upsert_request *ret_request)
{
    static const char *const switches[] = {"allow_cc", "allow_bcc", "spf_pass_required", "dkim_pass_required",
                                           "dmarc_pass_required"};
    struct place top = {.name = "body"};
    struct field in = {validation, &top, body};
    const char *id = validate_line(&in, "id", false);
    const char *name = validate_line(&in, "name", true);
    const char *address = read_address(&in);
    json_t *settings = json_pack("{s:s?, s:s?}", "name", name, "email_address", address);
    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        json_object_set_new(settings, switches[i], json_boolean(validate_boolean(&in, switches[i], true)));
    json_object_set_new(settings, "allowed_from_addresses", read_rule(&in, "allowed_from_addresses"));
    json_object_set_new(settings, "blocked_from_addresses", read_rule(&in, "blocked_from_addresses"));
    json_t *webhook =
        json_pack("{s:s?, s:s?}", "webhook_url", validate_line(&in, "webhook_url", false),
                  "webhook_signing_secret_id", validate_line(&in, "webhook_signing_secret_id", false));
    json_object_update(settings, webhook);
    json_decref(webhook);
    bool is_tracking = validate_boolean(&in, "open_and_click_tracking", false);
    int result = json_object_set_new(settings, "open_and_click_tracking", json_boolean(is_tracking));
    *ret_request = (struct upsert_request){.id = id, .settings = settings};
    return result == 0 ? 0 : -ENOMEM;
}

void upsert_request_release(struct upsert_request *request)
{
    json_decref(request->settings);
    request->settings = NULL;
}
