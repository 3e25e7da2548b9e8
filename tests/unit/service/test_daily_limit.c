/* SPDX-License-Identifier: MIT */
/*
 * How many emails a tier may send in a UTC day, and what is answered past that.
 */
#include <sqlite3.h>

#include "unit/service/service_fixture.h"

#define SEND "/api/v1/email/send"
#define ANN "ann@inbox.localhost"

static json_t *message_with_key(const char *key)
{
    json_t *request = message_to(ANN, ANN, "x");
    if (key != NULL)
        json_object_set_new(request, "idempotency_key", json_string(key));
    return request;
}

/* Sends one more, which is past the limit. */
static void assert_refused(const struct fixture *fixture)
{
    json_t *request = message_with_key(NULL);
    char *text = json_dumps(request, 0);
    struct http_answer answer;
    http_client_request(&fixture->client, "POST", SEND, "Content-Type: application/json\r\n", text,
                        strlen(text), &answer);
    assert_int_equal(429, answer.status);
    char *seconds = http_answer_header(&answer, "Retry-After");
    assert_in_range(strtol(seconds, NULL, 10), 1, 86400);
    json_t *error = json_loads(answer.body, 0, NULL);
    assert_members(error, "detail");
    json_decref(error);
    free(seconds);
    http_answer_release(&answer);
    free(text);
    json_decref(request);
}

/* What was sent, changed behind the service's back. */
static void change_sent(const struct fixture *fixture, const char *statement)
{
    char path[400];
    sqlite3 *db = NULL;
    snprintf(path, sizeof(path), "%s/inbox.sqlite3", fixture->data_dir);
    assert_int_equal(SQLITE_OK, sqlite3_open(path, &db));
    sqlite3_busy_timeout(db, 5000);
    char *words = NULL;
    if (sqlite3_exec(db, statement, NULL, NULL, &words) != SQLITE_OK)
        fail_msg("%s", words);
    sqlite3_close(db);
}

static void the_free_tier_sends_ten_a_day(void **state)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    for (int i = 0; i < 10; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key %d", i);
        free(send_message(fixture, message_with_key(key)));
    }
    /* What was sent before is no further email. */
    free(send_message(fixture, message_with_key("key 3")));
    assert_refused(fixture);
    assert_int_equal(10, count_of(fixture, "/api/v1/email/outbound"));
}

static void the_paid_tier_sends_a_thousand(void **state)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    free(send_message(fixture, message_with_key(NULL)));
    change_sent(fixture, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998)"
                         " INSERT INTO outbound (id, inbox, message, date_ms, record)"
                         " SELECT 'copy ' || i, inbox, message, date_ms, record FROM n, outbound");
    free(send_message(fixture, message_with_key(NULL)));
    assert_refused(fixture);
    assert_int_equal(1000, count_of(fixture, "/api/v1/email/outbound?limit=2000"));
}

static void another_day_starts_anew(void **state)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    for (int i = 0; i < 10; i++)
        free(send_message(fixture, message_with_key(NULL)));
    assert_refused(fixture);
    change_sent(fixture, "UPDATE outbound SET date_ms = date_ms - 86400000");
    free(send_message(fixture, message_with_key(NULL)));
}

static int set_up_free(void **state)
{
    return fixture_set_up_tier(state, SERVICE_TIER_FREE);
}

static int set_up_paid(void **state)
{
    return fixture_set_up_tier(state, SERVICE_TIER_PAID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_free_tier_sends_ten_a_day, set_up_free, fixture_tear_down),
        cmocka_unit_test_setup_teardown(the_paid_tier_sends_a_thousand, set_up_paid, fixture_tear_down),
        cmocka_unit_test_setup_teardown(another_day_starts_anew, set_up_free, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
