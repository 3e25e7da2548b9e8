/* SPDX-License-Identifier: MIT */
/*
 * What a sync brings, removes, renames and tells.
 */
#include "unit/store/store_world.h"

#define MAIL_1 "20261120T100000Z_hello_00000001.json"
#define MAIL_2 "20261120T100000Z_again_00000002.json"

static void mail_is_shown_and_stays_over_a_restart(void **state)
{
    (void)state;
    struct store_world world;
    struct email_view before;
    struct email_view after;
    world_init_with_alice(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_inboxes(&world, "alice@inbox.example");
    assert_emails(&world, "alice@inbox.example", MAIL_1);
    assert_true(store_find_email(world.store, 0, MAIL_1, &before));
    assert_int_equal(before.date_ms, WORLD_START_MS);
    _cleanup_free_ char *json = world_read(&world, before.number);
    assert_int_equal(strlen(json), before.json_len);

    fake_service_set_reachable(world.fake, false);
    world_restart(&world);
    assert_inboxes(&world, "alice@inbox.example");
    assert_emails(&world, "alice@inbox.example", MAIL_1);
    assert_true(store_find_email(world.store, 0, MAIL_1, &after));
    _cleanup_free_ char *again = world_read(&world, after.number);
    assert_string_equal(again, json);
    assert_int_equal(after.date_ms, WORLD_START_MS);
    world_release(&world);
}

static void what_the_complete_answer_lacks_is_removed(void **state)
{
    (void)state;
    struct store_world world;
    struct email_view view;
    world_init_with_alice(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    fake_service_add_simple_email(world.fake, "in-1", "00000002", "Again");
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_emails(&world, "alice@inbox.example", MAIL_2 " " MAIL_1);
    fake_service_remove_email(world.fake, "00000002");
    world_forget(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_emails(&world, "alice@inbox.example", MAIL_1);
    assert_changes(&world, "email 0 removed;");
    assert_false(store_find_email(world.store, 0, MAIL_2, &view));
    assert_true(store_get_email(world.store, 0, &view));
    assert_string_equal(view.name, MAIL_2);
    world_restart(&world);
    assert_emails(&world, "alice@inbox.example", MAIL_1);
    world_release(&world);
}

static void what_returns_has_its_name_again(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    world_start(&world);
    for (int i = 0; i < 2; i++) {
        fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
        assert_int_equal(world_sync(&world), 0);
        assert_emails(&world, "alice@inbox.example", MAIL_1);
        fake_service_remove_email(world.fake, "00000001");
        assert_int_equal(world_sync(&world), 0);
        assert_emails(&world, "alice@inbox.example", "");
    }
    assert_changes(&world, "inbox 0 added;inbox 0 changed;email 0 removed;email 0 added;email 0 removed;");
    world_release(&world);
}

/* However an answer fails, and however much of it came before that. */
static void an_incomplete_answer_removes_nothing(void **state)
{
    (void)state;
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
    struct store_world world;
    world_init_with_alice(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    fake_service_add_simple_email(world.fake, "in-1", "00000002", "Again");
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fake_service_push(world.fake, FAKE_LIST_EMAILS, cases[i].outcome);
        assert_int_equal(world_sync(&world), cases[i].error);
        assert_emails(&world, "alice@inbox.example", MAIL_2 " " MAIL_1);
        fake_service_push(world.fake, FAKE_LIST_INBOXES, cases[i].outcome);
        world_sync(&world);
        assert_inboxes(&world, "alice@inbox.example");
        assert_emails(&world, "alice@inbox.example", MAIL_2 " " MAIL_1);
    }
    world_release(&world);
}

static void a_changed_record_keeps_its_name(void **state)
{
    (void)state;
    struct store_world world;
    struct email_view view;
    world_init_with_alice(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_forget(&world);
    fake_service_replace_email(world.fake, "00000001",
                               "{\"id\": \"00000001\", \"inbox_id\": \"in-1\", \"subject\": \"Renamed\", "
                               "\"date\": \"2026-11-21T10:00:00Z\"}");
    assert_int_equal(world_sync(&world), 0);
    assert_changes(&world, "email 0 changed;");
    assert_events(&world, "");
    for (int i = 0; i < 2; i++) {
        assert_true(store_find_email(world.store, 0, MAIL_1, &view));
        _cleanup_free_ char *json = world_read(&world, view.number);
        assert_non_null(strstr(json, "Renamed"));
        assert_int_equal(strlen(json), view.json_len);
        assert_int_equal(view.date_ms, WORLD_START_MS + 86400000);
        world_restart(&world);
    }
    world_release(&world);
}

static void names_that_clash_are_told_apart_for_ever(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001-b", "Hello");
    fake_service_add_simple_email(world.fake, "in-1", "00000001-a", "Hello");
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    _cleanup_free_ char *names = world_emails(&world, "alice@inbox.example");
    const char *second = strchr(names, ' ');
    assert_non_null(second);
    assert_int_equal(strncmp(names, MAIL_1, (size_t)(second - names)), 0);
    assert_int_equal(strncmp(second + 1, "20261120T100000Z_hello_00000001-", 32), 0);
    fake_service_remove_email(world.fake, "00000001-a");
    assert_int_equal(world_sync(&world), 0);
    assert_emails(&world, "alice@inbox.example", second + 1);
    world_restart(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_emails(&world, "alice@inbox.example", second + 1);
    world_release(&world);
}

static void records_without_anything_are_shown(void **state)
{
    (void)state;
    struct store_world world;
    struct email_view view;
    world_init_with_alice(&world);
    fake_service_add_email(world.fake, "in-1", "{\"strange\": true}");
    world_start(&world);
    fake_clock_advance(&world.clock, 5000);
    assert_int_equal(world_sync(&world), 0);
    assert_true(store_get_email(world.store, 0, &view));
    assert_int_equal(strncmp(view.name, "nodate_no-subject_", 18), 0);
    assert_int_equal(view.date_ms, WORLD_START_MS + 5000);
    fake_clock_advance(&world.clock, 5000);
    world_restart(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_true(store_get_email(world.store, 0, &view));
    assert_int_equal(view.date_ms, WORLD_START_MS + 5000);
    assert_int_equal(world_count(&world), 1);
    world_release(&world);
}

/* A folder is listed in pieces: one of which nothing is left is not the end. */
static void what_is_left_behind_thousands_that_are_gone_is_listed(void **state)
{
    (void)state;
    enum {
        GONE = 10000
    };
    struct store_world world;
    world_init_with_alice(&world);
    world_start(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    assert_int_equal(world_sync(&world), 0);
    world_add_emails(&world, "in-1", 0, GONE);
    assert_int_equal(world_sync(&world), 0);
    fake_service_add_simple_email(world.fake, "in-1", "00000002", "Again");
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(world_count(&world), GONE + 2);
    for (int i = 0; i < GONE; i++) {
        char id[64];
        snprintf(id, sizeof(id), "%08d-in-1", i);
        fake_service_remove_email(world.fake, id);
    }
    assert_int_equal(world_sync(&world), 0);
    assert_emails(&world, "alice@inbox.example", MAIL_1 " " MAIL_2);
    world_release(&world);
}

/* It is in no list of inboxes. */
static void the_inbox_of_mail_that_names_none_stays(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    fake_service_add_email(world.fake, "nowhere", "{\"strange\": true}");
    fake_service_set(world.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_ABSENT});
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(world_count(&world), 2);
    fake_service_set(world.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_OK});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(world_sync(&world), 0);
        _cleanup_free_ char *names = world_emails(&world, "unknown");
        assert_int_equal(strncmp(names, "nodate_no-subject_", 18), 0);
        assert_int_equal(world_count(&world), 2);
        assert_null(strstr(strbuf_str(&world.changes), "removed"));
    }
    world_restart(&world);
    assert_int_equal(world_count(&world), 2);
    world_release(&world);
}

/* Answers are taken over in batches: nothing of that may be seen in what comes of them. */
static void many_at_once_are_each_told_of_once(void **state)
{
    (void)state;
    enum {
        MANY = 700,
        TWICE = 5
    };
    struct store_world world;
    world_init_with_alice(&world);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_add_emails(&world, "in-1", 0, MANY);
    for (int i = 0; i < TWICE; i++) /* the same id twice in one answer, not the same otherwise */
        fake_service_add_simple_email(world.fake, "in-1", "00000600-in-1", "again");
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(world_count(&world), MANY);

    size_t events = 0;
    for (const char *at = strbuf_str(&world.events); (at = strstr(at, "mail ")) != NULL; at++)
        events++;
    assert_true(events >= MANY);
    size_t added = 0;
    for (const char *at = strbuf_str(&world.changes); (at = strstr(at, " added;")) != NULL; at++)
        added++;
    assert_int_equal(added, MANY + 1); /* with the inbox */
    world_restart(&world);
    assert_int_equal(world_count(&world), MANY);
    world_release(&world);
}

/* ---------------------------------------------------------------- limits */

static void the_limit_grows_until_the_answer_is_shorter(void **state)
{
    (void)state;
    static const int sizes[] = {1, 99, 100, 101, 1600, 1700};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct store_world world;
        world_init_with_alice(&world);
        world_add_emails(&world, "in-1", 0, sizes[i]);
        world_start(&world);
        assert_int_equal(world_sync(&world), 0);
        assert_int_equal(world_count(&world), sizes[i]);
        unsigned int calls = fake_service_count(world.fake, FAKE_LIST_EMAILS);
        assert_true(fake_service_get(world.fake, FAKE_LIST_EMAILS, calls - 1).limit > (unsigned int)sizes[i]);
        /* The second time nothing is asked for twice. */
        assert_int_equal(world_sync(&world), 0);
        assert_int_equal(fake_service_count(world.fake, FAKE_LIST_EMAILS), calls + 1);
        world_release(&world);
    }
}

static void a_service_that_refuses_large_limits_is_asked_for_less(void **state)
{
    (void)state;
    static const struct {
        enum service_outcome outcome;
        unsigned int limit;
    } answers[] = {
        {SERVICE_OK, 100}, {SERVICE_REJECTED, 100 * 100 * 1000}, {SERVICE_REJECTED, 400}, {SERVICE_OK, 250},
        {SERVICE_OK, 325},
    };
    struct store_world world;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 400);
    world_start(&world);
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        fake_service_push(world.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = answers[i].outcome});
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(fake_service_count(world.fake, FAKE_LIST_EMAILS), ARRAY_LEN(answers));
    for (unsigned int i = 0; i < ARRAY_LEN(answers); i++)
        assert_int_equal(fake_service_get(world.fake, FAKE_LIST_EMAILS, i).limit, answers[i].limit);
    assert_int_equal(world_count(&world), 325);
    /* It is remembered, and as not all can be seen, nothing is removed. */
    fake_service_remove_email(world.fake, "00000399-in-1");
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(fake_service_count(world.fake, FAKE_LIST_EMAILS), ARRAY_LEN(answers) + 1);
    assert_int_equal(world_count(&world), 326);
    world_release(&world);
}

static void a_complete_list_that_is_unchanged_is_not_sent_again(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    fake_service_use_etags(world.fake);
    world_add_emails(&world, "in-1", 0, 250);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    unsigned int delivered = fake_service_count_delivered(world.fake);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(fake_service_count_delivered(world.fake), delivered);
    assert_int_equal(world_count(&world), 250);
    fake_service_remove_email(world.fake, "00000007-in-1");
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(world_count(&world), 249);
    world_release(&world);
}

/* ---------------------------------------------------------------- inboxes */

static void inboxes_come_rename_and_go(void **state)
{
    (void)state;
    struct store_world world;
    struct inbox_view view;
    world_init_with_alice(&world);
    fake_service_add_inbox(world.fake, "{\"id\": \"in/2\"}");
    fake_service_add_inbox(world.fake, "{\"id\": \"in-3\", \"email_address\": \"alice@inbox.example\"}");
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_true(store_get_inbox(world.store, 1, &view));
    assert_null(strchr(view.name, '/'));
    assert_string_equal(view.id, "in/2");
    assert_true(store_find_inbox(world.store, "in-3", &view));
    assert_int_equal(view.number, 2);
    world_forget(&world);

    fake_service_add_inbox(world.fake, "{\"id\": \"in/2\", \"email_address\": \"bob@inbox.example\"}");
    fake_service_remove_inbox(world.fake, "in-1");
    assert_int_equal(world_sync(&world), 0);
    assert_changes(&world, "inbox 1 changed;inbox 0 removed;");
    assert_events(&world, "inbox inboxes/bob@inbox.example in/2 -;");
    assert_inboxes(&world, "bob@inbox.example in-3");
    assert_int_equal(world_sync(&world), 0);
    assert_inboxes(&world, "bob@inbox.example alice@inbox.example");
    world_restart(&world);
    assert_inboxes(&world, "bob@inbox.example alice@inbox.example");
    world_release(&world);
}

static void without_a_list_inboxes_are_found_by_mail(void **state)
{
    (void)state;
    struct store_world world;
    world_init(&world);
    fake_service_set(world.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_ABSENT});
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    fake_service_add_simple_email(world.fake, "in-2", "00000002", "Again");
    fake_service_add_email(world.fake, "", "{\"id\": \"00000003\", \"subject\": \"Nowhere\"}");
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_emails(&world, "in-1", MAIL_1);
    assert_emails(&world, "in-2", MAIL_2);
    assert_emails(&world, "unknown", "nodate_nowhere_00000003.json");
    struct inbox_view view;
    assert_true(store_find_inbox(world.store, "in-1", &view));
    assert_null(view.address); /* the service has not told any */
    assert_int_equal(world_sync(&world), 0);
    fake_service_remove_email(world.fake, "00000003");
    fake_service_add_simple_email(world.fake, "in-3", "00000004", "New");
    world_restart(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_emails(&world, "unknown", "");
    assert_emails(&world, "in-3", "20261120T100000Z_new_00000004.json");
    world_release(&world);
}

static void an_inbox_that_fails_does_not_hold_up_others(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    fake_service_add_inbox(world.fake, "{\"id\": \"in-2\"}");
    fake_service_add_simple_email(world.fake, "in-2", "00000001", "Hello");
    world_start(&world);
    fake_service_push(world.fake, FAKE_LIST_EMAILS,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .of = "in-1"});
    assert_int_equal(world_sync(&world), -EHOSTUNREACH);
    assert_emails(&world, "in-2", MAIL_1);
    assert_events(&world, "");
    world_release(&world);
}

