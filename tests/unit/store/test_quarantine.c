/* SPDX-License-Identifier: MIT */
/*
 * Emails that the service holds back are listed in a separate folder; marks move emails in and out.
 */
#include "base/thread.h"
#include "unit/store/store_fixture.h"

#include "support/test.h"

static const struct service_capabilities extended = {.inbox_list = CAPABILITY_PRESENT};

static void add(struct store_fixture *fixture, const char *id, const char *status, const char *mark)
{
    char json[512];
    snprintf(
        json, sizeof(json),
        "{\"id\": \"%s\", \"inbox_id\": \"in-1\", \"date\": \"2026-11-20T10:00:00Z\", \"subject\": \"%s\", "
        "\"status\": \"%s\", \"user_mark_status\": %s}",
        id, status, status, mark);
    fake_service_add_email(fixture->fake, "in-1", json);
}

static int set_up(void **state)
{
    struct store_fixture *fixture = malloc(sizeof(*fixture));
    fixture_init_with_alice(fixture);
    fake_service_set_capabilities(fixture->fake, &extended);
    add(fixture, "00000001", "valid", "false");
    add(fixture, "00000002", "spf_fail", "false");
    add(fixture, "00000003", "blocked_from_address", "true");
    fixture_start(fixture);
    assert_int_equal(fixture_sync(fixture), 0);
    *state = fixture;
    return 0;
}

#define VALID "20261120T100000Z_valid_00000001.json"
#define SPF "20261120T100000Z_spf-fail_00000002.json"
#define DKIM "20261120T100000Z_dkim-fail_00000005.json"
#define BLOCKED "20261120T100000Z_blocked-from-address_00000003.json"
#define ALICE "alice@inbox.example"

static void assert_quarantined(struct store_fixture *fixture, const char *expected)
{
    _cleanup_strbuf_ struct strbuf names = STRBUF_INIT(1 << 16);
    struct email_view view;
    uint64_t position = 0;
    uint32_t inbox = fixture_inbox(fixture, ALICE);
    while (store_list_emails(fixture->store, inbox, true, position, &view, &position, 1) > 0) {
        assert_true(view.is_quarantined);
        strbuf_appendf(&names, "%s%s", names.len > 0 ? " " : "", view.name);
    }
    assert_string_equal(strbuf_str(&names), expected);
}

static uint32_t held(struct store_fixture *fixture, const char *name)
{
    struct email_view view;
    assert_true(store_find_email(fixture->store, fixture_inbox(fixture, ALICE), true, name, &view));
    return view.number;
}

static uint32_t shown(struct store_fixture *fixture, const char *name)
{
    struct email_view view;
    assert_true(store_find_email(fixture->store, fixture_inbox(fixture, ALICE), false, name, &view));
    return view.number;
}

static int mark(struct store_fixture *fixture, uint32_t email, bool is_valid)
{
    _cleanup_free_ char *reason = NULL;
    int error = store_mark_email(fixture->store, email, is_valid, NULL, &reason);
    assert_true((error == 0) == (reason == NULL));
    return error;
}

static uint64_t jsonl_bytes(struct store_fixture *fixture)
{
    struct inbox_view view;
    assert_true(store_get_inbox(fixture->store, fixture_inbox(fixture, ALICE), &view));
    return view.jsonl_bytes;
}

/* Reads index.jsonl, and returns its size. */
static size_t index_len(struct store_fixture *fixture)
{
    struct store_jsonl *index;
    char bytes[8192];
    size_t len = 0;
    assert_int_equal(store_jsonl_new(fixture->store, fixture_inbox(fixture, ALICE), &index), 0);
    assert_int_equal(store_jsonl_read(index, 0, bytes, sizeof(bytes), &len), 0);
    store_jsonl_free(index);
    return len;
}

TEST_WITH(quarantined_mail_has_a_list_of_its_own, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    assert_true(store_shows_quarantine(fixture->store));
    assert_emails(fixture, ALICE, BLOCKED " " VALID);
    assert_quarantined(fixture, SPF);
    assert_int_equal(fixture_count(fixture), 2);
    assert_int_equal(jsonl_bytes(fixture), index_len(fixture));
    fixture_restart(fixture);
    assert_emails(fixture, ALICE, BLOCKED " " VALID);
    assert_quarantined(fixture, SPF);
    assert_true(store_shows_quarantine(fixture->store));
    assert_int_equal(jsonl_bytes(fixture), index_len(fixture));
}

TEST_WITH(quarantined_mail_needs_no_request_of_its_own, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_LIST_EMAILS), before + 1);
}

