/* SPDX-License-Identifier: MIT */
/*
 * Inboxes over HTTP: records, defaults, full updates, conflicts, the welcome email.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "unit/service/service_fixture.h"

#include "support/test.h"

#define UPSERT "/api/v1/inbox/upsert"
#define INBOX_MEMBERS                                                                \
    "id name email_address allow_cc allow_bcc spf_pass_required dkim_pass_required " \
    "dmarc_pass_required allowed_from_addresses blocked_from_addresses webhook_url " \
    "webhook_signing_secret_id open_and_click_tracking updated_at"

TEST_WITH(a_new_inbox_has_every_field, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    json_t *made = call(fixture, "POST", UPSERT,
                        json_pack("{s:n, s:s, s:s, s:n}", "id", "name", "Ann", "email_address",
                                  "ann@inbox.localhost", "allow_cc"),
                        200);
    assert_members(made, INBOX_MEMBERS " webhook_secret");
    assert_true(json_is_true(json_object_get(made, "allow_cc")));
    assert_true(json_is_null(json_object_get(made, "webhook_secret")));
    assert_true(json_is_null(json_object_get(made, "blocked_from_addresses")));

    json_t *list = get(fixture, "/api/v1/inbox");
    assert_int_equal(1, json_array_size(list));
    assert_members(json_array_get(list, 0), INBOX_MEMBERS);
    assert_string_equal(text_of(made, "id"), text_of(json_array_get(list, 0), "id"));
    json_decref(list);
    json_decref(made);
}

TEST_WITH(an_update_resets_fields_that_it_leaves_out, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    json_t *settings = json_pack("{s:b, s:{s:[s], s:[]}, s:b, s:s}", "allow_bcc", false,
                                 "blocked_from_addresses", "addresses", "x@y.example", "domains",
                                 "open_and_click_tracking", true, "webhook_url", "http://x.example/");
    char *id = create_inbox(fixture, "ann@inbox.localhost", settings);
    json_t *updated = call(
        fixture, "POST", UPSERT,
        json_pack("{s:s, s:s, s:s}", "id", id, "name", "New", "email_address", "Ann@inbox.localhost"), 200);
    assert_string_equal(id, text_of(updated, "id"));
    assert_string_equal("New", text_of(updated, "name"));
    assert_true(json_is_true(json_object_get(updated, "allow_bcc")));
    assert_true(json_is_false(json_object_get(updated, "open_and_click_tracking")));
    assert_true(json_is_null(json_object_get(updated, "blocked_from_addresses")));
    assert_true(json_is_null(json_object_get(updated, "webhook_url")));
    assert_int_equal(1, count_of(fixture, "/api/v1/inbox"));
    json_decref(updated);
    free(id);
}

static char *date_of_update(const struct fixture *fixture)
{
    json_t *list = get(fixture, "/api/v1/inbox");
    char *date = strdup(text_of(json_array_get(list, 0), "updated_at"));
    json_decref(list);
    assert_non_null(date);
    return date;
}

TEST_WITH(an_update_sets_updated_at, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    _cleanup_free_ char *id = create_inbox(fixture, "ann@inbox.localhost", NULL);
    _cleanup_free_ char *made = date_of_update(fixture);
    int64_t until_ms = clock_monotonic_ms(clock_system()) + 10000;
    bool is_later = false;
    while (!is_later && clock_monotonic_ms(clock_system()) < until_ms) { /* dates are whole milliseconds */
        json_decref(call(
            fixture, "POST", UPSERT,
            json_pack("{s:s, s:s, s:s}", "id", id, "name", "New", "email_address", "ann@inbox.localhost"),
            200));
        _cleanup_free_ char *updated = date_of_update(fixture);
        is_later = strcmp(updated, made) > 0;
    }
    assert_true(is_later);
}

TEST_WITH(two_inboxes_cannot_have_one_address, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, "ann@inbox.localhost", NULL));
    char *bob = create_inbox(fixture, "bob@inbox.localhost", NULL);
    json_decref(call(fixture, "POST", UPSERT,
                     json_pack("{s:n, s:s, s:s}", "id", "name", "x", "email_address", "ANN@inbox.localhost"),
                     409));
    json_decref(call(
        fixture, "POST", UPSERT,
        json_pack("{s:s, s:s, s:s}", "id", bob, "name", "x", "email_address", "ann@inbox.localhost"), 409));
    json_decref(call(
        fixture, "POST", UPSERT,
        json_pack("{s:s, s:s, s:s}", "id", bob, "name", "x", "email_address", "bo@inbox.localhost"), 200));
    free(bob);
}

