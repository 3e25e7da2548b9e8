/* SPDX-License-Identifier: MIT */
/*
 * No rule uses SPF, DKIM or DMARC, which the service does not check.
 */
#include "service/inbox.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"
#include "mail/address.h"
#include "mail/date.h"
#include "mail/json_writer.h"
#include "sql/query.h"

/* ---------------------------------------------------------------- rows */

void service_inbox_release(struct service_inbox *inbox)
{
    json_decref(inbox->record);
    inbox->record = NULL;
}

const char *service_inbox_id(const struct service_inbox *inbox)
{
    return json_string_value(json_object_get(inbox->record, "id"));
}

const char *service_inbox_address(const struct service_inbox *inbox)
{
    return json_string_value(json_object_get(inbox->record, "email_address"));
}

const char *service_inbox_name(const struct service_inbox *inbox)
{
    const char *name = json_string_value(json_object_get(inbox->record, "name"));
    return name != NULL && name[0] != '\0' ? name : NULL;
}

static int find_inbox(struct connection *connection, const char *sql, const char *value,
                      struct service_inbox *ret_inbox)
{
    _cleanup_statement_ struct statement statement = {0};
    int error = query_first(connection, &statement, sql, "s", value);
    if (error != 0)
        return error;
    json_t *record = json_loads(query_column_text(statement.row, 1), 0, NULL);
    *ret_inbox = (struct service_inbox){.seq = sqlite3_column_int64(statement.row, 0), .record = record};
    if (service_inbox_id(ret_inbox) != NULL && service_inbox_address(ret_inbox) != NULL)
        return 0;
    service_inbox_release(ret_inbox);
    return -EUCLEAN;
}

int service_inbox_find_by_id(struct connection *connection, const char *id, struct service_inbox *ret_inbox)
{
    return find_inbox(connection, "SELECT seq, record FROM inboxes WHERE id = ?", id, ret_inbox);
}

int service_inbox_find_by_address(struct connection *connection, const char *address,
                                  struct service_inbox *ret_inbox)
{
    return find_inbox(connection, "SELECT seq, record FROM inboxes WHERE address = ?", address, ret_inbox);
}

/* A "+" in a quoted local part begins no tag. */
int service_inbox_find_for_mail(struct connection *connection, const char *address,
                                struct service_inbox *ret_inbox)
{
    int error = service_inbox_find_by_address(connection, address, ret_inbox);
    const char *domain = strrchr(address, '@');
    size_t user_len = strcspn(address, "+@\"");
    if (error != -ENOENT || user_len == 0 || address[user_len] != '+' || domain == NULL)
        return error;
    _cleanup_free_ char *without_tag = g_strdup_printf("%.*s%s", (int)user_len, address, domain);
    return service_inbox_find_by_address(connection, without_tag, ret_inbox);
}

int service_inbox_store(struct connection *turn, int64_t seq, json_t *settings)
{
    char id[37], date[32];
    random_uuid(id);
    date_format(clock_realtime_ms(clock_system()), date);
    if (seq == 0)
        json_object_set_new(settings, "id", json_string(id));
    json_object_set_new(settings, "updated_at", json_string(date));
    const struct service_inbox inbox = {.record = settings};
    _cleanup_free_ char *record = json_dumps(settings, JSON_COMPACT);
    return query_execute(
        turn,
        "INSERT INTO inboxes (seq, id, address, record) VALUES (nullif(?, 0), ?, ?, ?)"
        " ON CONFLICT (seq) DO UPDATE SET address = excluded.address, record = excluded.record",
        "isss", seq, service_inbox_id(&inbox), service_inbox_address(&inbox), record);
}

/* ---------------------------------------------------------------- rules */

static bool list_contains(const json_t *entries, const char *text)
{
    size_t i;
    const json_t *entry;
    json_array_foreach (entries, i, entry) {
        if (json_is_string(entry) && strcasecmp(json_string_value(entry), text) == 0)
            return true;
    }
    return false;
}

/* `rule` is {"addresses": [], "domains": []}, or null in JSON. */
static bool rule_matches(const json_t *rule, const char *address)
{
    const char *at = strrchr(address, '@');
    return list_contains(json_object_get(rule, "addresses"), address) ||
           (at != NULL && list_contains(json_object_get(rule, "domains"), at + 1));
}