static void *sync_all(void *argument)
{
    struct store_world *world = argument;
    assert_int_equal(world_sync(world), 0);
    return NULL;
}

static void a_long_inbox_does_not_hold_up_others(void **state)
{
    (void)state;
    enum {
        INBOXES = 9,
        AT_ONCE = 4
    };
    struct store_world world;
    pthread_t thread;
    world_init(&world);
    for (int i = 0; i < INBOXES; i++) {
        char text[64];
        snprintf(text, sizeof(text), "{\"id\": \"in-%d\"}", i);
        fake_service_add_inbox(world.fake, text);
        snprintf(text, sizeof(text), "in-%d", i);
        fake_service_add_simple_email(world.fake, text, "00000001", "Hello");
    }
    world_start(&world);
    fake_service_close_gate(world.fake, FAKE_LIST_EMAILS);
    assert_int_equal(pthread_create(&thread, NULL, sync_all, &world), 0);
    fake_service_wait_at_gate(world.fake, FAKE_LIST_EMAILS, AT_ONCE);
    /* One of them stays there, whichever it is: the others come to their end. */
    fake_service_let_pass(world.fake, FAKE_LIST_EMAILS, INBOXES - 1);
    fake_service_wait_count(world.fake, FAKE_LIST_EMAILS, INBOXES - 1);
    fake_service_wait_at_gate(world.fake, FAKE_LIST_EMAILS, 1);
    assert_int_equal(fake_service_most_at_once(world.fake, FAKE_LIST_EMAILS), AT_ONCE);
    fake_service_open_gate(world.fake, FAKE_LIST_EMAILS);
    pthread_join(thread, NULL);
    assert_int_equal(world_count(&world), INBOXES);
    world_release(&world);
}