TEST_WITH(an_update_of_an_unknown_inbox_is_refused, fixture_set_up, fixture_tear_down)
{
    json_t *error = call(
        *state, "POST", UPSERT,
        json_pack("{s:s, s:s, s:s}", "id", "nobody", "name", "x", "email_address", "ann@inbox.localhost"),
        404);
    assert_members(error, "detail");
    json_decref(error);
    assert_int_equal(0, count_of(*state, "/api/v1/inbox"));
}

static const struct {
    const char *request;
    const char *location; /* the field that the answer names in `loc` */
} wrong[] = {
    {"{\"email_address\":\"a@inbox.localhost\"}", "name"},
    {"{\"name\":\"x\"}", "email_address"},
    {"{\"name\":null,\"email_address\":\"a@inbox.localhost\"}", "name"},
    {"{\"name\":5,\"email_address\":\"a@inbox.localhost\"}", "name"},
    {"{\"name\":\"a\\nb\",\"email_address\":\"a@inbox.localhost\"}", "name"},
    {"{\"name\":\"x\",\"email_address\":\"a@else.example\"}", "email_address"},
    {"{\"name\":\"x\",\"email_address\":\"a\"}", "email_address"},
    {"{\"name\":\"x\",\"email_address\":\"a b@inbox.localhost\"}", "email_address"},
    {"{\"name\":\"x\",\"email_address\":\"@inbox.localhost\"}", "email_address"},
    {"{\"id\":7,\"name\":\"x\",\"email_address\":\"a@inbox.localhost\"}", "id"},
    {"{\"name\":\"x\",\"email_address\":\"a@inbox.localhost\",\"allow_cc\":\"yes\"}", "allow_cc"},
    {"{\"name\":\"x\",\"email_address\":\"a@inbox.localhost\",\"allowed_from_addresses\":[]}",
     "allowed_from_addresses"},
    {"{\"name\":\"x\",\"email_address\":\"a@inbox.localhost\",\"webhook_url\":{}}", "webhook_url"},
};

TEST_WITH(a_refusal_names_the_wrong_field, fixture_set_up, fixture_tear_down)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        json_t *error = call(*state, "POST", UPSERT, json_loads(wrong[i].request, 0, NULL), 422);
        const json_t *problem = json_array_get(json_object_get(error, "detail"), 0);
        assert_members(problem, "loc msg type");
        const json_t *location = json_object_get(problem, "loc");
        assert_string_equal("body", json_string_value(json_array_get(location, 0)));
        assert_string_equal(wrong[i].location, json_string_value(json_array_get(location, 1)));
        json_decref(error);
    }
    assert_int_equal(0, count_of(*state, "/api/v1/inbox"));
}

TEST_WITH(a_refusal_names_the_position_of_a_bad_rule, fixture_set_up, fixture_tear_down)
{
    const char *text = "{\"name\":\"x\",\"email_address\":\"a@inbox.localhost\","
                       "\"blocked_from_addresses\":{\"addresses\":[\"a@b\",\"c\",7],\"domains\":[\"d@e\"]}}";
    json_t *error = call(*state, "POST", UPSERT, json_loads(text, 0, NULL), 422);
    char *dumped = json_dumps(error, JSON_COMPACT);
    assert_non_null(strstr(dumped, "[\"body\",\"blocked_from_addresses\",\"addresses\",1]"));
    assert_non_null(strstr(dumped, "[\"body\",\"blocked_from_addresses\",\"addresses\",2]"));
    assert_non_null(strstr(dumped, "should be a valid string"));
    assert_non_null(strstr(dumped, "[\"body\",\"blocked_from_addresses\",\"domains\",0]"));
    free(dumped);
    json_decref(error);
}

TEST_WITH(the_first_inbox_gets_a_welcome_email, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *first = create_inbox(fixture, "ann@inbox.localhost", NULL);
    free(create_inbox(fixture, "bob@inbox.localhost", NULL));
    assert_int_equal(1, count_of(fixture, "/api/v1/email?valid_only=false"));
    json_t *email = newest_email(fixture, first, "");
    assert_string_equal("support@inbox.localhost",
                        text_of(json_object_get(email, "from_address"), "address"));
    json_decref(email);
    free(first);
}

TEST_WITH(rules_can_prevent_the_welcome_email, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    json_t *rule =
        json_pack("{s:{s:[], s:[s]}}", "blocked_from_addresses", "addresses", "domains", "inbox.localhost");
    free(create_inbox(fixture, "ann@inbox.localhost", rule));
    assert_int_equal(0, count_of(fixture, "/api/v1/email"));
}
