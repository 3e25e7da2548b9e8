/* SPDX-License-Identifier: MIT */
/*
 * Syncs: the emails and inboxes that they add, remove and rename; their events; their times; requests that
 * share a sync; outages.
 */
#include "base/thread.h"
#include "store/store_private.h"
#include "unit/store/store_fixture.h"

#include "support/test.h"

#define MAIL_1 "20261120T100000Z_hello_00000001.json"
#define MAIL_2 "20261120T100000Z_again_00000002.json"

enum {
    POLL_MS = 30 * 1000,
    POLL_MOST_MS = POLL_MS + POLL_MS / 10, /* the longest interval, with jitter */
    POLL_LEAST_MS = POLL_MS - POLL_MS / 10,
    BACKOFF_MOST_MS = 5 * 60 * 1000,
};

TEST(mail_is_shown_and_survives_a_restart)
{
    struct store_fixture fixture;
    struct email_view before;
    struct email_view after;
    fixture_init_with_alice(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_inboxes(&fixture, "alice@inbox.example");
    assert_emails(&fixture, "alice@inbox.example", MAIL_1);
    assert_true(store_find_email(fixture.store, 0, false, MAIL_1, &before));
    assert_int_equal(before.date_ms, WORLD_START_MS);
    _cleanup_free_ char *json = fixture_read(&fixture, before.number);
    assert_int_equal(strlen(json), before.json_len);

    fake_service_set_reachable(fixture.fake, false);
    fixture_restart(&fixture);
    assert_inboxes(&fixture, "alice@inbox.example");
    assert_emails(&fixture, "alice@inbox.example", MAIL_1);
    assert_true(store_find_email(fixture.store, 0, false, MAIL_1, &after));
    _cleanup_free_ char *again = fixture_read(&fixture, after.number);
    assert_string_equal(again, json);
    assert_int_equal(after.date_ms, WORLD_START_MS);
    fixture_release(&fixture);
}

TEST(emails_that_a_complete_answer_lacks_are_removed)
{
    struct store_fixture fixture;
    struct email_view view;
    fixture_init_with_alice(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    fake_service_add_simple_email(fixture.fake, "in-1", "00000002", "Again");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_emails(&fixture, "alice@inbox.example", MAIL_2 " " MAIL_1);
    fake_service_remove_email(fixture.fake, "00000002");
    fixture_forget(&fixture);
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_emails(&fixture, "alice@inbox.example", MAIL_1);
    assert_changes(&fixture, "email 0 removed;");
    assert_false(store_find_email(fixture.store, 0, false, MAIL_2, &view));
    assert_true(store_get_email(fixture.store, 0, &view));
    assert_string_equal(view.name, MAIL_2);
    fixture_restart(&fixture);
    assert_emails(&fixture, "alice@inbox.example", MAIL_1);
    fixture_release(&fixture);
}

TEST(a_returning_email_gets_its_old_name)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    for (int i = 0; i < 2; i++) {
        fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
        assert_int_equal(fixture_sync(&fixture), 0);
        assert_emails(&fixture, "alice@inbox.example", MAIL_1);
        fake_service_remove_email(fixture.fake, "00000001");
        assert_int_equal(fixture_sync_removal(&fixture), 0);
        assert_emails(&fixture, "alice@inbox.example", "");
    }
    assert_changes(&fixture,
                   "inbox 0 added;inbox 0 changed;email 0 removed;email 0 returned;email 0 removed;");
    fixture_release(&fixture);
}

/* Tests each kind of failure, after a part of the answer and after the whole answer. */
TEST(an_incomplete_answer_removes_nothing)
{
    static const struct {
        struct fake_outcome outcome;
        int error;
    } cases[] = {
        {{.outcome = SERVICE_RETRY}, -EHOSTUNREACH},
        {{.outcome = SERVICE_RETRY, .http_status = 200, .error = EIO, .records = 1}, -EIO},
        {{.outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN}, -EAGAIN},
        {{.outcome = SERVICE_RETRY, .http_status = 503, .error = EAGAIN, .records = 1}, -EAGAIN},
        {{.outcome = SERVICE_UNAUTHORIZED}, -EACCES},
        {{.outcome = SERVICE_REJECTED}, -EIO},
        {{.outcome = SERVICE_ABSENT}, -EIO},
        {{.outcome = SERVICE_UNKNOWN}, -EHOSTUNREACH},
        {{.outcome = SERVICE_UNKNOWN, .http_status = 200, .error = EIO}, -EIO},
    };
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    fake_service_add_simple_email(fixture.fake, "in-1", "00000002", "Again");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fake_service_push(fixture.fake, FAKE_LIST_EMAILS, cases[i].outcome);
        assert_int_equal(fixture_sync(&fixture), cases[i].error);
        assert_emails(&fixture, "alice@inbox.example", MAIL_2 " " MAIL_1);
        fake_service_push(fixture.fake, FAKE_LIST_INBOXES, cases[i].outcome);
        fixture_sync(&fixture);
        assert_inboxes(&fixture, "alice@inbox.example");
        assert_emails(&fixture, "alice@inbox.example", MAIL_2 " " MAIL_1);
    }
    fixture_release(&fixture);
}

TEST(a_changed_record_keeps_its_name)
{
    struct store_fixture fixture;
    struct email_view view;
    fixture_init_with_alice(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_forget(&fixture);
    fake_service_replace_email(fixture.fake, "00000001",
                               "{\"id\": \"00000001\", \"inbox_id\": \"in-1\", \"subject\": \"Renamed\", "
                               "\"date\": \"2026-11-21T10:00:00Z\"}");
    fake_clock_advance(&fixture.clock, 60000);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_changes(&fixture, "email 0 changed;");
    assert_events(&fixture, "");
    for (int i = 0; i < 2; i++) {
        assert_true(store_find_email(fixture.store, 0, false, MAIL_1, &view));
        _cleanup_free_ char *json = fixture_read(&fixture, view.number);
        assert_non_null(strstr(json, "Renamed"));
        assert_int_equal(strlen(json), view.json_len);
        assert_int_equal(view.seen_ms, WORLD_START_MS + 60000);
        assert_int_equal(view.date_ms, WORLD_START_MS + 86400000);
        fixture_restart(&fixture);
    }
    fixture_release(&fixture);
}

TEST(emails_whose_names_clash_keep_different_names)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001-b", "Hello");
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001-a", "Hello");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *names = fixture_emails(&fixture, "alice@inbox.example");
    const char *second = strchr(names, ' ');
    assert_non_null(second);
    assert_int_equal(strncmp(names, MAIL_1, (size_t)(second - names)), 0);
    assert_int_equal(strncmp(second + 1, "20261120T100000Z_hello_00000001-", 32), 0);
    fake_service_remove_email(fixture.fake, "00000001-a");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_emails(&fixture, "alice@inbox.example", second + 1);
    fixture_restart(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_emails(&fixture, "alice@inbox.example", second + 1);
    fixture_release(&fixture);
}

TEST(empty_records_are_shown)
{
    struct store_fixture fixture;
    struct email_view view;
    fixture_init_with_alice(&fixture);
    fake_service_add_email(fixture.fake, "in-1", "{\"strange\": true}");
    fixture_start(&fixture);
    fake_clock_advance(&fixture.clock, 5000);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_true(store_get_email(fixture.store, 0, &view));
    assert_int_equal(strncmp(view.name, "nodate_no-subject_", 18), 0);
    assert_int_equal(view.date_ms, WORLD_START_MS + 5000);
    fake_clock_advance(&fixture.clock, 5000);
    fixture_restart(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_true(store_get_email(fixture.store, 0, &view));
    assert_int_equal(view.date_ms, WORLD_START_MS + 5000);
    assert_int_equal(fixture_count(&fixture), 1);
    fixture_release(&fixture);
}

/* Listings are made in pieces. A piece whose emails are all removed must not end the listing. */
TEST(emails_after_thousands_of_removed_emails_are_listed)
{
    enum {
        GONE = 10000
    };
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_add_emails(&fixture, "in-1", 0, GONE);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000002", "Again");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), GONE + 2);
    for (int i = 0; i < GONE; i++) {
        char id[64];
        snprintf(id, sizeof(id), "%08d-in-1", i);
        fake_service_remove_email(fixture.fake, id);
    }
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_emails(&fixture, "alice@inbox.example", MAIL_1 " " MAIL_2);
    fixture_release(&fixture);
}

/* The service never lists the inbox "unknown". */
TEST(the_inbox_of_mail_that_names_no_inbox_is_not_removed)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    fake_service_add_email(fixture.fake, "nowhere", "{\"strange\": true}");
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_ABSENT});
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 2);
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_OK});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fixture_sync(&fixture), 0);
        _cleanup_free_ char *names = fixture_emails(&fixture, "unknown");
        assert_int_equal(strncmp(names, "nodate_no-subject_", 18), 0);
        assert_int_equal(fixture_count(&fixture), 2);
        assert_null(strstr(strbuf_str(&fixture.changes), "removed"));
    }
    fixture_restart(&fixture);
    assert_int_equal(fixture_count(&fixture), 2);
    fixture_release(&fixture);
}

