/* SPDX-License-Identifier: MIT */
/*
 * Receipts are valid JSON for any texts in them, and include the service's report of the sent mail.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "mail/json_writer.h"
#include "mail/receipt.h"

TEST(a_receipt_is_json_with_all_members)
{
    static const char *const members[] = {"state",       "kind",        "id",       "idempotency_key",
                                          "accepted_at", "finished_at", "attempts", "http_status",
                                          "error",       "request"};
    const struct receipt receipt = {
        .state = "sent",
        .kind = "message",
        .key = "3c90c3cc-0d44-4b50-8888-8dd25736052a",
        .not_carried = "one\na \"second\" one",
        .request = "{\"subject\":\"a \\\"quote\\\" \\u0000\"}",
        .attempts = 3,
        .accepted_ms = 1795176000000,
        .finished_ms = 1795176001234,
        .http_status = 200,
        .id = "id",
        .error = "words\x1b[31m \xff",
    };
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RECEIPT_MAX_BYTES);
    assert_int_equal(receipt_format(&receipt, &text), 0);
    json_t *root = json_loadb(text.data, text.len, JSON_ALLOW_NUL, NULL);
    assert_true(json_is_object(root));
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        assert_non_null(json_object_get(root, members[i]));
    assert_true(json_is_object(json_object_get(root, "request")));
    assert_string_equal(json_string_value(json_object_get(root, "finished_at")), "2026-11-20T12:00:01.234Z");
    assert_null(strchr(text.data, '\x1b'));
    assert_int_equal(json_array_size(json_object_get(root, "not_carried")), 2);
    json_decref(root);

    strbuf_clear(&text);
    const struct receipt bare = {.state = "uploading", .kind = "attachment", .key = ""};
    assert_int_equal(receipt_format(&bare, &text), 0);
    assert_non_null(strstr(text.data, "\"request\": null"));
    assert_non_null(strstr(text.data, "\"http_status\": null"));
    assert_non_null(strstr(text.data, "\"kind\": \"attachment\""));
}

static char *format_delivery(const char *record)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    assert_int_equal(receipt_delivery_format(record, strlen(record), &text), 0);
    return strbuf_take(&text, NULL);
}

TEST(status_and_latest_event_become_members_of_a_receipt)
{
    static const struct {
        const char *record;
        const char *members;
    } rows[] = {
        {"{\"id\": \"1\"}", ""},
        {"{\"status\": \"sent\"}", ",\n  \"status\": \"sent\""},
        {"{\"status\": \"pending\", \"latest_event\": null}",
         ",\n  \"status\": \"pending\",\n  \"latest_event\": null"},
        {"{\"latest_event\": {\"event_type\": \"open\", \"date\": \"2026-11-20\"}, \"status\": \"sent\"}",
         ",\n  \"status\": \"sent\",\n  \"latest_event\": {\n    \"event_type\": \"open\",\n    \"date\": "
         "\"2026-11-20\"\n  }"},
        {"{\"status\": [\"odd\"]}", ",\n  \"status\": [\n    \"odd\"\n  ]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_free_ char *members = format_delivery(rows[i].record);
        assert_string_equal(members, rows[i].members);
    }
}

TEST(a_delivery_that_is_not_an_object_is_refused)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    assert_int_equal(receipt_delivery_format("[]", 2, &text), -EBADMSG);
    assert_int_equal(receipt_delivery_format("{", 1, &text), -EBADMSG);
    assert_int_equal(text.len, 0);
}

TEST(a_receipt_with_delivery_members_is_json)
{
    const struct receipt sent = {.state = "sent", .kind = "message", .key = "", .request = "{\"a\":1}"};
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(1 << 16);
    _cleanup_strbuf_ struct strbuf joined = STRBUF_INIT(1 << 16);
    assert_int_equal(receipt_format(&sent, &receipt), 0);
    _cleanup_free_ char *members =
        format_delivery("{\"status\": \"sent\", \"latest_event\": {\"event_type\": \"click\"}}");
    size_t end = receipt.len - strlen(RECEIPT_END);
    assert_string_equal(receipt.data + end, RECEIPT_END);
    strbuf_appendf(&joined, "%.*s%s" RECEIPT_END, (int)end, receipt.data, members);
    _cleanup_json_ json_t *value = json_loadb(joined.data, joined.len, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(json_string_value(json_object_get(value, "status")), "sent");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(value, "latest_event"), "event_type")), "click");
    assert_true(json_is_object(json_object_get(value, "request")));
}
