/* SPDX-License-Identifier: MIT */
/*
 * First contacts with a service, new inboxes, changes of settings, and finding senders.
 */
#include "base/thread.h"
#include "unit/store/store_fixture.h"

#include "support/test.h"

static int contact(struct store_fixture *fixture)
{
    _cleanup_free_ char *reason = NULL;
    int error = store_first_contact(fixture->store, NULL, &reason);
    assert_true((error == 0) == (reason == NULL));
    return error;
}

/* ---------------------------------------------------------------- first contact */

static void assert_inbox_says(struct store_fixture *fixture, uint32_t inbox, const char *text)
{
    _cleanup_free_ char *json = NULL;
    size_t len;
    assert_int_equal(store_read_inbox(fixture->store, inbox, &json, &len), 0);
    assert_int_equal(strlen(json), len);
    assert_non_null(strstr(json, text));
}

TEST(the_first_contact_adds_the_inboxes)
{
    struct store_fixture fixture;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    assert_int_equal(contact(&fixture), 0);
    assert_inboxes(&fixture, "alice@inbox.example");
    assert_events(&fixture, "");
    store_get_status(fixture.store, &status);
    assert_true(status.is_online);
    assert_false(status.has_synced);
    fixture_release(&fixture);
}

TEST(the_first_contact_distinguishes_a_wrong_key_from_an_outage)
{
    static const struct {
        enum service_outcome inboxes;
        enum service_outcome emails;
        int error;
    } cases[] = {
        {SERVICE_UNAUTHORIZED, SERVICE_OK, -EACCES},
        {SERVICE_RETRY, SERVICE_OK, -EHOSTUNREACH},
        {SERVICE_UNKNOWN, SERVICE_OK, -EHOSTUNREACH},
        {SERVICE_ABSENT, SERVICE_OK, 0},
        {SERVICE_ABSENT, SERVICE_UNAUTHORIZED, -EACCES},
        {SERVICE_ABSENT, SERVICE_RETRY, -EHOSTUNREACH},
        {SERVICE_REJECTED, SERVICE_OK, 0},
        {SERVICE_REJECTED, SERVICE_REJECTED, -EHOSTUNREACH},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct store_fixture fixture;
        fixture_init(&fixture);
        fixture_open(&fixture);
        fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = cases[i].inboxes});
        fake_service_set(fixture.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = cases[i].emails});
        assert_int_equal(contact(&fixture), cases[i].error);
        fixture_release(&fixture);
    }
}

struct contacting {
    struct store_fixture *fixture;
    struct cancel cancel;
    int result;
};

static void *make_contact(void *argument)
{
    struct contacting *contacting = argument;
    char *reason = NULL;
    contacting->result = store_first_contact(contacting->fixture->store, &contacting->cancel, &reason);
    free(reason);
    return NULL;
}

TEST(the_first_contact_ends_in_time_or_when_it_is_cancelled)
{
    for (int is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
        struct store_fixture fixture;
        struct contacting contacting = {.fixture = &fixture};
        pthread_t thread;
        fixture_init_with_alice(&fixture);
        fixture_open(&fixture);
        cancel_init(&contacting.cancel);
        fake_service_close_gate(fixture.fake, FAKE_LIST_INBOXES);
        assert_int_equal(thread_start(&thread, "contact", make_contact, &contacting), 0);
        fake_service_wait_at_gate(fixture.fake, FAKE_LIST_INBOXES, 1);
        if (is_cancelled)
            cancel_set(&contacting.cancel);
        else
            fake_clock_advance(&fixture.clock, 10 * 1000);
        pthread_join(thread, NULL);
        assert_int_equal(contacting.result, -EHOSTUNREACH);
        cancel_release(&contacting.cancel);
        fixture_release(&fixture);
    }
}

