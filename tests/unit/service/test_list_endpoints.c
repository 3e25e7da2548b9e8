/* SPDX-License-Identifier: MIT */
/*
 * Lists of received and sent mail: filters in every spelling, order, limits, ETags.
 */

#include "support/test.h"

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "unit/service/service_fixture.h"

#define ANN "ann@inbox.localhost"
#define BOB "bob@inbox.localhost"

struct mailboxes {
    char *ann;
    char *bob;
};

/* Ann's inbox gets a welcome and three emails from Bob, and Bob's inbox two emails from Ann. */
static struct mailboxes fill(const struct fixture *fixture)
{
    struct mailboxes boxes = {create_inbox(fixture, ANN, NULL), create_inbox(fixture, BOB, NULL)};
    free(send_message(fixture, message_to(ANN, BOB, "One 50% off_")));
    free(send_message(fixture, message_to(ANN, BOB, "Two")));
    for (int i = 0; i < 3; i++) {
        char subject[32];
        snprintf(subject, sizeof(subject), "Report %d", i);
        json_t *request = message_to(BOB, ANN, subject);
        json_object_set_new(request, "html", json_string("<p>Sch&ouml;n &amp; gut</p>"));
        free(send_message(fixture, request));
    }
    return boxes;
}

static void release(struct mailboxes *boxes)
{
    free(boxes->ann);
    free(boxes->bob);
}