TEST_WITH(the_folders_of_inboxes_keep_their_times_over_a_restart, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    struct inbox_view before;
    struct inbox_view after;
    fake_clock_advance(&fixture->clock, 60 * 1000);
    assert_int_equal(mark(fixture, held(fixture, SPF), true), 0);
    assert_true(store_get_inbox(fixture->store, fixture_inbox(fixture, ALICE), &before));
    fixture_restart(fixture);
    assert_false(store_shows_quarantine(fixture->store)); /* no email is quarantined */
    fake_clock_advance(&fixture->clock, 60 * 1000);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_true(store_shows_quarantine(fixture->store));
    assert_true(store_get_inbox(fixture->store, fixture_inbox(fixture, ALICE), &after));
    assert_int_equal(before.changed_ms, after.changed_ms);
}

TEST(all_mail_of_a_core_server_is_shown)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    add(&fixture, "00000001", "valid", "false");
    add(&fixture, "00000002", "spf_fail", "false");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_false(store_shows_quarantine(fixture.store));
    assert_emails(&fixture, ALICE, VALID);
    fixture_release(&fixture);
}

TEST_WITH(a_refused_list_is_requested_without_with_invalid, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
    add(fixture, "00000004", "valid", "false");
    add(fixture, "00000005", "dkim_fail", "false"); /* not in the default list */
    assert_int_equal(fixture_sync(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_LIST_EMAILS), before + 2);
    assert_int_equal(fixture_count(fixture), 3);
    assert_quarantined(fixture, SPF); /* a list that leaves out quarantined mail does not remove the email */
    /* The refusal may have been temporary, so a later sync uses the parameter again. */
    assert_int_equal(fixture_sync(fixture), 0);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_quarantined(fixture, SPF " " DKIM);
}

/* A 404 is not remembered as a refusal of with_invalid. */
TEST_WITH(a_refused_parameter_is_tried_again_later, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_LIST_EMAILS,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 404});
    add(fixture, "00000005", "dkim_fail", "false");
    assert_int_equal(fixture_sync(fixture), 0);
    assert_quarantined(fixture, SPF);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_quarantined(fixture, SPF " " DKIM);
}

/* "Not modified" must not refer to the answer to a request without the parameter. */
TEST_WITH(quarantined_mail_is_shown_again_after_refused_lists, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_use_etags(fixture->fake);
    assert_int_equal(fixture_sync(fixture), 0);
    fake_service_remove_email(fixture->fake, "00000003");
    for (int i = 0; i < 2; i++) {
        fake_service_push(fixture->fake, FAKE_LIST_EMAILS,
                          (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 404});
        assert_int_equal(fixture_sync(fixture), 0);
        fake_clock_advance(&fixture->clock, INDEX_CONFIRM_MS);
    }
    assert_emails(fixture, ALICE, VALID);
    add(fixture, "00000003", "blocked_from_address", "true");
    assert_int_equal(fixture_sync(fixture), 0);
    assert_emails(fixture, ALICE, BLOCKED " " VALID);
}

TEST_WITH(new_quarantined_mail_is_not_announced, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fixture_forget(fixture);
    add(fixture, "00000004", "dkim_fail", "false");
    assert_int_equal(fixture_sync(fixture), 0);
    assert_events(fixture, "");
    assert_changes(fixture, "email 3 added;");
}

TEST_WITH(a_mark_moves_an_email_and_is_reported, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    uint32_t email = held(fixture, SPF);
    fixture_forget(fixture);
    assert_int_equal(mark(fixture, email, true), 0);
    assert_quarantined(fixture, "");
    assert_int_equal(shown(fixture, SPF), email);
    assert_events(fixture, "mail inboxes/" ALICE "/" SPF " 00000002 -;");
    assert_changes(fixture, "email 1 moved;");
    assert_int_equal(jsonl_bytes(fixture), index_len(fixture));

    fixture_forget(fixture);
    assert_int_equal(mark(fixture, email, false), 0);
    assert_quarantined(fixture, SPF);
    assert_events(fixture, "");
    assert_int_equal(jsonl_bytes(fixture), index_len(fixture));
    fixture_restart(fixture);
    assert_quarantined(fixture, SPF);
}

TEST_WITH(the_next_sync_shows_a_mark_that_another_client_made, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_replace_email(
        fixture->fake, "00000002",
        "{\"id\": \"00000002\", \"inbox_id\": \"in-1\", \"date\": "
        "\"2026-11-20T10:00:00Z\", \"subject\": \"spf_fail\", \"status\": \"spf_fail\", "
        "\"user_mark_status\": true}");
    fixture_forget(fixture);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_quarantined(fixture, "");
    assert_changes(fixture, "email 1 moved;");
    assert_events(fixture, "mail inboxes/" ALICE "/" SPF " 00000002 -;");
}