TEST(a_state_of_another_account_is_refused)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    assert_int_equal(contact(&fixture), 0);
    fixture_close(&fixture);
    fake_service_remove_inbox(fixture.fake, "in-1");

    fixture_open(&fixture);
    assert_int_equal(contact(&fixture), -ESTALE);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"other\"}");
    assert_int_equal(contact(&fixture), -ESTALE);
    assert_inboxes(&fixture, "alice@inbox.example");
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-1\"}");
    assert_int_equal(contact(&fixture), 0);
    fake_service_remove_inbox(fixture.fake, "in-1");
    fixture_close(&fixture);

    fixture.adopt_state = true;
    fixture_open(&fixture);
    fake_service_remove_inbox(fixture.fake, "other");
    fake_service_add_inbox(fixture.fake, "{\"id\": \"third\"}");
    assert_int_equal(contact(&fixture), 0);
    fake_clock_advance(&fixture.clock, INDEX_CONFIRM_MS);
    assert_int_equal(contact(&fixture), 0);
    assert_inboxes(&fixture, "third");
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- creating */

TEST(a_created_inbox_is_shown_at_once_and_its_mail_after_a_sync)
{
    struct store_fixture fixture;
    struct inbox_view view;
    uint32_t inbox;
    _cleanup_free_ char *reason = NULL;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_forget(&fixture);
    fake_service_push(fixture.fake, FAKE_UPSERT, (struct fake_outcome){.id = "in-9"});
    fake_service_add_simple_email(fixture.fake, "in-9", "00000001", "Welcome");
    assert_int_equal(store_create_inbox(fixture.store, "bob@inbox.example", NULL, &inbox, &reason), 0);
    assert_true(store_find_inbox(fixture.store, "bob@inbox.example", &view));
    assert_int_equal(view.number, inbox);
    assert_string_equal(view.id, "in-9");
    assert_inbox_says(&fixture, view.number, "bob@inbox.example");
    assert_int_equal(fake_service_get(fixture.fake, FAKE_UPSERT, 0).timeout_ms, 5000);
    fake_service_wait_count(fixture.fake, FAKE_LIST_EMAILS, 2);
    fake_clock_await_waiters(&fixture.clock, 1);
    assert_emails(&fixture, "bob@inbox.example", "20261120T100000Z_welcome_00000001.json");
    assert_events(&fixture,
                  "inbox inboxes/bob@inbox.example in-9 -;"
                  "mail inboxes/bob@inbox.example/20261120T100000Z_welcome_00000001.json 00000001 -;");

    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_ABSENT});
    fixture_restart(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_inboxes(&fixture, "alice@inbox.example bob@inbox.example");
    fixture_release(&fixture);
}

TEST(a_created_inbox_is_reported_once)
{
    struct store_fixture fixture;
    char *reason = NULL;
    uint32_t inbox;
    struct inbox_view view;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    assert_int_equal(contact(&fixture), 0);
    assert_int_equal(store_start(fixture.store), 0);
    assert_int_equal(store_create_inbox(fixture.store, "bob@inbox.example", NULL, &inbox, &reason), 0);
    assert_int_equal(store_sync(fixture.store, "bob@inbox.example", NULL, &reason), 0);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_events(&fixture, "inbox inboxes/bob@inbox.example inbox-1 -;");

    /* An inbox that returns after its removal is announced again. */
    fake_service_remove_inbox(fixture.fake, "inbox-1");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_false(store_find_inbox(fixture.store, "bob@inbox.example", &view));
    fixture_forget(&fixture);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"inbox-1\", \"email_address\": \"bob@inbox.example\"}");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_events(&fixture, "inbox inboxes/bob@inbox.example inbox-1 -;");
    fixture_release(&fixture);
}

