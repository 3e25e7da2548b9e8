/* SPDX-License-Identifier: MIT */
/*
 * Inbox records, and the requests that create and change inboxes.
 */
#include "mail/inbox_record.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/json_writer.h"
#include "support/test.h"

static const char full[] =
    "{\"id\":\"box-1\",\"name\":\"Alice\",\"email_address\":\"alice@x.example\","
    "\"allow_cc\":false,\"allowed_from_addresses\":{\"addresses\":[\"b@c\"],\"domains\":[]},"
    "\"webhook_url\":null,\"future\":{\"x\":1},\"updated_at\":\"2026-11-20\","
    "\"webhook_secret\":\"s\"}";

static struct inbox_record read_record(const char *text)
{
    struct inbox_record record;
    assert_int_equal(inbox_record_from_text(text, strlen(text), &record), 0);
    return record;
}

TEST(a_record_keeps_its_fields_unchanged)
{
    struct inbox_record record = read_record("{\"name\":\"A\",\"id\":\"1\",\"email_address\":\"a@b\"}");
    assert_string_equal(record.json,
                        "{\n  \"name\": \"A\",\n  \"id\": \"1\",\n  \"email_address\": \"a@b\"\n}\n");
    assert_int_equal(record.json_len, strlen(record.json));
    assert_string_equal(record.id, "1");
    assert_string_equal(record.address, "a@b");

    struct inbox_record again = read_record(record.json);
    assert_string_equal(again.json, record.json);
    inbox_record_release(&again);
    inbox_record_release(&record);
}

TEST(the_id_and_the_address_of_a_record_are_checked)
{
    static const struct {
        const char *text;
        int error;
        const char *id;
        const char *address;
    } cases[] = {
        {"{\"id\":\"1\"}", 0, "1", NULL},
        {"{\"id\":7,\"email_address\":\"a@b\"}", 0, "7", "a@b"},
        {"{\"id\":\"1\",\"email_address\":\"../../x\"}", 0, "1", NULL},
        {"{\"id\":\"1\",\"email_address\":\"a@b\\u0000/x\"}", 0, "1", NULL},
        {"{\"id\":\"1\",\"email_address\":5}", 0, "1", NULL},
        {"{\"id\":\"1\",\"email_address\":null}", 0, "1", NULL},
        {"{}", -EINVAL, NULL, NULL},
        {"{\"id\":null}", -EINVAL, NULL, NULL},
        {"{\"id\":\"\"}", -EINVAL, NULL, NULL},
        {"{\"id\":\"a\\u0000b\"}", -EINVAL, NULL, NULL},
        {"{\"id\":[1]}", -EINVAL, NULL, NULL},
        {"[]", -EINVAL, NULL, NULL},
        {"{\"id\":\"1\"", -EBADMSG, NULL, NULL},
        {"", -EBADMSG, NULL, NULL},
        {"{\"id\":\"\xff\"}", -EILSEQ, NULL, NULL},
        {"{\"id\":\"1\",\"id\":\"2\"}", -EEXIST, NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct inbox_record record;
        int error = inbox_record_from_text(cases[i].text, strlen(cases[i].text), &record);
        if (error != cases[i].error)
            fail_msg("%s: %d", cases[i].text, error);
        if (error != 0)
            continue;
        assert_string_equal(record.id, cases[i].id);
        if (cases[i].address == NULL)
            assert_null(record.address);
        else
            assert_string_equal(record.address, cases[i].address);
        inbox_record_release(&record);
    }
}

TEST(from_id_makes_a_record_with_the_id_alone)
{
    struct inbox_record record;
    assert_int_equal(inbox_record_from_id("box \"1\"", &record), 0);
    assert_string_equal(record.id, "box \"1\"");
    assert_null(record.address);
    assert_string_equal(record.json, "{\n  \"id\": \"box \\\"1\\\"\"\n}\n");
    inbox_record_release(&record);
    assert_int_equal(inbox_record_from_id("", &record), -EINVAL);
    assert_int_equal(inbox_record_from_id("\xff", &record), -EINVAL);
}

TEST(a_creation_request_has_a_null_id_and_the_local_part_as_name)
{
    _cleanup_free_ char *request = NULL;
    struct inbox_record record;
    assert_int_equal(inbox_request_create("alice+1@inbox.example", &request), 0);
    assert_string_equal(request,
                        "{\"id\":null,\"name\":\"alice+1\",\"email_address\":\"alice+1@inbox.example\"}");
    assert_int_equal(inbox_record_from_request(request, "new-id", &record), 0);
    assert_string_equal(record.id, "new-id");
    assert_string_equal(record.address, "alice+1@inbox.example");
    inbox_record_release(&record);
}

TEST(an_address_that_cannot_name_a_folder_gets_no_creation_request)
{
    static const char *const cases[] = {"", "alice", "a b@c", ".alice@x", "-alice@x", "<a@b>", "a/b@c"};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *request = NULL;
        assert_int_equal(inbox_request_create(cases[i], &request), -EINVAL);
        assert_null(request);
    }
}