/* The new list equals the last list, but the service must not answer "not modified". */
TEST_WITH(the_next_sync_undoes_a_mark_that_another_client_took_back, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_use_etags(fixture->fake);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_int_equal(mark(fixture, held(fixture, SPF), true), 0);
    assert_quarantined(fixture, "");
    fake_service_replace_email(
        fixture->fake, "00000002",
        "{\"id\": \"00000002\", \"inbox_id\": \"in-1\", \"date\": "
        "\"2026-11-20T10:00:00Z\", \"subject\": \"spf_fail\", \"status\": \"spf_fail\", "
        "\"user_mark_status\": false}");
    assert_int_equal(fixture_sync(fixture), 0);
    assert_quarantined(fixture, SPF);
}

TEST_WITH(marking_mail_that_the_service_leaves_valid_fails, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    uint32_t email = shown(fixture, VALID);
    fixture_forget(fixture);
    assert_int_equal(mark(fixture, email, false), -EPERM);
    assert_int_equal(shown(fixture, VALID), email);
    assert_events(fixture, "refused inboxes/" ALICE "/" VALID
                           " 00000001 the service counts this email as valid all the same;");
}

TEST_WITH(a_failed_mark_moves_nothing, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    static const struct {
        struct fake_outcome outcome;
        int error;
    } rows[] = {
        {{.outcome = SERVICE_RETRY}, -EHOSTUNREACH},
        {{.outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN}, -EAGAIN},
        {{.outcome = SERVICE_UNAUTHORIZED}, -EACCES},
        {{.outcome = SERVICE_ABSENT}, -EPERM},
        {{.outcome = SERVICE_REJECTED, .http_status = 404, .error = ENOENT}, -ENOENT},
        {{.outcome = SERVICE_REJECTED, .http_status = 422, .error = EINVAL}, -EINVAL},
    };
    uint32_t email = held(fixture, SPF);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        fake_service_push(fixture->fake, FAKE_MARK, rows[i].outcome);
        assert_int_equal(mark(fixture, email, true), rows[i].error);
        assert_quarantined(fixture, SPF);
    }
}

struct marking {
    struct store_fixture *fixture;
    uint32_t email;
    int result;
};

static void *mark_in_thread(void *argument)
{
    struct marking *marking = argument;
    marking->result = mark(marking->fixture, marking->email, true);
    return NULL;
}

/* The list that shows the outcome may take longer than the time-out of a mark. */
TEST_WITH(a_mark_that_is_answered_without_a_record_ends_in_time, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    struct marking marking = {.fixture = fixture, .email = held(fixture, SPF)};
    struct email_view view;
    pthread_t thread;
    fake_service_push(fixture->fake, FAKE_MARK, (struct fake_outcome){.without_id = true});
    assert_int_equal(mark(fixture, marking.email, true), 0);
    assert_int_equal(shown(fixture, SPF), marking.email);

    assert_int_equal(mark(fixture, marking.email, false), 0);
    fixture_forget(fixture);
    unsigned int lists = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
    fake_service_push(fixture->fake, FAKE_MARK, (struct fake_outcome){.without_id = true});
    fake_service_close_gate(fixture->fake, FAKE_LIST_EMAILS);
    assert_int_equal(thread_start(&thread, "mark", mark_in_thread, &marking), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_LIST_EMAILS, 1);
    fake_clock_await_waiters(&fixture->clock, 1);
    fake_clock_advance(&fixture->clock, 4999);
    fake_clock_await_waiters(&fixture->clock, 1);
    fake_clock_advance(&fixture->clock, 1);
    pthread_join(thread, NULL);
    assert_int_equal(marking.result, -EHOSTUNREACH);
    assert_quarantined(fixture, SPF);
    assert_events(fixture, "refused inboxes/" ALICE "/.invalid/" SPF
                           " 00000002 the service did not list the mail in time;");

    /* The list under way ends, and another list follows. */
    fake_service_open_gate(fixture->fake, FAKE_LIST_EMAILS);
    fake_service_wait_count(fixture->fake, FAKE_LIST_EMAILS, lists + 2);
    assert_true(store_find_email(fixture->store, fixture_inbox(fixture, ALICE), false, SPF, &view));
}

TEST_WITH(deleted_mail_leaves_inbox_and_quarantine, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_remove_email(fixture->fake, "00000002");
    fake_service_remove_email(fixture->fake, "00000001");
    assert_int_equal(fixture_sync_removal(fixture), 0);
    assert_quarantined(fixture, "");
    assert_emails(fixture, ALICE, BLOCKED);
    assert_int_equal(jsonl_bytes(fixture), index_len(fixture));
}