static bool has_blocked_author(const json_t *blocked, const json_t *authors)
{
    size_t i;
    const json_t *author;
    json_array_foreach (authors, i, author) {
        const char *address = json_string_value(json_object_get(author, "address"));
        /* The text may be no address, but mail programs may show one that is in it. */
        g_auto(GStrv) parts = g_strsplit_set(address, " <>(),;\"", -1);
        bool is_blocked = rule_matches(blocked, address);
        for (char **part = parts; *part != NULL && !is_blocked; part++) {
            if (g_str_has_suffix(*part, "."))
                (*part)[strlen(*part) - 1] = '\0';
            is_blocked = rule_matches(blocked, *part);
        }
        if (is_blocked)
            return true;
    }
    return false;
}

struct verdict inbox_judge(const json_t *inbox_record, const char *from_address, const json_t *authors,
                           enum recipient_header header)
{
    const json_t *allowed = json_object_get(inbox_record, "allowed_from_addresses");
    const json_t *blocked = json_object_get(inbox_record, "blocked_from_addresses");
    if (rule_matches(blocked, from_address) || has_blocked_author(blocked, authors))
        return (struct verdict){"blocked_from_address", "The sender is on the inbox's block list."};
    bool allows_all = json_array_size(json_object_get(allowed, "addresses")) == 0 &&
                      json_array_size(json_object_get(allowed, "domains")) == 0;
    if (!allows_all && !rule_matches(allowed, from_address))
        return (struct verdict){"not_allowed_from_address", "The sender is not on the inbox's allow list."};
    if (header == DELIVERY_CC && !json_is_true(json_object_get(inbox_record, "allow_cc")))
        return (struct verdict){"not_allowed_cc_address", "The inbox may not be reached by Cc."};
    if (header == DELIVERY_BCC && !json_is_true(json_object_get(inbox_record, "allow_bcc")))
        return (struct verdict){"not_allowed_bcc_address", "The inbox may not be reached by Bcc."};
    return (struct verdict){"valid", NULL};
}

/* ---------------------------------------------------------------- requests */

enum {
    RULE_ENTRIES_MAX = 10000,
};

static json_t *read_entries(const struct input *in, const char *name, bool (*is_valid)(const char *))
{
    json_t *result = json_array();
    const struct input list = validate_array(in, name, false, RULE_ENTRIES_MAX);
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        const struct input item = input_item(&list, i);
        const char *entry = input_text(&item);
        if (entry != NULL && is_valid(entry))
            json_array_append_new(result, json_string(entry));
        else if (entry != NULL)
            input_add_problem(&item, "value_error", "value is not a valid address or domain");
    }
    return result;
}

static json_t *read_rule(const struct input *in, const char *name)
{
    const struct input rule = validate_object(in, name);
    if (rule.value == NULL)
        return json_null();
    return json_pack("{s:o, s:o}", "addresses", read_entries(&rule, "addresses", address_is_valid), "domains",
                     read_entries(&rule, "domains", validate_is_domain));
}

json_t *inbox_settings_read(json_t *body, struct validation *validation)
{
    static const char *const switches[] = {"allow_cc", "allow_bcc", "spf_pass_required", "dkim_pass_required",
                                           "dmarc_pass_required"};
    static const char *const rules[] = {"allowed_from_addresses", "blocked_from_addresses"};
    static const char *const webhook_lines[] = {"webhook_url", "webhook_signing_secret_id"};
    const struct input in = {.validation = validation, .name = "body", .value = body};
    const char *id = validate_line(&in, "id", false);
    const char *name = validate_line(&in, "name", true);
    json_t *settings = json_pack("{s:s?, s:s?, s:s?}", "id", id, "name", name, "email_address",
                                 validate_address(&in, "email_address"));
    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        json_object_set_new(settings, switches[i], json_boolean(validate_boolean(&in, switches[i], true)));
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        json_object_set_new(settings, rules[i], read_rule(&in, rules[i]));
    for (size_t i = 0; i < ARRAY_LEN(webhook_lines); i++)
        json_object_set_new(settings, webhook_lines[i],
                            json_pack("s?", validate_line(&in, webhook_lines[i], false)));
    bool is_tracking = validate_boolean(&in, "open_and_click_tracking", false);
    json_object_set_new(settings, "open_and_click_tracking", json_boolean(is_tracking));
    return settings;
}

json_t *inbox_settings_default(const char *address)
{
    _cleanup_json_ json_t *body =
        json_pack("{s:s%, s:s}", "name", address, strcspn(address, "@"), "email_address", address);
    _cleanup_validation_ struct validation validation = {0};
    _cleanup_json_ json_t *settings = inbox_settings_read(body, &validation);
    return validation.problems != NULL ? NULL : TAKE_PTR(settings);
}
