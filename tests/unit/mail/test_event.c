/* SPDX-License-Identifier: MIT */
/*
 * Events are written as lines of JSON, and a service_result is released.
 */
#include "mail/event.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/mail_service.h"
#include "support/test.h"

TEST(an_event_is_written_as_one_line_of_json)
{
    static const struct {
        struct event event;
        const char *line;
    } cases[] = {
        {{INT64_C(1795169676123), EVENT_MAIL, "inboxes/a@b/x.json", "3c90", NULL},
         "{\"time\":\"2026-11-20T10:14:36.123Z\",\"event\":\"mail\",\"path\":\"inboxes/a@b/x.json\","
         "\"id\":\"3c90\"}\n"},
        {{0, EVENT_REFUSED, "outbox/a\nb", NULL, "line\nbreak \x1b[0m \xff"},
         "{\"time\":\"1970-01-01T00:00:00.000Z\",\"event\":\"refused\",\"path\":\"outbox/a\\nb\",\"id\":null,"
         "\"error\":\"line\\nbreak \\u001b[0m \ufffd\"}\n"},
        {{0, EVENT_OFFLINE, NULL, NULL, "no connection"},
         "{\"time\":\"1970-01-01T00:00:00.000Z\",\"event\":\"offline\",\"path\":null,\"id\":null,"
         "\"error\":\"no connection\"}\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1000);
        assert_int_equal(event_append_line(&cases[i].event, &out), 0);
        assert_string_equal(strbuf_str(&out), cases[i].line);
    }
}

TEST(each_kind_of_event_has_the_name_of_the_contract)
{
    static const struct {
        enum event_kind kind;
        const char *name;
    } cases[] = {
        {EVENT_MAIL, "mail"},       {EVENT_SENT, "sent"},         {EVENT_FAILED, "failed"},
        {EVENT_REFUSED, "refused"}, {EVENT_UPLOADED, "uploaded"}, {EVENT_INBOX, "inbox"},
        {EVENT_UNSEEN, "unseen"},   {EVENT_OFFLINE, "offline"},   {EVENT_ONLINE, "online"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(event_kind_name(cases[i].kind), cases[i].name);
}

TEST(a_service_result_can_be_released_twice)
{
    struct service_result result = {.outcome = SERVICE_REJECTED, .detail = strdup("words")};
    service_result_release(&result);
    assert_null(result.detail);
    assert_true(result.retry_after_ms == -1);
    service_result_release(&result);
}