TEST_WITH(filters_are_read_in_every_spelling, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    struct mailboxes boxes = fill(fixture);
    const char *a = boxes.ann;
    const char *b = boxes.bob;
    const struct {
        const char *format;
        const char *first, *second;
        size_t count;
    } cases[] = {
        {"email", "", "", 6},
        {"email?inbox_ids=%s", a, "", 4},
        {"email?inbox_id=%s", b, "", 2},
        {"email?inbox_ids=%s&inbox_ids=%s", a, b, 6},
        {"email?inbox_ids=%%5B%%22%s%%22,%%22%s%%22%%5D", a, b, 6},
        {"email?inbox_ids=%%5B%%22%s%%22%%5D", b, "", 2},
        {"email?inbox_ids=%%5B%%5D", "", "", 0},
        {"email?inbox_ids=nothing", "", "", 0},
        {"email?inbox_ids=null&limit=null&search_term=&valid_only=null", "", "", 6},
        {"email?limit=2", "", "", 2},
        {"email?limit=99999999999999999999", "", "", 6},
        {"email?from_addresses=BOB@inbox.localhost", "", "", 3},
        {"email?from_addresses=%%5B%%22" BOB "%%22,%%22support@inbox.localhost%%22%%5D", "", "", 4},
        {"email?from_addresses=" BOB "&inbox_ids=%s&limit=1", a, "", 1},
        {"email?search_term=report", "", "", 3},
        {"email?search_term=50%%25+OFF_", "", "", 1},
        {"email?search_term=the+text", "", "", 5},
        {"email?search_term=%%26+gut", "", "", 3},
        {"email?search_term=%%25", "", "", 1},
        {"email?search_term='%%20or%%20true--", "", "", 0},
        {"email?valid_only=False", "", "", 6},
        {"email?unknown=field", "", "", 6},
        {"email/outbound", "", "", 5},
        {"email/outbound?inbox_ids=%s", a, "", 2},
        {"email/outbound?search_term=report&limit=2", "", "", 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char query[256];
        char target[300];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(query, sizeof(query), cases[i].format, cases[i].first, cases[i].second);
#pragma GCC diagnostic pop
        snprintf(target, sizeof(target), "/api/v1/%s", query);
        size_t count = count_of(fixture, target);
        if (count != cases[i].count)
            fail_msg("%s: %zu instead of %zu", query, count, cases[i].count);
    }
    release(&boxes);
}

TEST_WITH(the_newest_email_is_first, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    struct mailboxes boxes = fill(fixture);
    static const char *const subjects[] = {"Report 2", "Report 1", "Report 0", "Welcome to your inbox"};
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email?inbox_ids=%s", boxes.ann);
    json_t *list = get(fixture, target);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(subjects[i], text_of(json_array_get(list, i), "subject"));
    json_decref(list);
    release(&boxes);
}

TEST_WITH(a_refusal_names_the_bad_filter, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *query;
        const char *name;
    } cases[] = {
        {"limit=0", "limit"},
        {"limit=-1", "limit"},
        {"limit=x", "limit"},
        {"limit=1x", "limit"},
        {"valid_only=maybe", "valid_only"},
        {"inbox_ids=%5B5%5D", "inbox_ids"},
        {"inbox_ids=%5B%22a", "inbox_ids"},
        {"search_term=%FF", "search_term"},
        {"from_addresses=%FF", "from_addresses"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char target[256];
        snprintf(target, sizeof(target), "/api/v1/email?%s", cases[i].query);
        json_t *error = call(*state, "GET", target, NULL, 422);
        const json_t *location = json_object_get(json_array_get(json_object_get(error, "detail"), 0), "loc");
        assert_string_equal("query", json_string_value(json_array_get(location, 0)));
        assert_string_equal(cases[i].name, json_string_value(json_array_get(location, 1)));
        json_decref(error);
    }
}

static char *etag_of(const struct fixture *fixture, const char *target, const char *known, int status)
{
    char header[256] = "";
    if (known != NULL)
        snprintf(header, sizeof(header), "If-None-Match: \"other\", %s\r\n", known);
    struct http_answer answer;
    http_client_request(&fixture->client, "GET", target, header, NULL, 0, &answer);
    assert_int_equal(status, answer.status);
    if (status == 304)
        assert_int_equal(0, answer.body_len);
    char *etag = http_answer_header(&answer, "ETag");
    assert_non_null(etag);
    http_answer_release(&answer);
    return etag;
}

TEST_WITH(an_unchanged_list_is_not_sent_again, fixture_set_up, fixture_tear_down)
{
    struct fixture *fixture = *state;
    struct mailboxes boxes = fill(fixture);
    static const char *const targets[] = {"/api/v1/email", "/api/v1/inbox", "/api/v1/email/outbound"};
    char *before[3];
    for (size_t i = 0; i < 3; i++) {
        before[i] = etag_of(fixture, targets[i], NULL, 200);
        assert_int_equal('"', before[i][0]);
        char *again = etag_of(fixture, targets[i], before[i], 304);
        assert_string_equal(before[i], again);
        free(again);
    }
    char *other = etag_of(fixture, "/api/v1/email?limit=1", before[0], 200);
    assert_string_not_equal(before[0], other);
    free(other);

    fixture_stop(fixture);
    fixture_start(fixture);
    free(etag_of(fixture, targets[0], before[0], 304));

    free(send_message(fixture, message_to(ANN, BOB, "New")));
    char *after = etag_of(fixture, targets[0], before[0], 200);
    json_t *email = newest_email(fixture, boxes.bob, "");
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email?inbox_ids=%s", boxes.ann);
    char *of_ann = etag_of(fixture, target, NULL, 200);
    free(send_message(fixture, message_to(ANN, BOB, "For Bob")));
    free(etag_of(fixture, target, of_ann, 304));
    free(send_message(fixture, message_to(BOB, ANN, "For Ann")));
    free(etag_of(fixture, target, of_ann, 200));
    free(of_ann);
    free(after);
    after = etag_of(fixture, targets[0], NULL, 200);
    snprintf(target, sizeof(target), "/api/v1/email/%s/mark/true", text_of(email, "id"));
    json_decref(call(fixture, "POST", target, NULL, 200));
    free(etag_of(fixture, targets[0], after, 200));
    json_decref(email);
    free(after);
    for (size_t i = 0; i < 3; i++)
        free(before[i]);
    release(&boxes);
}

/* A client that took half a list for the complete list would remove the other half of its mail. */
TEST_WITH(a_list_cut_by_an_error_does_not_end_like_a_complete_list, fixture_set_up, fixture_tear_down)
{
    struct fixture *fixture = *state;
    struct mailboxes boxes = fill(fixture);
    fixture_stop(fixture);
    /* The first records are so long that they are sent before SQLite fails to compute one (overflow). */
    run_sql(fixture, "UPDATE emails SET record = json_set(record, '$.x', hex(zeroblob(100000)));"
                     "ALTER TABLE emails RENAME TO kept;"
                     "CREATE VIEW emails AS SELECT seq, id, inbox, message, from_address, is_valid,"
                     " CASE WHEN seq = 3 THEN abs(-9223372036854775807 - is_valid) ELSE record END"
                     " AS record FROM kept");
    fixture_start(fixture);

    _cleanup_strbuf_ struct strbuf answer = STRBUF_INIT(4000000);
    char buffer[4096];
    ssize_t got;
    int fd = http_client_connect(&fixture->client);
    int len = snprintf(buffer, sizeof(buffer),
                       "GET /api/v1/email HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       "Authorization: Bearer %s\r\n\r\n",
                       fixture->key);
    assert_int_equal(len, write(fd, buffer, (size_t)len));
    while ((got = read(fd, buffer, sizeof(buffer))) > 0)
        assert_int_equal(0, strbuf_append(&answer, buffer, (size_t)got));
    close(fd);
    static const char last_chunk[] = "\r\n0\r\n\r\n";
    size_t end = strlen(last_chunk);
    assert_non_null(strstr(strbuf_str(&answer), "[{"));
    assert_true(answer.len > end);
    assert_string_not_equal(strbuf_str(&answer) + answer.len - end, last_chunk);
    release(&boxes);
}