/* Emails are added in batches, which must not show in the reports. */
TEST(many_new_emails_are_each_reported_once)
{
    enum {
        MANY = 700,
        TWICE = 5
    };
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_add_emails(&fixture, "in-1", 0, MANY);
    for (int i = 0; i < TWICE; i++) /* the answer has the same id several times */
        fake_service_add_simple_email(fixture.fake, "in-1", "00000600-in-1", "again");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), MANY);

    size_t events = 0;
    for (const char *at = strbuf_str(&fixture.events); (at = strstr(at, "mail ")) != NULL; at++)
        events++;
    assert_true(events >= MANY);
    size_t added = 0;
    for (const char *at = strbuf_str(&fixture.changes); (at = strstr(at, " added;")) != NULL; at++)
        added++;
    assert_int_equal(added, MANY + 1); /* the emails and the inbox */
    fixture_restart(&fixture);
    assert_int_equal(fixture_count(&fixture), MANY);
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- limits */

TEST(the_limit_grows_until_the_answer_is_shorter)
{
    static const int sizes[] = {1, 99, 100, 101, 1600, 1700};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct store_fixture fixture;
        fixture_init_with_alice(&fixture);
        fixture_add_emails(&fixture, "in-1", 0, sizes[i]);
        fixture_start(&fixture);
        assert_int_equal(fixture_sync(&fixture), 0);
        assert_int_equal(fixture_count(&fixture), sizes[i]);
        unsigned int calls = fake_service_count(fixture.fake, FAKE_LIST_EMAILS);
        assert_true(fake_service_get(fixture.fake, FAKE_LIST_EMAILS, calls - 1).limit >
                    (unsigned int)sizes[i]);
        /* The second sync makes one request. */
        assert_int_equal(fixture_sync(&fixture), 0);
        assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_EMAILS), calls + 1);
        fixture_release(&fixture);
    }
}

TEST(a_refused_limit_is_lowered)
{
    static const struct {
        enum service_outcome outcome;
        unsigned int limit;
    } answers[] = {
        {SERVICE_OK, 100},
        {SERVICE_REJECTED, 100 * 100 * 1000},
        {SERVICE_OK, 200},
        {SERVICE_REJECTED, 500},
    };
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 400);
    fixture_start(&fixture);
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        fake_service_push(fixture.fake, FAKE_LIST_EMAILS,
                          (struct fake_outcome){.outcome = answers[i].outcome});
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_EMAILS), ARRAY_LEN(answers));
    for (unsigned int i = 0; i < ARRAY_LEN(answers); i++)
        assert_int_equal(fake_service_get(fixture.fake, FAKE_LIST_EMAILS, i).limit, answers[i].limit);
    assert_int_equal(fixture_count(&fixture), 200);
    /* The limit is remembered. The list may be incomplete, so nothing is removed. */
    fake_service_remove_email(fixture.fake, "00000399-in-1");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_EMAILS), ARRAY_LEN(answers) + 1);
    assert_int_equal(fixture_count(&fixture), 201);
    /* Mail after the first sync is announced although the list may be incomplete. */
    fixture_forget(&fixture);
    fixture_add_emails(&fixture, "in-1", 400, 401);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_non_null(strstr(strbuf_str(&fixture.events), "00000400-in-1"));
    fixture_release(&fixture);
}

TEST(a_complete_list_that_is_unchanged_is_not_sent_again)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fake_service_use_etags(fixture.fake);
    fixture_add_emails(&fixture, "in-1", 0, 250);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    unsigned int delivered = fake_service_count_delivered(fixture.fake);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fake_service_count_delivered(fixture.fake), delivered);
    assert_int_equal(fixture_count(&fixture), 250);
    fake_service_remove_email(fixture.fake, "00000007-in-1");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 249);
    fixture_release(&fixture);
}

/* The record is one of the newest, so every answer has it. */
TEST(the_other_records_are_shown_if_one_cannot_be_read)
{
    struct store_fixture fixture;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 500);
    fake_service_set(fixture.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.unread = "00000494-in-1"});
    fixture_start(&fixture);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fixture_sync(&fixture), -EIO);
        assert_int_equal(fixture_count(&fixture), 499);
        store_get_status(fixture.store, &status);
        assert_false(status.has_synced);
        assert_string_equal(status.sync_error, "a record cannot be read");
    }
    /* The emails of the first sync are not announced, although it failed. */
    assert_events(&fixture, "");
    fixture_add_emails(&fixture, "in-1", 500, 501);
    fake_service_remove_email(fixture.fake, "00000003-in-1");
    assert_int_equal(fixture_sync(&fixture), -EIO);
    assert_non_null(strstr(strbuf_str(&fixture.events), "00000500-in-1"));
    assert_int_equal(fixture_count(&fixture), 500); /* an answer with an unreadable record removes nothing */
    fake_service_set(fixture.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = SERVICE_OK});
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 500);
    store_get_status(fixture.store, &status);
    assert_true(status.has_synced);
    assert_string_equal(status.sync_error, "");
    fixture_release(&fixture);
}

TEST(emails_beyond_the_bounds_of_an_account_are_not_kept)
{
    static const struct index_size bounds[] = {{50, INDEX_BYTES_MAX}, {INDEX_EMAILS_MAX, 15 * 1000}};
    for (size_t i = 0; i < ARRAY_LEN(bounds); i++) {
        struct store_fixture fixture;
        struct store_status status;
        fixture_init_with_alice(&fixture);
        fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\"}");
        fixture_add_emails(&fixture, "in-1", 0, 40);
        fixture_open(&fixture);
        fixture.store->index.max = bounds[i];
        assert_int_equal(store_start(fixture.store), 0);
        assert_int_equal(fixture_sync(&fixture), 0);
        for (int round = 0; round < 2; round++) {
            fixture_add_emails(&fixture, "in-2", round * 40, round * 40 + 40);
            assert_int_equal(fixture_sync(&fixture), -EDQUOT);
            store_get_status(fixture.store, &status);
            assert_non_null(strstr(status.sync_error, "no more is kept of one account than"));
            assert_true(status.kept_emails >= 40 && status.kept_emails <= bounds[i].emails);
            assert_true(status.kept_bytes <= bounds[i].bytes);
            assert_true(status.is_online);
        }
        fixture_release(&fixture);
    }
}

