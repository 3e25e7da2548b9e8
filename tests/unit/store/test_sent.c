/* SPDX-License-Identifier: MIT */
/*
 * The service's list of sent mail.
 */
#include <fcntl.h>
#include <unistd.h>

#include "support/test.h"

#include "sql/query.h"
#include "unit/store/store_fixture.h"

static const struct service_capabilities extended = {.inbox_list = CAPABILITY_PRESENT};

static void add(struct store_fixture *fixture, const char *id, const char *rest)
{
    char json[512];
    snprintf(json, sizeof(json), "{\"id\": \"%s\", \"date\": \"2026-11-20T10:00:00Z\", \"subject\": \"s\"%s}",
             id, rest);
    fake_service_add_outbound(fixture->fake, "in-1", json);
}

static int set_up(void **state)
{
    struct store_fixture *fixture = malloc(sizeof(*fixture));
    fixture_init_with_alice(fixture);
    fixture->hears_sent = true;
    fake_service_set_capabilities(fixture->fake, &extended);
    add(fixture, "00000001", ", \"status\": \"pending\"");
    add(fixture, "00000002", ", \"status\": \"sent\"");
    fixture_start(fixture);
    assert_int_equal(fixture_sync(fixture), 0);
    *state = fixture;
    return 0;
}

static void assert_sent(struct store_fixture *fixture, const char *expected)
{
    _cleanup_strbuf_ struct strbuf names = STRBUF_INIT(1 << 16);
    struct email_view view;
    uint64_t position = 0;
    while (store_list_emails(fixture->store, STORE_SENT, false, position, &view, &position, 1) > 0)
        strbuf_appendf(&names, "%s%s", names.len > 0 ? " " : "", view.name);
    assert_string_equal(strbuf_str(&names), expected);
}

#define FIRST "20261120T100000Z_s_00000001.json"
#define SECOND "20261120T100000Z_s_00000002.json"

TEST_WITH(sent_mail_is_listed_and_survives_a_restart, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    struct email_view view;
    assert_sent(fixture, SECOND " " FIRST);
    assert_true(store_find_email(fixture->store, STORE_SENT, false, FIRST, &view));
    assert_string_equal(store_get_email_id(fixture->store, view.number), "00000001");
    assert_true(store_find_sent_by_id(fixture->store, "00000002", &view));
    _cleanup_free_ char *json = NULL;
    size_t len;
    assert_int_equal(store_read_email(fixture->store, view.number, &json, &len), 0);
    assert_non_null(strstr(json, "\"status\": \"sent\""));
    assert_false(store_find_sent_by_id(fixture->store, "00000003", &view));
    /* Sent mail is not counted as received, nor is it shown as an inbox. */
    assert_int_equal(fixture_count(fixture), 0);
    assert_inboxes(fixture, "alice@inbox.example");
    assert_events(fixture, "");
    fake_service_set_reachable(fixture->fake, false);
    fixture_restart(fixture);
    assert_sent(fixture, SECOND " " FIRST);
}

TEST_WITH(sent_mail_is_removed_only_after_two_lists_without_it, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_remove_outbound(fixture->fake);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fixture_sync(fixture), 0);
        assert_sent(fixture, SECOND " " FIRST);
    }
    fake_clock_advance(&fixture->clock, INDEX_CONFIRM_MS);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_sent(fixture, "");
}

TEST_WITH(new_sent_mail_is_reported, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fixture_forget(fixture);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_changes(fixture, "");
    add(fixture, "00000003", ", \"status\": \"sent\"");
    assert_int_equal(fixture_sync(fixture), 0);
    struct email_view view;
    char expected[64];
    assert_true(store_find_sent_by_id(fixture->store, "00000003", &view));
    snprintf(expected, sizeof(expected), "sent %u added;", view.number);
    assert_non_null(strstr(strbuf_str(&fixture->changes), expected));
}

TEST_WITH(sent_mail_needs_one_request_a_sync, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_OUTBOUND);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_LIST_OUTBOUND), before + 1);
}

TEST_WITH(a_failed_list_of_sent_mail_does_not_fail_the_sync, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    static const enum service_outcome outcomes[] = {SERVICE_RETRY, SERVICE_REJECTED, SERVICE_ABSENT,
                                                    SERVICE_UNKNOWN};
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        fake_service_set(fixture->fake, FAKE_LIST_OUTBOUND, (struct fake_outcome){.outcome = outcomes[i]});
        assert_int_equal(fixture_sync(fixture), 0);
        assert_sent(fixture, SECOND " " FIRST);
    }
}

TEST(a_core_server_gets_no_request_for_sent_mail)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_OUTBOUND), 0);
    fixture_release(&fixture);
}

TEST_WITH(hidden_sent_mail_stays_hidden, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    store_hide_sent(fixture->store, "00000002");
    store_hide_sent(fixture->store, "00000003"); /* the service has not listed it yet */
    assert_sent(fixture, FIRST);
    add(fixture, "00000003", ", \"status\": \"sent\"");
    add(fixture, "00000004", ", \"status\": \"sent\"");
    assert_int_equal(fixture_sync(fixture), 0);
    assert_sent(fixture, FIRST " 20261120T100000Z_s_00000004.json");
    fixture_restart(fixture);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_sent(fixture, FIRST " 20261120T100000Z_s_00000004.json");
}

/* Makes a cache of version 0.2, in which 00000002 is hidden. */
TEST_WITH(mail_that_version_0_2_hid_stays_hidden, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    char path[64];
    sqlite3 *old = NULL;
    fixture_close(fixture);
    assert_int_equal(unlinkat(fixture->dir.fd, "cache/mail.sqlite3", 0), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d/cache/records.sqlite3", fixture->dir.fd);
    assert_int_equal(sqlite3_open(path, &old), SQLITE_OK);
    assert_int_equal(query_script(old, "CREATE TABLE sent_emails (key TEXT, is_held INTEGER);"
                                       "INSERT INTO sent_emails VALUES ('00000001', 0), ('00000002', 1)"),
                     0);
    assert_int_equal(sqlite3_close(old), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        fixture_start(fixture);
        assert_int_equal(fixture_sync(fixture), 0);
        assert_sent(fixture, FIRST);
        assert_int_equal(faccessat(fixture->dir.fd, "cache/records.sqlite3", F_OK, 0), -1);
        fixture_close(fixture);
    }
}