TEST(each_failure_to_create_an_inbox_has_its_errno)
{
    static const struct {
        const char *address;
        struct fake_outcome outcome;
        int error;
    } cases[] = {
        {"no address", {.outcome = SERVICE_OK}, -EINVAL},
        {"alice@inbox.example", {.outcome = SERVICE_OK}, -EEXIST},
        {"b@x.example", {.outcome = SERVICE_REJECTED}, -EINVAL},
        {"b@x.example", {.outcome = SERVICE_REJECTED, .http_status = 409, .error = EEXIST}, -EEXIST},
        {"b@x.example", {.outcome = SERVICE_REJECTED, .http_status = 302, .is_foreign = true}, -EHOSTUNREACH},
        {"b@x.example", {.outcome = SERVICE_UNAUTHORIZED}, -EACCES},
        {"b@x.example", {.outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN}, -EAGAIN},
        {"b@x.example", {.outcome = SERVICE_RETRY}, -EHOSTUNREACH},
        {"b@x.example", {.outcome = SERVICE_RETRY, .error = EINTR}, -EINTR},
        {"b@x.example", {.outcome = SERVICE_UNKNOWN}, -EHOSTUNREACH},
        {"b@x.example", {.outcome = SERVICE_UNKNOWN, .error = ETIMEDOUT}, -EHOSTUNREACH},
        {"b@x.example", {.outcome = SERVICE_ABSENT}, -EINVAL},
    };
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    assert_int_equal(contact(&fixture), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *reason = NULL;
        uint32_t inbox = 77;
        fake_service_set(fixture.fake, FAKE_UPSERT, cases[i].outcome);
        assert_int_equal(store_create_inbox(fixture.store, cases[i].address, NULL, &inbox, &reason),
                         cases[i].error);
        assert_non_null(reason);
        assert_int_equal(inbox, 77);
        assert_inboxes(&fixture, "alice@inbox.example");
    }
    fixture_release(&fixture);
}

TEST(a_created_inbox_is_found_although_the_answer_was_lost_or_has_no_id)
{
    static const struct {
        struct fake_outcome outcome;
        const char *reason; /* a part of it */
    } cases[] = {
        {{.outcome = SERVICE_UNKNOWN, .happens = true}, ""},
        {{.outcome = SERVICE_OK, .without_id = true}, "no id of an inbox"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct store_fixture fixture;
        uint32_t inbox;
        _cleanup_free_ char *reason = NULL;
        fixture_init_with_alice(&fixture);
        fixture_start(&fixture);
        fake_service_push(fixture.fake, FAKE_UPSERT, cases[i].outcome);
        assert_int_equal(store_create_inbox(fixture.store, "bob@inbox.example", NULL, &inbox, &reason),
                         -EHOSTUNREACH);
        assert_non_null(strstr(reason, cases[i].reason));
        fake_service_wait_count(fixture.fake, FAKE_LIST_INBOXES, 1);
        fake_clock_await_waiters(&fixture.clock, 1);
        assert_inboxes(&fixture, "alice@inbox.example bob@inbox.example");
        fixture_release(&fixture);
    }
}

/* ---------------------------------------------------------------- settings */

static int update(struct store_fixture *fixture, const char *text)
{
    _cleanup_free_ char *reason = NULL;
    int error = store_update_inbox(fixture->store, 0, text, strlen(text), NULL, &reason);
    assert_true((error == 0) == (reason == NULL));
    return error;
}

TEST(an_update_reads_the_current_settings_and_writes_all_of_them)
{
    struct store_fixture fixture;
    struct inbox_view view;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    assert_int_equal(contact(&fixture), 0);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-1\", \"name\": \"alice\", \"allow_cc\": false, "
                                         "\"email_address\": \"alice@inbox.example\"}");
    fixture_forget(&fixture);
    assert_int_equal(update(&fixture, "{\"name\": \"Alice B.\"}"), 0);
    const char *sent = fake_service_get(fixture.fake, FAKE_UPSERT, 0).text;
    assert_non_null(strstr(sent, "Alice B."));
    assert_non_null(strstr(sent, "allow_cc"));
    assert_non_null(strstr(sent, "alice@inbox.example"));
    assert_true(store_get_inbox(fixture.store, 0, &view));
    assert_inbox_says(&fixture, view.number, "Alice B.");
    assert_changes(&fixture, "inbox 0 changed;");
    fixture_release(&fixture);
}