/* ---------------------------------------------------------------- inboxes */

TEST(inboxes_are_added_renamed_and_removed)
{
    struct store_fixture fixture;
    struct inbox_view view;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in/2\"}");
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-3\", \"email_address\": \"alice@inbox.example\"}");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_true(store_get_inbox(fixture.store, 1, &view));
    assert_null(strchr(view.name, '/'));
    assert_string_equal(view.id, "in/2");
    assert_true(store_find_inbox(fixture.store, "in-3", &view));
    assert_int_equal(view.number, 2);
    fixture_forget(&fixture);

    fake_service_add_inbox(fixture.fake, "{\"id\": \"in/2\", \"email_address\": \"bob@inbox.example\"}");
    fake_service_remove_inbox(fixture.fake, "in-1");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_changes(&fixture, "inbox 1 changed;inbox 0 removed;");
    assert_events(&fixture, "inbox inboxes/bob@inbox.example in/2 -;");
    assert_inboxes(&fixture, "bob@inbox.example in-3");
    store_get_status(fixture.store, &status);
    assert_int_equal(status.inboxes, 2);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_inboxes(&fixture, "bob@inbox.example alice@inbox.example");
    fixture_restart(&fixture);
    assert_inboxes(&fixture, "bob@inbox.example alice@inbox.example");
    fixture_release(&fixture);
}

TEST(a_returning_inbox_is_shown_and_reported)
{
    static const char alice[] = "{\"id\": \"in-1\", \"email_address\": \"alice@inbox.example\"}";
    struct store_fixture fixture;
    fixture_init(&fixture);
    fake_service_add_inbox(fixture.fake, alice);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_remove_inbox(fixture.fake, "in-1");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_inboxes(&fixture, "");
    fixture_forget(&fixture);
    fake_service_add_inbox(fixture.fake, alice);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_inboxes(&fixture, "alice@inbox.example");
    assert_changes(&fixture, "inbox 0 added;");
    assert_events(&fixture, "inbox inboxes/alice@inbox.example in-1 -;");
    fixture_release(&fixture);
}

TEST(an_inbox_that_left_the_list_is_found_by_its_mail_without_a_list)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_remove_inbox(fixture.fake, "in-1");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_inboxes(&fixture, "");
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_ABSENT});
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_emails(&fixture, "in-1", MAIL_1);
    fixture_release(&fixture);
}

TEST(inboxes_are_found_by_mail_if_the_service_has_no_list)
{
    struct store_fixture fixture;
    fixture_init(&fixture);
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_ABSENT});
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    fake_service_add_simple_email(fixture.fake, "in-2", "00000002", "Again");
    fake_service_add_email(fixture.fake, "", "{\"id\": \"00000003\", \"subject\": \"Nowhere\"}");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_emails(&fixture, "in-1", MAIL_1);
    assert_emails(&fixture, "in-2", MAIL_2);
    assert_emails(&fixture, "unknown", "nodate_nowhere_00000003.json");
    struct inbox_view view;
    assert_true(store_find_inbox(fixture.store, "in-1", &view));
    assert_null(view.address); /* the service has not sent an address */
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_remove_email(fixture.fake, "00000003");
    fake_service_add_simple_email(fixture.fake, "in-3", "00000004", "New");
    fixture_restart(&fixture);
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_emails(&fixture, "unknown", "");
    assert_emails(&fixture, "in-3", "20261120T100000Z_new_00000004.json");
    fixture_release(&fixture);
}

TEST(a_failing_inbox_does_not_delay_the_others)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\"}");
    fake_service_add_simple_email(fixture.fake, "in-2", "00000001", "Hello");
    fixture_start(&fixture);
    fake_service_push(fixture.fake, FAKE_LIST_EMAILS,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .of = "in-1"});
    assert_int_equal(fixture_sync(&fixture), -EHOSTUNREACH);
    assert_emails(&fixture, "in-2", MAIL_1);
    assert_events(&fixture, "");
    fixture_release(&fixture);
}

static void *sync_all(void *argument)
{
    struct store_fixture *fixture = argument;
    assert_int_equal(fixture_sync(fixture), 0);
    return NULL;
}

TEST(a_long_inbox_does_not_delay_the_others)
{
    enum {
        INBOXES = 9,
        AT_ONCE = 4
    };
    struct store_fixture fixture;
    pthread_t thread;
    fixture_init(&fixture);
    for (int i = 0; i < INBOXES; i++) {
        char text[64];
        snprintf(text, sizeof(text), "{\"id\": \"in-%d\"}", i);
        fake_service_add_inbox(fixture.fake, text);
        snprintf(text, sizeof(text), "in-%d", i);
        fake_service_add_simple_email(fixture.fake, text, "00000001", "Hello");
    }
    fixture_start(&fixture);
    fake_service_close_gate(fixture.fake, FAKE_LIST_EMAILS);
    assert_int_equal(pthread_create(&thread, NULL, sync_all, &fixture), 0);
    fake_service_wait_at_gate(fixture.fake, FAKE_LIST_EMAILS, AT_ONCE);
    /* The list of any one inbox stays at the gate; the other lists end. */
    fake_service_let_pass(fixture.fake, FAKE_LIST_EMAILS, INBOXES - 1);
    fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, INBOXES - 1);
    fake_service_wait_at_gate(fixture.fake, FAKE_LIST_EMAILS, 1);
    assert_int_equal(fake_service_most_at_once(fixture.fake, FAKE_LIST_EMAILS), AT_ONCE);
    fake_service_open_gate(fixture.fake, FAKE_LIST_EMAILS);
    pthread_join(thread, NULL);
    assert_int_equal(fixture_count(&fixture), INBOXES);
    fixture_release(&fixture);
}

TEST(a_single_inbox_can_be_synced)
{
    struct store_fixture fixture;
    _cleanup_free_ char *reason = NULL;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(store_sync(fixture.store, "alice@inbox.example", NULL, &reason), -ENOENT);
    assert_non_null(reason);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    assert_int_equal(store_sync(fixture.store, "alice@inbox.example", NULL, &reason), 0);
    assert_emails(&fixture, "alice@inbox.example", MAIL_1);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_INBOXES), 1);
    fixture_release(&fixture);
}

/* Requests a sync as a webhook does, and moves the clock by the minimum interval of passes. */
static void request_newest(struct store_fixture *fixture, const char *id)
{
    store_request_sync(fixture->store, id);
    fake_clock_advance(&fixture->clock, 250);
}

/* A request by a webhook lists the newest emails of its inbox, and nothing else. */
TEST(the_newest_mail_of_one_inbox_can_be_requested)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_add_emails(&fixture, "in-1", 0, 200);
    request_newest(&fixture, "in-1");
    fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, 3);
    store_stop(fixture.store); /* the pass has ended */
    assert_int_equal(fake_service_get(fixture.fake, FAKE_LIST_EMAILS, 1).limit, 100);
    assert_int_equal(fake_service_get(fixture.fake, FAKE_LIST_EMAILS, 2).limit, 400);
    assert_int_equal(fixture_count(&fixture), 200);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_INBOXES), 1);
    fixture_release(&fixture);
}