static void one_inbox_can_be_synced_alone(void **state)
{
    (void)state;
    struct store_world world;
    _cleanup_free_ char *reason = NULL;
    world_init_with_alice(&world);
    world_start(&world);
    assert_int_equal(store_sync(world.store, "alice@inbox.example", NULL, &reason), -ENOENT);
    assert_non_null(reason);
    assert_int_equal(world_sync(&world), 0);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    assert_int_equal(store_sync(world.store, "alice@inbox.example", NULL, &reason), 0);
    assert_emails(&world, "alice@inbox.example", MAIL_1);
    assert_int_equal(fake_service_count(world.fake, FAKE_LIST_INBOXES), 1);
    world_release(&world);
}

/* ---------------------------------------------------------------- news */

static void what_was_there_at_the_beginning_is_no_news(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_changes(&world, "inbox 0 added;inbox 0 changed;");
    assert_events(&world, "");
    fake_service_add_simple_email(world.fake, "in-1", "00000002", "Again");
    assert_int_equal(world_sync(&world), 0);
    assert_events(&world, "mail inboxes/alice@inbox.example/" MAIL_2 " 00000002 -;");
    world_release(&world);
}

static void news_are_told_after_a_restart_and_of_new_inboxes(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_restart(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    fake_service_add_inbox(world.fake, "{\"id\": \"in-2\"}");
    fake_service_add_simple_email(world.fake, "in-2", "00000002", "Again");
    assert_int_equal(world_sync(&world), 0);
    /* In which order, depends on which inbox was looked at faster. */
    const char *events = strbuf_str(&world.events);
    assert_non_null(strstr(events, "inbox inboxes/in-2 in-2 -;"));
    assert_non_null(strstr(events, "mail inboxes/alice@inbox.example/" MAIL_1 " 00000001 -;"));
    assert_non_null(strstr(events, "mail inboxes/in-2/" MAIL_2 " 00000002 -;"));
    world_release(&world);
}

static void an_inbox_not_read_at_the_beginning_is_no_news_later(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    fake_service_add_simple_email(world.fake, "in-1", "00000001", "Hello");
    world_start(&world);
    fake_service_push(world.fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = SERVICE_UNKNOWN});
    assert_int_equal(world_sync(&world), -EHOSTUNREACH);
    world_restart(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(world_count(&world), 1);
    assert_events(&world, "");
    world_release(&world);
}

/* A backup by time must not take all mail for new after each restart, nor miss what came before it. */
static void the_time_of_an_inbox_is_that_of_its_newest_mail_over_a_restart(void **state)
{
    (void)state;
    struct store_world world;
    struct inbox_view view;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 3);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    fake_clock_advance(&world.clock, 60000);
    world_add_emails(&world, "in-1", 3, 4);
    assert_int_equal(world_sync(&world), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(store_find_inbox(world.store, "alice@inbox.example", &view));
        assert_int_equal(view.changed_ms, WORLD_START_MS + 60000);
        fake_clock_advance(&world.clock, 1000);
        world_restart(&world);
    }
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mail_is_shown_and_stays_over_a_restart),
        cmocka_unit_test(what_the_complete_answer_lacks_is_removed),
        cmocka_unit_test(what_returns_has_its_name_again),
        cmocka_unit_test(an_incomplete_answer_removes_nothing),
        cmocka_unit_test(a_changed_record_keeps_its_name),
        cmocka_unit_test(names_that_clash_are_told_apart_for_ever),
        cmocka_unit_test(records_without_anything_are_shown),
        cmocka_unit_test(what_is_left_behind_thousands_that_are_gone_is_listed),
        cmocka_unit_test(the_inbox_of_mail_that_names_none_stays),
        cmocka_unit_test(many_at_once_are_each_told_of_once),
        cmocka_unit_test(the_limit_grows_until_the_answer_is_shorter),
        cmocka_unit_test(a_service_that_refuses_large_limits_is_asked_for_less),
        cmocka_unit_test(a_complete_list_that_is_unchanged_is_not_sent_again),
        cmocka_unit_test(inboxes_come_rename_and_go),
        cmocka_unit_test(without_a_list_inboxes_are_found_by_mail),
        cmocka_unit_test(an_inbox_that_fails_does_not_hold_up_others),
        cmocka_unit_test(a_long_inbox_does_not_hold_up_others),
        cmocka_unit_test(one_inbox_can_be_synced_alone),
        cmocka_unit_test(what_was_there_at_the_beginning_is_no_news),
        cmocka_unit_test(news_are_told_after_a_restart_and_of_new_inboxes),
        cmocka_unit_test(an_inbox_not_read_at_the_beginning_is_no_news_later),
        cmocka_unit_test(the_time_of_an_inbox_is_that_of_its_newest_mail_over_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