TEST(a_refused_update_returns_its_reason)
{
    static const struct {
        const char *text;
        struct fake_outcome list;
        struct fake_outcome upsert;
        int error;
    } cases[] = {
        {"no json", {.outcome = SERVICE_OK}, {.outcome = SERVICE_OK}, -EINVAL},
        {"{\"id\": \"in-2\"}", {.outcome = SERVICE_OK}, {.outcome = SERVICE_OK}, -EINVAL},
        {"{}", {.outcome = SERVICE_ABSENT}, {.outcome = SERVICE_OK}, -EPERM},
        {"{}", {.outcome = SERVICE_RETRY}, {.outcome = SERVICE_OK}, -EHOSTUNREACH},
        {"{}", {.outcome = SERVICE_UNAUTHORIZED}, {.outcome = SERVICE_OK}, -EACCES},
        {"{}", {.outcome = SERVICE_OK}, {.outcome = SERVICE_REJECTED}, -EINVAL},
        {"{}", {.outcome = SERVICE_OK}, {.outcome = SERVICE_UNKNOWN}, -EHOSTUNREACH},
        {"{}", {.outcome = SERVICE_OK}, {.outcome = SERVICE_RETRY, .error = EAGAIN}, -EAGAIN},
    };
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    assert_int_equal(contact(&fixture), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fixture_forget(&fixture);
        fake_service_set(fixture.fake, FAKE_LIST_INBOXES, cases[i].list);
        fake_service_set(fixture.fake, FAKE_UPSERT, cases[i].upsert);
        assert_int_equal(update(&fixture, cases[i].text), cases[i].error);
        assert_changes(&fixture, "");
        assert_non_null(strstr(strbuf_str(&fixture.events), "inbox inboxes/alice@inbox.example in-1 "));
    }
    fake_service_set(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_OK});
    fake_service_remove_inbox(fixture.fake, "in-1");
    assert_int_equal(update(&fixture, "{}"), -ENOENT);
    fixture_release(&fixture);
}

TEST(settings_that_cannot_be_read_back_are_shown_by_a_later_sync)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_forget(&fixture);
    fake_service_push(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_OK});
    fake_service_push(fixture.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_RETRY});
    assert_int_equal(update(&fixture, "{\"name\": \"Alice B.\"}"), 0);
    assert_non_null(strstr(fake_service_get(fixture.fake, FAKE_UPSERT, 0).text, "Alice B."));
    fake_service_wait_count(fixture.fake, FAKE_LIST_INBOXES, 3);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_inbox_says(&fixture, 0, "Alice B.");
    fixture_release(&fixture);
}

struct updating {
    struct store_fixture *fixture;
    struct cancel cancel;
    int result;
};

static void *update_slowly(void *argument)
{
    static const char text[] = "{\"name\": \"Alice B.\"}";
    struct updating *updating = argument;
    _cleanup_free_ char *reason = NULL;
    updating->result =
        store_update_inbox(updating->fixture->store, 0, text, strlen(text), &updating->cancel, &reason);
    return NULL;
}

TEST(an_update_ends_at_its_time_out_or_when_it_is_cancelled)
{
    for (int is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
        struct store_fixture fixture;
        struct updating updating = {.fixture = &fixture};
        pthread_t thread;
        fixture_init_with_alice(&fixture);
        fixture_open(&fixture);
        assert_int_equal(contact(&fixture), 0);
        cancel_init(&updating.cancel);
        fake_service_close_gate(fixture.fake, FAKE_LIST_INBOXES);
        assert_int_equal(thread_start(&thread, "update", update_slowly, &updating), 0);
        fake_service_wait_at_gate(fixture.fake, FAKE_LIST_INBOXES, 1);
        if (is_cancelled)
            cancel_set(&updating.cancel);
        else
            fake_clock_advance(&fixture.clock, 15 * 1000);
        pthread_join(thread, NULL);
        assert_int_equal(updating.result, is_cancelled ? -EINTR : -EHOSTUNREACH);
        cancel_release(&updating.cancel);
        fixture_release(&fixture);
    }
}

/* ---------------------------------------------------------------- senders */

TEST(an_unknown_sender_is_accepted_until_the_inboxes_are_listed)
{
    struct store_fixture fixture;
    _cleanup_free_ char *first = NULL;
    _cleanup_free_ char *second = NULL;
    _cleanup_free_ char *third = NULL;
    char *none = NULL;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    assert_int_equal(store_find_sender(fixture.store, NULL, &none), -EADDRNOTAVAIL);
    assert_int_equal(store_find_sender(fixture.store, "who@x.example", &first), 0);
    assert_string_equal(first, "who@x.example");

    assert_int_equal(contact(&fixture), 0);
    assert_int_equal(store_find_sender(fixture.store, "who@x.example", &none), -EADDRNOTAVAIL);
    assert_int_equal(store_find_sender(fixture.store, "Alice@Inbox.Example", &second), 0);
    assert_string_equal(second, "alice@inbox.example");
    assert_int_equal(store_find_sender(fixture.store, NULL, &third), 0);
    assert_string_equal(third, "alice@inbox.example");

    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\", \"email_address\": \"bob@inbox.example\"}");
    assert_int_equal(contact(&fixture), 0);
    assert_int_equal(store_find_sender(fixture.store, NULL, &none), -EADDRNOTAVAIL);
    assert_null(none);
    fixture_release(&fixture);
}