TEST(a_sync_of_an_unknown_inbox_lists_the_inboxes)
{
    static const char *const ids[] = {"in-2", "in-3", NULL};
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_add_inbox(fixture.fake, "{\"id\":\"in-2\",\"email_address\":\"bob@inbox.example\"}");
    for (unsigned int i = 0; i < ARRAY_LEN(ids); i++) {
        request_newest(&fixture, ids[i]);
        fake_service_wait_count(fixture.fake, FAKE_LIST_INBOXES, i + 2);
    }
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_inboxes(&fixture, "alice@inbox.example bob@inbox.example");
    fixture_release(&fixture);
}

TEST(requests_during_a_pass_share_the_next_pass)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_close_gate(fixture.fake, FAKE_LIST_EMAILS);
    request_newest(&fixture, "in-1");
    fake_service_wait_at_gate(fixture.fake, FAKE_LIST_EMAILS, 1);
    for (int i = 0; i < 1000; i++)
        store_request_sync(fixture.store, i % 2 == 0 ? "in-1" : "unknown");
    fake_clock_advance(&fixture.clock, 250);
    fake_service_open_gate(fixture.fake, FAKE_LIST_EMAILS);
    /* Four lists: that of the first sync, the one held at the gate, one of all emails, and one of the inbox.
     */
    fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, 4);
    store_stop(fixture.store);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_EMAILS), 4);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_INBOXES), 2);
    fixture_release(&fixture);
}

TEST(repeated_requests_keep_a_minimum_interval)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    for (unsigned int i = 0; i < 5; i++) {
        store_request_sync(fixture.store, "in-1");
        store_report_contact(fixture.store, false); /* checks the service by a list of one email */
        fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, 2 + i);
        fake_clock_advance(&fixture.clock, 40);
    }
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_EMAILS), 6);
    fake_clock_advance(&fixture.clock, 50);
    fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, 7);
    assert_int_equal(fixture_sync(&fixture), 0); /* no minimum interval for a caller that waits */
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_EMAILS), 8);
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- events */

TEST(mail_of_the_first_sync_is_not_announced)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_changes(&fixture, "inbox 0 added;inbox 0 changed;");
    assert_events(&fixture, "");
    fake_service_add_simple_email(fixture.fake, "in-1", "00000002", "Again");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_events(&fixture, "mail inboxes/alice@inbox.example/" MAIL_2 " 00000002 -;");
    fixture_release(&fixture);
}

TEST(new_mail_is_announced_after_a_restart_and_in_new_inboxes)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_restart(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\"}");
    fake_service_add_simple_email(fixture.fake, "in-2", "00000002", "Again");
    assert_int_equal(fixture_sync(&fixture), 0);
    /* The order depends on which inbox was listed faster. */
    const char *events = strbuf_str(&fixture.events);
    assert_non_null(strstr(events, "inbox inboxes/in-2 in-2 -;"));
    assert_non_null(strstr(events, "mail inboxes/alice@inbox.example/" MAIL_1 " 00000001 -;"));
    assert_non_null(strstr(events, "mail inboxes/in-2/" MAIL_2 " 00000002 -;"));
    fixture_release(&fixture);
}

TEST(mail_of_an_inbox_that_failed_at_first_is_not_announced_later)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fake_service_add_simple_email(fixture.fake, "in-1", "00000001", "Hello");
    fixture_start(&fixture);
    fake_service_push(fixture.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = SERVICE_UNKNOWN});
    assert_int_equal(fixture_sync(&fixture), -EHOSTUNREACH);
    fixture_restart(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 1);
    assert_events(&fixture, "");
    fixture_release(&fixture);
}

/* The caller names an inbox, but the email may be in another inbox. */
TEST(an_email_is_found_by_its_id_from_every_inbox)
{
    static const char *const inboxes[] = {"alice@inbox.example", "bob@inbox.example", "carol@inbox.example"};
    static const char *const ids[] = {"00000000-in-1", "00000000-in-2", "00000000-in-3"};
    struct store_fixture fixture;
    struct email_view view;
    fixture_init_with_alice(&fixture);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\", \"email_address\": \"bob@inbox.example\"}");
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-3\", \"email_address\": \"carol@inbox.example\"}");
    fixture_add_emails(&fixture, "in-1", 0, 1);
    fixture_add_emails(&fixture, "in-2", 0, 1);
    fixture_add_emails(&fixture, "in-3", 0, 1);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    for (size_t from = 0; from < ARRAY_LEN(inboxes); from++)
        for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
            uint32_t inbox = fixture_inbox(&fixture, inboxes[from]);
            assert_true(store_find_email_by_id(fixture.store, inbox, ids[i], &view));
            assert_int_equal(view.inbox, fixture_inbox(&fixture, inboxes[i]));
        }
    fixture_release(&fixture);
}

/* A backup by modification time would otherwise copy all mail after each restart, or miss some. */
TEST(the_time_of_an_inbox_is_that_of_its_newest_mail_over_a_restart)
{
    struct store_fixture fixture;
    struct inbox_view view;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 3);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_clock_advance(&fixture.clock, 60000);
    fixture_add_emails(&fixture, "in-1", 3, 4);
    assert_int_equal(fixture_sync(&fixture), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(store_find_inbox(fixture.store, "alice@inbox.example", &view));
        assert_int_equal(view.changed_ms, WORLD_START_MS + 60000);
        fake_clock_advance(&fixture.clock, 1000);
        fixture_restart(&fixture);
    }
    fixture_release(&fixture);
}

static int64_t changed_ms(struct store_fixture *fixture)
{
    struct inbox_view view;
    assert_true(store_find_inbox(fixture->store, "alice@inbox.example", &view));
    return view.changed_ms;
}

/* The kernel compares this time to learn whether its listing is still valid. */
TEST(the_time_of_an_inbox_moves_with_each_change_after_the_clock_was_set_back)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 3);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture.clock.start_ms -= 3600 * 1000;
    int64_t before = changed_ms(&fixture);
    fixture_add_emails(&fixture, "in-1", 3, 4);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_true(changed_ms(&fixture) > before);
    before = changed_ms(&fixture);
    fake_service_remove_email(fixture.fake, "00000001-in-1");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_true(changed_ms(&fixture) > before);
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- when a sync is made */

static void start_polling(struct store_fixture *fixture)
{
    fixture->poll_interval_ms = POLL_MS;
    fixture_start(fixture);
    fake_clock_await_waiters(&fixture->clock, 1);
}

/* Advances the clock, and waits until the sync thread waits again. */
static void pass(struct store_fixture *fixture, int64_t ms)
{
    unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_INBOXES);
    fake_clock_advance(&fixture->clock, ms);
    fake_service_wait_count(fixture->fake, FAKE_LIST_INBOXES, before + 1);
    fake_clock_await_waiters(&fixture->clock, 1);
}

static int64_t next_poll_in_ms(struct store_fixture *fixture)
{
    struct store_status status;
    store_get_status(fixture->store, &status);
    return status.next_poll_ms - clock_realtime_ms(&fixture->clock.clock);
}

