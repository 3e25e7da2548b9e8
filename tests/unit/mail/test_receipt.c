/* SPDX-License-Identifier: MIT */
/*
 * What the service tells of sent mail, put into receipts.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "mail/json_value.h"
#include "mail/receipt.h"

static char *format(const char *record)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    assert_int_equal(receipt_delivery_format(record, strlen(record), &text), 0);
    return text.len == 0 ? strdup("") : strbuf_take(&text, NULL);
}

static void status_and_latest_event_are_members(void **state)
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
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_free_ char *members = format(rows[i].record);
        assert_string_equal(members, rows[i].members);
    }
}

static void what_is_no_record_is_refused(void **state)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    (void)state;
    assert_int_equal(receipt_delivery_format("[]", 2, &text), -EBADMSG);
    assert_int_equal(receipt_delivery_format("{", 1, &text), -EBADMSG);
    assert_int_equal(text.len, 0);
}

static void a_receipt_stays_json_with_them(void **state)
{
    struct envelope envelope = {.state = "sent", .kind = ENVELOPE_MESSAGE, .request = (char *)"{\"a\":1}"};
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(1 << 16);
    _cleanup_strbuf_ struct strbuf joined = STRBUF_INIT(1 << 16);
    (void)state;
    assert_int_equal(receipt_format(&envelope, &receipt), 0);
    _cleanup_free_ char *members =
        format("{\"status\": \"sent\", \"latest_event\": {\"event_type\": \"click\"}}");
    size_t end = receipt_end(receipt.data, receipt.len);
    strbuf_appendf(&joined, "%.*s%s%s", (int)end, receipt.data, members, receipt.data + end);
    _cleanup_json_ json_t *value = json_loadb(joined.data, joined.len, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(json_string_value(json_object_get(value, "status")), "sent");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(value, "latest_event"), "event_type")), "click");
    assert_true(json_is_object(json_object_get(value, "request")));
    assert_int_equal(receipt_end("{}", 2), 2);
}

/* The receipt is what a user looks at when something is wrong. */
static void a_damaged_envelope_makes_a_receipt_that_is_json(void **state)
{
    static const char *const requests[] = {
        "",
        "{",
        "{}}",
        "not json",
        "{\"a\":1}\n}\n{",
        "1, \"state\": \"sent\"",
        "\x01",
        "{\"a\":\"\xff\"}",
        "[[[[",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        struct envelope envelope = {.state = "failed",
                                    .accepted_ms = INT64_MAX,
                                    .finished_ms = INT64_MIN,
                                    .attempts = UINT_MAX,
                                    .http_status = INT_MIN,
                                    .error = (char *)"\x1b[2J",
                                    .request = (char *)requests[i]};
        _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(1 << 16);
        assert_int_equal(receipt_format(&envelope, &receipt), 0);
        _cleanup_json_ json_t *value = json_loadb(receipt.data, receipt.len, JSON_REJECT_DUPLICATES, NULL);
        if (value == NULL)
            fail_msg("with the request %s: %s", requests[i], strbuf_str(&receipt));
        assert_string_equal(json_string_value(json_object_get(value, "state")), "failed");
        assert_true(json_is_string(json_object_get(value, "request")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_and_latest_event_are_members),
        cmocka_unit_test(what_is_no_record_is_refused),
        cmocka_unit_test(a_receipt_stays_json_with_them),
        cmocka_unit_test(a_damaged_envelope_makes_a_receipt_that_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