TEST(a_sender_that_is_a_new_inbox_is_found_by_one_list)
{
    struct store_fixture fixture;
    struct inbox_view view;
    _cleanup_free_ char *sender = NULL;
    char *none = NULL;
    char *reason = NULL;
    uint32_t inbox;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    assert_int_equal(contact(&fixture), 0);
    unsigned int lists = fake_service_count(fixture.fake, FAKE_LIST_INBOXES);

    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\", \"email_address\": \"bob@inbox.example\"}");
    assert_int_equal(store_find_sender(fixture.store, "bob@inbox.example", &sender), 0);
    assert_string_equal(sender, "bob@inbox.example");
    assert_true(store_find_inbox(fixture.store, "bob@inbox.example", &view));
    assert_int_equal(store_find_sender(fixture.store, "who@x.example", &none), -EADDRNOTAVAIL);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_INBOXES), lists + 2);

    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-3\", \"email_address\": \"eve@inbox.example\"}");
    fake_service_push(
        fixture.fake, FAKE_UPSERT,
        (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 409, .error = EEXIST});
    assert_int_equal(store_create_inbox(fixture.store, "eve@inbox.example", NULL, &inbox, &reason), -EEXIST);
    assert_true(store_find_inbox(fixture.store, "eve@inbox.example", &view));
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_INBOXES), lists + 3);
    free(reason);

    fake_service_set_reachable(fixture.fake, false);
    assert_int_equal(store_find_sender(fixture.store, "who@x.example", &none), -EADDRNOTAVAIL);
    assert_int_equal(store_find_sender(fixture.store, "who@x.example", &none), -EADDRNOTAVAIL);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_INBOXES),
                     lists + 4); /* no further list, because the service is offline */
    fixture_release(&fixture);
}

static void *ask_for_unknown_sender(void *argument)
{
    const struct store_fixture *fixture = argument;
    char *none = NULL;
    return store_find_sender(fixture->store, "who@x.example", &none) == -EADDRNOTAVAIL ? argument : NULL;
}

/* Each message in the outbox would otherwise wait for its own slow list. */
TEST(a_slow_list_of_inboxes_is_not_repeated_for_half_a_minute)
{
    struct store_fixture fixture;
    pthread_t thread;
    void *is_refused = NULL;
    char *none = NULL;
    _cleanup_free_ char *sender = NULL;
    fixture_init_with_alice(&fixture);
    fixture_open(&fixture);
    assert_int_equal(contact(&fixture), 0);
    unsigned int lists = fake_service_count(fixture.fake, FAKE_LIST_INBOXES);

    fake_service_close_gate(fixture.fake, FAKE_LIST_INBOXES);
    assert_int_equal(thread_start(&thread, "asker", ask_for_unknown_sender, &fixture), 0);
    fake_service_wait_at_gate(fixture.fake, FAKE_LIST_INBOXES, 1);
    fake_clock_advance(&fixture.clock, 5000);
    pthread_join(thread, &is_refused);
    assert_non_null(is_refused);

    fake_service_open_gate(fixture.fake, FAKE_LIST_INBOXES);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\", \"email_address\": \"bob@inbox.example\"}");
    assert_int_equal(store_find_sender(fixture.store, "bob@inbox.example", &none), -EADDRNOTAVAIL);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_LIST_INBOXES), lists + 1);
    fake_clock_advance(&fixture.clock, 30 * 1000);
    assert_int_equal(store_find_sender(fixture.store, "bob@inbox.example", &sender), 0);
    fixture_release(&fixture);
}