TEST(the_time_of_the_next_poll_is_now_during_a_poll)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture.poll_interval_ms = POLL_MS;
    fake_clock_advance(&fixture.clock, POLL_MS); /* as if the machine had run before the start */
    fake_service_close_gate(fixture.fake, FAKE_LIST_EMAILS);
    fixture_start(&fixture);
    for (unsigned int i = 0; i < 2; i++) {
        fake_service_wait_at_gate(fixture.fake, FAKE_LIST_EMAILS, 1);
        assert_int_equal(next_poll_in_ms(&fixture), 0);
        fake_clock_advance(&fixture.clock, 5000);
        assert_int_equal(next_poll_in_ms(&fixture), 0);
        fake_service_open_gate(fixture.fake, FAKE_LIST_EMAILS);
        fake_clock_await_waiters(&fixture.clock, 1);
        assert_in_range(next_poll_in_ms(&fixture), POLL_LEAST_MS, POLL_MOST_MS);
        fake_service_close_gate(fixture.fake, FAKE_LIST_EMAILS);
        fake_clock_advance(&fixture.clock, POLL_MOST_MS);
    }
    fake_service_open_gate(fixture.fake, FAKE_LIST_EMAILS);
    fixture_release(&fixture);
}

static unsigned int lists(struct store_fixture *fixture)
{
    return fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
}

TEST(the_sync_runs_at_once_and_then_at_intervals)
{
    struct store_fixture fixture;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 3);
    start_polling(&fixture);
    assert_int_equal(fixture_count(&fixture), 3);
    store_get_status(fixture.store, &status);
    assert_true(status.is_online && status.has_synced);
    assert_int_equal(status.last_sync_ms, WORLD_START_MS);
    assert_int_equal(status.last_full_ms, WORLD_START_MS);
    assert_in_range(next_poll_in_ms(&fixture), POLL_LEAST_MS, POLL_MOST_MS);
    fixture_add_emails(&fixture, "in-1", 3, 4);
    pass(&fixture, POLL_MOST_MS);
    assert_int_equal(fixture_count(&fixture), 4);
    fixture_release(&fixture);
}

TEST(intervals_vary_so_that_clients_do_not_poll_together)
{
    enum {
        POLLS = 20
    };
    struct store_fixture fixture;
    int64_t least = INT64_MAX;
    int64_t most = 0;
    fixture_init_with_alice(&fixture);
    start_polling(&fixture);
    for (int i = 0; i < POLLS; i++) {
        int64_t interval_ms = next_poll_in_ms(&fixture);
        assert_in_range(interval_ms, POLL_LEAST_MS, POLL_MOST_MS);
        least = interval_ms < least ? interval_ms : least;
        most = interval_ms > most ? interval_ms : most;
        pass(&fixture, POLL_MOST_MS);
    }
    /* Twenty random intervals are practically never this close to each other. */
    assert_true(most - least > POLL_MS / 100);
    fixture_release(&fixture);
}

TEST(a_sync_without_an_interval_runs_only_on_request)
{
    struct store_fixture fixture;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    fake_clock_await_waiters(&fixture.clock, 1);
    fake_clock_advance(&fixture.clock, 3600 * 1000);
    assert_int_equal(lists(&fixture), 0);
    store_get_status(fixture.store, &status);
    assert_int_equal(status.next_poll_ms, 0);
    assert_false(status.has_synced);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(lists(&fixture), 1);
    store_get_status(fixture.store, &status);
    assert_int_equal(status.next_poll_ms, 0);
    assert_true(status.has_synced);
    fixture_release(&fixture);
}

static void remove_email(struct store_fixture *fixture, unsigned int number)
{
    char id[32];
    snprintf(id, sizeof(id), "%08u-in-1", number);
    fake_service_remove_email(fixture->fake, id);
}

TEST(polls_raise_their_limit_while_answers_have_unknown_emails)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 500);
    start_polling(&fixture);
    assert_int_equal(fixture_count(&fixture), 500);

    unsigned int before = lists(&fixture);
    pass(&fixture, POLL_MOST_MS);
    assert_int_equal(lists(&fixture), before + 1);
    assert_int_equal(fake_service_get(fixture.fake, FAKE_LIST_EMAILS, before).limit, 100);

    before = lists(&fixture);
    fixture_add_emails(&fixture, "in-1", 500, 950);
    pass(&fixture, POLL_MOST_MS);
    assert_int_equal(fixture_count(&fixture), 950);
    assert_int_equal(lists(&fixture), before + 3);
    for (unsigned int i = 0, limit = 100; i < 3; i++, limit *= 4)
        assert_int_equal(fake_service_get(fixture.fake, FAKE_LIST_EMAILS, before + i).limit, limit);

    /* The limits grow as far as the mail needs. */
    before = lists(&fixture);
    fixture_add_emails(&fixture, "in-1", 950, 9000);
    pass(&fixture, POLL_MOST_MS);
    assert_int_equal(fixture_count(&fixture), 9000);
    assert_int_equal(lists(&fixture), before + 5);
    fixture_release(&fixture);
}

/* The service refuses the larger limit. The poll shows the newest emails, and the next poll tries again. */
TEST(a_refused_poll_parameter_is_no_failure)
{
    struct store_fixture fixture;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 10);
    start_polling(&fixture);
    for (int i = 0; i < 2; i++) {
        unsigned int before = lists(&fixture);
        int count = 10 + i * 400;
        fixture_add_emails(&fixture, "in-1", count, count + 400);
        fake_service_push(fixture.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = SERVICE_OK});
        fake_service_push(fixture.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = SERVICE_REJECTED});
        pass(&fixture, POLL_MOST_MS);
        assert_int_equal(lists(&fixture), before + 2);
        assert_int_equal(fake_service_get(fixture.fake, FAKE_LIST_EMAILS, before + 1).limit, 400);
        assert_int_equal(fixture_count(&fixture), 10 + (i + 1) * 100);
        store_get_status(fixture.store, &status);
        assert_string_equal(status.sync_error, "");
    }
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 810);
    fixture_release(&fixture);
}

/* The poll has the error even if the service then refuses a larger limit. */
TEST(a_poll_reports_a_damaged_record)
{
    struct store_fixture fixture;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 100);
    start_polling(&fixture);
    fixture_add_emails(&fixture, "in-1", 100, 200);
    fake_service_push(fixture.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.unread = "00000150-in-1"});
    fake_service_push(fixture.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    pass(&fixture, POLL_MOST_MS);
    assert_int_equal(fixture_count(&fixture), 199);
    store_get_status(fixture.store, &status);
    assert_string_equal(status.sync_error, "a record cannot be read");
    fixture_release(&fixture);
}

/* A refused limit may be granted later; until then the sync reports that emails may be missing. */
TEST(a_refused_limit_is_raised_again_later)
{
    enum {
        REFUSALS = 2 /* of the largest limit, and of the next one after 100 */
    };
    struct store_fixture fixture;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 500);
    fake_service_push(fixture.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = SERVICE_OK});
    for (int i = 0; i < REFUSALS; i++)
        fake_service_push(fixture.fake, FAKE_LIST_EMAILS,
                          (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 404});
    start_polling(&fixture);
    for (int i = 0; i < 2; i++) { /* the complete list, then a list of the newest emails */
        assert_int_equal(lists(&fixture), 1 + REFUSALS + i);
        assert_int_equal(fixture_count(&fixture), 100);
        store_get_status(fixture.store, &status);
        assert_false(status.has_synced);
        assert_non_null(strstr(status.sync_error, "no more than 100 emails of alice@inbox.example"));
        pass(&fixture, POLL_MOST_MS);
    }
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 500);
    store_get_status(fixture.store, &status);
    assert_true(status.has_synced);
    assert_string_equal(status.sync_error, "");
    fixture_release(&fixture);
}