TEST(an_update_request_repeats_every_field)
{
    static const struct {
        const char *edited;
        const char *request;
    } cases[] = {
        {"{}",
         "{\"id\":\"box-1\",\"name\":\"Alice\",\"email_address\":\"alice@x.example\",\"allow_cc\":false,"
         "\"allowed_from_addresses\":{\"addresses\":[\"b@c\"],\"domains\":[]},\"webhook_url\":null,"
         "\"future\":{\"x\":1}}"},
        {"{\"id\":\"box-1\",\"name\":\"B\",\"allow_cc\":true,\"allowed_from_addresses\":null,"
         "\"open_and_click_tracking\":true,\"future\":2,\"updated_at\":1}",
         "{\"id\":\"box-1\",\"name\":\"B\",\"email_address\":\"alice@x.example\",\"allow_cc\":true,"
         "\"allowed_from_addresses\":null,\"webhook_url\":null,\"future\":2,\"open_and_click_tracking\":"
         "true}"},
        {"{\"id\":null,\"webhook_url\":\"https://x\",\"blocked_from_addresses\":{\"domains\":[\"x\"]}}",
         "{\"id\":\"box-1\",\"name\":\"Alice\",\"email_address\":\"alice@x.example\",\"allow_cc\":false,"
         "\"allowed_from_addresses\":{\"addresses\":[\"b@c\"],\"domains\":[]},\"webhook_url\":\"https://x\","
         "\"future\":{\"x\":1},\"blocked_from_addresses\":{\"domains\":[\"x\"]}}"},
        /* A user may save the service's name of the inbox unchanged. */
        {"{\"name\":\"A\\u0000B\"}",
         "{\"id\":\"box-1\",\"name\":\"A\\u0000B\",\"email_address\":\"alice@x.example\",\"allow_cc\":false,"
         "\"allowed_from_addresses\":{\"addresses\":[\"b@c\"],\"domains\":[]},\"webhook_url\":null,"
         "\"future\":{\"x\":1}}"},
    };
    struct inbox_record current = read_record(full);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *request = NULL;
        char *reason = NULL;
        assert_int_equal(
            inbox_request_update(&current, cases[i].edited, strlen(cases[i].edited), &request, &reason), 0);
        assert_string_equal(request, cases[i].request);
        assert_null(reason);
    }
    inbox_record_release(&current);
}

TEST(an_invalid_update_is_refused_with_a_reason)
{
    static const struct {
        const char *edited;
        const char *reason; /* the beginning of the reason */
    } cases[] = {
        {"", "not JSON: line 1"},
        {"{\"name\":", "not JSON: line 1"},
        {"{} {}", "not JSON: line 1"},
        {"{\"name\":\"a\",\"name\":\"b\"}", "not JSON: line 1"},
        {"{\"name\":\"\xff\"}", "not JSON: line 1"},
        {"[]", "not a JSON object"},
        {"{\"id\":\"box-2\"}", "id: is another inbox's"},
        {"{\"id\":1}", "id: is another inbox's"},
    };
    struct inbox_record current = read_record(full);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *request = NULL;
        _cleanup_free_ char *reason = NULL;
        int error =
            inbox_request_update(&current, cases[i].edited, strlen(cases[i].edited), &request, &reason);
        if (error != -EINVAL || strncmp(reason, cases[i].reason, strlen(cases[i].reason)) != 0)
            fail_msg("%s: %d %s", cases[i].edited, error, reason);
        assert_null(request);
    }
    inbox_record_release(&current);
}

/* Without the id the request would create an inbox. */
TEST(a_record_without_an_id_gives_no_update)
{
    static char json[] = "{\"name\": \"n\"}";
    const struct inbox_record current = {.json = json, .json_len = strlen(json)};
    char *request = NULL;
    _cleanup_free_ char *reason = NULL;
    assert_int_equal(inbox_request_update(&current, "{\"id\":null}", 11, &request, &reason), -EINVAL);
    assert_string_equal(reason, "the record of the inbox cannot be read");
    assert_null(request);
}

TEST(only_one_whole_object_or_array_is_complete)
{
    static const char text[] = "{\n  \"a\": [1, {\"b\": \"}\"}]\n}";
    for (size_t len = 0; len < strlen(text); len++)
        assert_false(inbox_text_is_complete(text, len));
    assert_true(inbox_text_is_complete(text, strlen(text)));
    assert_true(inbox_text_is_complete("{}\n\n", 4));
    assert_true(inbox_text_is_complete("[\"\\u0000\"]", 10));
    assert_false(inbox_text_is_complete("{}}", 3));
    assert_false(inbox_text_is_complete("{}{}", 4));
    assert_false(inbox_text_is_complete("12", 2));
}
