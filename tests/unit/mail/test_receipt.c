/* SPDX-License-Identifier: MIT */
/*
 * The service's report of sent mail becomes members of a receipt.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "mail/receipt.h"

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