TEST(only_a_complete_poll_removes_emails)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 150);
    start_polling(&fixture);
    fake_service_remove_email(fixture.fake, "00000149-in-1");
    fake_service_remove_email(fixture.fake, "00000003-in-1");
    pass(&fixture, POLL_MOST_MS);
    assert_int_equal(fixture_count(&fixture), 150);
    for (int minutes = 0; minutes < 30; minutes += 5) { /* polls do not delay the complete list */
        assert_int_equal(fixture_count(&fixture), 150);
        pass(&fixture, 5 * 60 * 1000);
    }
    assert_int_equal(fixture_count(&fixture), 148);
    fixture_release(&fixture);
}

/* The second complete answer equals the first, but the service must not answer "not modified". */
TEST(mail_that_was_added_and_removed_between_two_answers_is_removed)
{
    static const unsigned int counts[] = {50, 250, 950}; /* a poll lists all of 50 and of 250 emails */
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        unsigned int count = counts[i];
        struct store_fixture fixture;
        fixture_init_with_alice(&fixture);
        fake_service_use_etags(fixture.fake);
        fixture_add_emails(&fixture, "in-1", 0, count);
        start_polling(&fixture);
        fixture_add_emails(&fixture, "in-1", count, count + 1);
        pass(&fixture, POLL_MOST_MS);
        assert_int_equal(fixture_count(&fixture), count + 1);
        remove_email(&fixture, count);
        assert_int_equal(fixture_sync_removal(&fixture), 0);
        assert_int_equal(fixture_count(&fixture), count);
        fixture_release(&fixture);
    }
}

/* The newest emails equal those of the last poll, but the service must not answer "not modified". */
TEST(mail_that_was_removed_and_returned_between_two_polls_is_shown)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fake_service_use_etags(fixture.fake);
    fixture_add_emails(&fixture, "in-1", 0, 250);
    start_polling(&fixture);
    pass(&fixture, POLL_MOST_MS);
    remove_email(&fixture, 249);
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 249);
    fixture_add_emails(&fixture, "in-1", 249, 250);
    pass(&fixture, POLL_MOST_MS);
    assert_int_equal(fixture_count(&fixture), 250);
    fixture_release(&fixture);
}

/* Removes half of the service's emails (`step` 2), all emails (1), or the inbox (0). */
static void lose(struct store_fixture *fixture, unsigned int step)
{
    if (step == 0)
        fake_service_remove_inbox(fixture->fake, "in-1");
    for (unsigned int i = 0; step > 0 && i < 20; i += step)
        remove_email(fixture, i);
}

static void bring_back(struct store_fixture *fixture, unsigned int step)
{
    if (step == 0)
        fake_service_add_inbox(
            fixture->fake,
            "{\"id\": \"in-1\", \"name\": \"alice\", \"email_address\": \"alice@inbox.example\"}");
    for (int i = 0; step > 0 && i < 20; i += (int)step)
        fixture_add_emails(fixture, "in-1", i, i + 1);
}

static void assert_all_is_there(struct store_fixture *fixture)
{
    assert_inboxes(fixture, "alice@inbox.example");
    assert_int_equal(fixture_count(fixture), 20);
    assert_changes(fixture, "");
}

TEST(emails_are_removed_after_two_lists_a_minute_apart)
{
    static const struct {
        unsigned int step;
        size_t left;
    } cases[] = {{2, 10}, {1, 0}, {0, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct store_fixture fixture;
        fixture_init_with_alice(&fixture);
        fake_service_use_etags(fixture.fake);
        fixture_add_emails(&fixture, "in-1", 0, 20);
        fixture_start(&fixture);
        assert_int_equal(fixture_sync(&fixture), 0);
        fixture_forget(&fixture);
        /* Emails are missing for INDEX_CONFIRM_MS - 1 in each round; time between rounds must not count. */
        for (int round = 0; round < 2; round++) {
            lose(&fixture, cases[i].step);
            assert_int_equal(fixture_sync(&fixture), 0);
            fake_clock_advance(&fixture.clock, INDEX_CONFIRM_MS - 1);
            assert_int_equal(fixture_sync(&fixture), 0);
            bring_back(&fixture, cases[i].step);
            assert_int_equal(fixture_sync(&fixture), 0);
            assert_all_is_there(&fixture);
            fake_clock_advance(&fixture.clock, INDEX_CONFIRM_MS);
        }
        lose(&fixture, cases[i].step);
        assert_int_equal(fixture_sync(&fixture), 0);
        assert_all_is_there(&fixture);
        fake_clock_advance(&fixture.clock, INDEX_CONFIRM_MS);
        assert_int_equal(fixture_sync(&fixture), 0);
        assert_int_equal(fixture_count(&fixture), cases[i].left);
        fixture_release(&fixture);
    }
}

TEST(mail_that_names_no_inbox_is_removed_after_two_lists)
{
    struct store_fixture fixture;
    fixture_init(&fixture);
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_ABSENT});
    fake_service_add_email(fixture.fake, "", "{\"id\": \"00000003\", \"subject\": \"Nowhere\"}");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_remove_email(fixture.fake, "00000003");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 1);
    fake_clock_advance(&fixture.clock, INDEX_CONFIRM_MS);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 0);
    fixture_release(&fixture);
}

/* Each poll lists the newest mail of all inboxes in one request, and some inboxes completely, so that each
 * inbox is listed completely within a quarter of an hour. */
TEST(polls_of_many_inboxes_make_few_requests)
{
    enum {
        INBOXES = 100,
        INTERVAL_MS = 2 * 60 * 1000,
        POLLS = 15 * 60 * 1000 / INTERVAL_MS + 2,
        LISTS_MAX = INBOXES / POLLS * 2
    };
    struct store_fixture fixture;
    struct email_view view;
    fixture_init(&fixture);
    for (int i = 0; i < INBOXES; i++) {
        char json[64];
        char id[16];
        snprintf(json, sizeof(json), "{\"id\": \"in-%d\"}", i);
        fake_service_add_inbox(fixture.fake, json);
        snprintf(id, sizeof(id), "in-%d", i);
        fixture_add_emails(&fixture, id, 0, 2);
    }
    fixture.poll_interval_ms = INTERVAL_MS;
    fixture_start(&fixture);
    fake_clock_await_waiters(&fixture.clock, 1);
    assert_int_equal(fixture_count(&fixture), 2 * INBOXES);
    fake_service_replace_email(fixture.fake, "00000000-in-0",
                               "{\"id\": \"00000000-in-0\", \"inbox_id\": \"in-0\", \"changed\": 1}");
    for (int polls = 0; polls < POLLS; polls++) {
        char id[32];
        char inbox[16];
        unsigned int before = lists(&fixture);
        snprintf(inbox, sizeof(inbox), "in-%d", 99 - polls);
        snprintf(id, sizeof(id), "%08d", 90000 + polls);
        fake_service_add_simple_email(fixture.fake, inbox, id, "new");
        pass(&fixture, INTERVAL_MS + INTERVAL_MS / 10);
        assert_true(lists(&fixture) - before <= LISTS_MAX);
        assert_true(store_find_email_by_id(fixture.store, fixture_inbox(&fixture, inbox), id, &view));
    }
    assert_true(
        store_find_email_by_id(fixture.store, fixture_inbox(&fixture, "in-0"), "00000000-in-0", &view));
    _cleanup_free_ char *json = fixture_read(&fixture, view.number);
    assert_non_null(strstr(json, "changed"));
    fixture_release(&fixture);
}

TEST(polls_of_many_inboxes_list_mail_that_names_no_inbox)
{
    enum {
        INBOXES = 25,
        EACH = 6,
        INTERVAL_MS = 8 * 60 * 1000,
    };
    struct store_fixture fixture;
    fixture_init(&fixture);
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_ABSENT});
    fake_service_add_email(fixture.fake, "", "{\"id\": \"00000003\", \"subject\": \"Nowhere\"}");
    for (int i = 0; i < INBOXES; i++) {
        char id[16];
        snprintf(id, sizeof(id), "in-%d", i);
        fixture_add_emails(&fixture, id, 0, EACH);
    }
    fixture.poll_interval_ms = INTERVAL_MS;
    fixture_start(&fixture);
    fake_clock_await_waiters(&fixture.clock, 1);
    assert_int_equal(fixture_count(&fixture), INBOXES * EACH + 1);
    fake_service_remove_email(fixture.fake, "00000003");
    for (int polls = 0; polls < 6; polls++)
        pass(&fixture, INTERVAL_MS + INTERVAL_MS / 10);
    assert_int_equal(fixture_count(&fixture), INBOXES * EACH);
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- outages */

TEST(an_outage_and_its_end_are_reported_once)
{
    struct store_fixture fixture;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 2);
    start_polling(&fixture);
    fake_service_set_reachable(fixture.fake, false);
    for (int i = 0; i < 4; i++)
        pass(&fixture, BACKOFF_MOST_MS);
    assert_events(&fixture, "offline - - the service cannot be reached;");
    store_get_status(fixture.store, &status);
    assert_false(status.is_online);
    assert_string_equal(status.error, "the service cannot be reached");
    assert_int_equal(status.emails, 2);
    fake_service_set_reachable(fixture.fake, true);
    fixture_forget(&fixture);
    pass(&fixture, BACKOFF_MOST_MS);
    pass(&fixture, POLL_MOST_MS);
    assert_events(&fixture, "online - - -;");
    store_get_status(fixture.store, &status);
    assert_true(status.is_online);
    assert_string_equal(status.error, "");
    fixture_release(&fixture);
}

/* The service itself answers 429; a 503 may come from a proxy. */
TEST(a_429_is_not_an_outage_but_a_503_is)
{
    static const struct {
        int http_status;
        bool is_online;
    } cases[] = {{429, true}, {503, false}, {200, true}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct fake_outcome busy = {
            .outcome = SERVICE_RETRY, .http_status = cases[i].http_status, .error = EAGAIN};
        struct store_fixture fixture;
        struct store_status status;
        fixture_init_with_alice(&fixture);
        start_polling(&fixture);
        fake_service_set_reachable(fixture.fake, false);
        pass(&fixture, BACKOFF_MOST_MS);
        store_get_status(fixture.store, &status);
        assert_false(status.is_online);
        fake_service_set_reachable(fixture.fake, true);
        fake_service_set(fixture.fake, FAKE_LIST_INBOXES, busy);
        fake_service_set(fixture.fake, FAKE_LIST_EMAILS, busy);
        pass(&fixture, BACKOFF_MOST_MS);
        store_get_status(fixture.store, &status);
        assert_int_equal(status.is_online, cases[i].is_online);
        fixture_release(&fixture);
    }
}

TEST(an_outcome_that_contradicts_the_contact_checks_the_service)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_add_emails(&fixture, "in-1", 0, 2);
    unsigned int before = lists(&fixture);
    store_report_contact(fixture.store, true);
    store_report_contact(fixture.store, false); /* one request failed, but the service answers others */
    fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, before + 1);
    fake_clock_await_waiters(&fixture.clock, 1);
    assert_events(&fixture, "");

    fake_service_set_reachable(fixture.fake, false);
    store_report_contact(fixture.store, false);
    fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, before + 2);
    fake_clock_await_waiters(&fixture.clock, 1);
    store_report_contact(fixture.store, false);
    assert_events(&fixture, "offline - - the service cannot be reached;");

    fixture_forget(&fixture);
    fake_service_set_reachable(fixture.fake, true);
    store_report_contact(fixture.store, true);
    fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, before + 3);
    fake_clock_await_waiters(&fixture.clock, 1);
    assert_events(&fixture, "online - - -;");
    assert_int_equal(fixture_count(&fixture), 0);
    assert_int_equal(lists(&fixture), before + 3);
    fixture_release(&fixture);
}

TEST(a_refused_key_is_an_outage)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    start_polling(&fixture);
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_UNAUTHORIZED});
    pass(&fixture, POLL_MOST_MS);
    pass(&fixture, BACKOFF_MOST_MS);
    assert_events(&fixture, "offline - - the key is not valid;");
    assert_int_equal(lists(&fixture), 1);
    fixture_release(&fixture);
}

TEST(a_service_is_offline_only_if_all_lists_fail)
{
    struct store_fixture fixture;
    const struct fake_outcome trouble = {.outcome = SERVICE_UNKNOWN, .detail = "internal error"};
    const struct fake_outcome stall = {.outcome = SERVICE_RETRY, .error = ETIMEDOUT, .detail = "too slow"};
    struct fake_outcome of_one = trouble;
    of_one.of = "in-1";
    fixture_init_with_alice(&fixture);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\"}");
    start_polling(&fixture);
    fake_service_push(fixture.fake, FAKE_LIST_EMAILS, of_one);
    fixture_add_emails(&fixture, "in-2", 0, 1);
    pass(&fixture, POLL_MOST_MS);
    of_one = stall;
    of_one.of = "in-1";
    fake_service_push(fixture.fake, FAKE_LIST_EMAILS, of_one);
    fixture_add_emails(&fixture, "in-2", 1, 2);
    pass(&fixture, POLL_MOST_MS);
    assert_int_equal(fixture_count(&fixture), 2);
    assert_in_range(next_poll_in_ms(&fixture), POLL_LEAST_MS, POLL_MOST_MS);
    assert_null(strstr(strbuf_str(&fixture.events), "offline"));

    fixture_forget(&fixture);
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, trouble);
    fake_service_set(fixture.fake, FAKE_LIST_EMAILS, trouble);
    pass(&fixture, POLL_MOST_MS);
    pass(&fixture, BACKOFF_MOST_MS);
    assert_events(&fixture, "offline - - internal error;");
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, stall);
    pass(&fixture, BACKOFF_MOST_MS);
    assert_events(&fixture, "offline - - internal error;");
    fixture_release(&fixture);
}

TEST(the_sync_backs_off_and_heeds_retry_after)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    start_polling(&fixture);
    fake_service_set_reachable(fixture.fake, false);
    pass(&fixture, POLL_MOST_MS);
    assert_in_range(next_poll_in_ms(&fixture), 500, 1000);
    pass(&fixture, 1000);
    assert_in_range(next_poll_in_ms(&fixture), 1000, 2000);
    pass(&fixture, 2000);
    assert_in_range(next_poll_in_ms(&fixture), 2000, 4000);
    fake_service_set_reachable(fixture.fake, true);
    fake_service_push(
        fixture.fake, FAKE_LIST_INBOXES,
        (struct fake_outcome){
            .outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN, .retry_after_ms = 77000});
    pass(&fixture, 4000);
    assert_int_equal(next_poll_in_ms(&fixture), 77000);
    pass(&fixture, 77000);
    assert_in_range(next_poll_in_ms(&fixture), POLL_LEAST_MS, POLL_MOST_MS);
    fixture_release(&fixture);
}

TEST(an_outage_of_hours_delays_the_next_poll_no_longer_than_one_of_seconds)
{
    static const int64_t polls_ms[] = {1000, POLL_MS};
    for (size_t i = 0; i < ARRAY_LEN(polls_ms); i++) {
        struct store_fixture fixture;
        fixture_init_with_alice(&fixture);
        fixture.poll_interval_ms = polls_ms[i];
        fixture_start(&fixture);
        fake_clock_await_waiters(&fixture.clock, 1);
        fake_service_set_reachable(fixture.fake, false);
        for (int failures = 0; failures < 15; failures++) {
            pass(&fixture, POLL_MOST_MS);
            assert_true(next_poll_in_ms(&fixture) <= POLL_MS);
            assert_true(polls_ms[i] > 1000 || next_poll_in_ms(&fixture) <= 15 * 1000);
        }
        fixture_release(&fixture);
    }
}

TEST(a_change_of_the_network_starts_a_poll_soon)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    start_polling(&fixture);
    fixture_forget(&fixture);
    fake_service_set_reachable(fixture.fake, false);
    store_network_changed(fixture.store);
    pass(&fixture, 500);
    assert_events(&fixture, "offline - - the service cannot be reached;");
    fixture_forget(&fixture);
    fake_service_set_reachable(fixture.fake, true);
    store_network_changed(fixture.store);
    pass(&fixture, 500);
    assert_events(&fixture, "online - - -;");
    /* The poll waits for the end of the service's Retry-After. */
    const struct fake_outcome busy = {
        .outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN, .retry_after_ms = 77000};
    fake_service_push(fixture.fake, FAKE_LIST_INBOXES, busy);
    pass(&fixture, POLL_MOST_MS);
    store_network_changed(fixture.store);
    assert_int_equal(next_poll_in_ms(&fixture), 77000);
    fixture_release(&fixture);
}

/* Some routers announce themselves every few seconds, and a host of containers often changes its routes. */
TEST(changes_of_a_network_that_works_make_few_polls)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    start_polling(&fixture);
    for (int i = 0; i < 3; i++) {
        store_network_changed(fixture.store);
        pass(&fixture, next_poll_in_ms(&fixture));
        store_network_changed(fixture.store);
        assert_int_equal(next_poll_in_ms(&fixture), 10 * 1000);
    }
    fixture_release(&fixture);
}

TEST(a_change_of_the_network_checks_an_offline_service_if_there_are_no_polls)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    fake_service_set_reachable(fixture.fake, false);
    assert_int_equal(fixture_sync(&fixture), -EHOSTUNREACH);
    fixture_forget(&fixture);
    unsigned int before = lists(&fixture);
    fake_service_set_reachable(fixture.fake, true);
    store_network_changed(fixture.store);
    fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, before + 1);
    fake_clock_await_waiters(&fixture.clock, 1);
    assert_events(&fixture, "online - - -;");
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- waiting for a sync */

struct waiting {
    struct store_fixture *fixture;
    struct cancel cancel;
    int result;
    pthread_t thread;
};

static void *wait_for_sync(void *argument)
{
    struct waiting *waiting = argument;
    char *reason = NULL;
    waiting->result = store_sync(waiting->fixture->store, NULL, &waiting->cancel, &reason);
    free(reason);
    return NULL;
}

static void begin_waiting(struct waiting *waiting, struct store_fixture *fixture)
{
    waiting->fixture = fixture;
    cancel_init(&waiting->cancel);
    assert_int_equal(thread_start(&waiting->thread, "waiting", wait_for_sync, waiting), 0);
}

static int end_waiting(struct waiting *waiting)
{
    pthread_join(waiting->thread, NULL);
    cancel_release(&waiting->cancel);
    return waiting->result;
}

TEST(callers_during_a_sync_share_the_next_one)
{
    struct store_fixture fixture;
    struct waiting first;
    struct waiting others[5];
    fixture_init_with_alice(&fixture);
    fake_service_close_gate(fixture.fake, FAKE_LIST_EMAILS);
    fixture_start(&fixture);
    begin_waiting(&first, &fixture);
    fake_service_wait_at_gate(fixture.fake, FAKE_LIST_EMAILS, 1);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        begin_waiting(&others[i], &fixture);
    fake_clock_await_waiters(&fixture.clock, 6);
    fake_service_open_gate(fixture.fake, FAKE_LIST_EMAILS);
    assert_int_equal(end_waiting(&first), 0);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_int_equal(end_waiting(&others[i]), 0);
    assert_int_equal(lists(&fixture), 2);
    fixture_release(&fixture);
}

/* The kernel may send requests before the store is started. */
TEST(a_caller_before_the_start_waits_for_the_first_sync)
{
    struct store_fixture fixture;
    struct waiting waiting;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    begin_waiting(&waiting, &fixture);
    fake_clock_await_waiters(&fixture.clock, 1);
    assert_int_equal(lists(&fixture), 0);
    assert_int_equal(store_start(fixture.store), 0);
    assert_int_equal(end_waiting(&waiting), 0);
    assert_int_equal(lists(&fixture), 1);
    fixture_release(&fixture);
}

TEST(a_cancelled_wait_ends_and_the_pass_continues)
{
    struct store_fixture fixture;
    struct waiting waiting[2];
    fixture_init_with_alice(&fixture);
    fake_service_close_gate(fixture.fake, FAKE_LIST_EMAILS);
    fixture_start(&fixture);
    begin_waiting(&waiting[0], &fixture);
    fake_service_wait_at_gate(fixture.fake, FAKE_LIST_EMAILS, 1);
    begin_waiting(&waiting[1], &fixture);
    fake_clock_await_waiters(&fixture.clock, 2);
    cancel_set(&waiting[1].cancel);
    assert_int_equal(end_waiting(&waiting[1]), -EINTR);
    cancel_set(&waiting[0].cancel);
    assert_int_equal(end_waiting(&waiting[0]), -EINTR);
    assert_int_equal(lists(&fixture), 0);
    fake_service_open_gate(fixture.fake, FAKE_LIST_EMAILS);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(lists(&fixture), 2);
    fixture_release(&fixture);
}

TEST(stopping_cancels_the_request_and_wakes_waiters)
{
    struct store_fixture fixture;
    struct waiting waiting[2];
    _cleanup_free_ char *reason = NULL;
    fixture_init_with_alice(&fixture);
    fake_service_close_gate(fixture.fake, FAKE_LIST_EMAILS);
    fixture_start(&fixture);
    begin_waiting(&waiting[0], &fixture);
    fake_service_wait_at_gate(fixture.fake, FAKE_LIST_EMAILS, 1);
    begin_waiting(&waiting[1], &fixture);
    fake_clock_await_waiters(&fixture.clock, 2);
    store_stop(fixture.store);
    assert_int_equal(end_waiting(&waiting[0]), -EINTR);
    assert_int_equal(end_waiting(&waiting[1]), -EINTR);
    assert_true(fake_service_get(fixture.fake, FAKE_LIST_EMAILS, 0).was_cancelled);
    assert_int_equal(store_sync(fixture.store, NULL, NULL, &reason), -EINTR);
    assert_events(&fixture, "");
    fixture_release(&fixture);
}
