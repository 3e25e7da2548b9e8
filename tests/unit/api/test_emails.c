/* SPDX-License-Identifier: MIT */
/*
 * Lists of emails: the records that are delivered or skipped, limits, damage, and answers that have not
 * changed.
 */
#include "unit/api/api_fixture.h"

#include "support/test.h"

struct found {
    struct strbuf text; /* a line "key inbox_id" for each record */
    int stop_with;      /* result of the sink: 0, or -errno to stop the list */
    size_t count;
};

static int collect(void *context, struct email_record *record)
{
    struct found *found = context;
    found->count++;
    strbuf_appendf(&found->text, "%s %s\n", record->key, record->inbox_id != NULL ? record->inbox_id : "-");
    return found->stop_with;
}

static struct service_result list(struct api_fixture *fixture, struct email_query query, struct found *found,
                                  unsigned int *ret_count)
{
    struct service_result result;
    strbuf_clear(&found->text);
    found->count = 0;
    fixture->service->ops->list_emails(fixture->service, &query, collect, found, NULL, ret_count, &result);
    check_result(&result);
    return result;
}

API_TEST(records_of_other_inboxes_are_skipped_and_missing_inbox_ids_are_filled_in)
{
    struct api_fixture *fixture = *state;
    struct found found = {.text = STRBUF_INIT(4096)};
    unsigned int count;
    scripted_server_push(fixture->server,
                         (struct scripted_step){.body = "[{\"id\": \"1\", \"inbox_id\": \"i/1\"}, {\"id\": "
                                                        "\"2\", \"inbox_id\": \"other\"}, {\"id\": \"3\"}]"});
    struct service_result result =
        list(fixture, (struct email_query){.inbox_id = "i/1", .limit = 50}, &found, &count);
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_int_equal(count, 3);
    assert_string_equal(strbuf_str(&found.text), "1 i/1\n3 i/1\n");
    assert_string_equal(scripted_server_request(fixture->server, 0)->target,
                        "/api/v1/email?inbox_ids=i%2F1&limit=50");
    service_result_release(&result);

    scripted_server_push(fixture->server, (struct scripted_step){
                                              .body = "{\"data\": [{\"id\": \"1\", \"inbox_id\": \"x\"}]}"});
    result = list(fixture, (struct email_query){.limit = 7}, &found, &count);
    assert_string_equal(strbuf_str(&found.text), "1 x\n");
    assert_string_equal(scripted_server_request(fixture->server, 1)->target, "/api/v1/email?limit=7");
    service_result_release(&result);
    strbuf_release(&found.text);
}

API_TEST(damage_is_reported_and_other_records_are_delivered)
{
    static const struct {
        struct scripted_step step;
        enum service_outcome outcome;
        int error;
        const char *found;
        const char *reason;
    } cases[] = {
        {{.body = "[]"}, SERVICE_OK, 0, "", NULL},
        {{.body = "[{\"id\": \"1\"}, {\"id\": \"\xff\xfe\"}, {\"id\": \"3\"}]"},
         SERVICE_OK,
         EIO,
         "1 -\n3 -\n",
         "record 2 of the list cannot be read: invalid UTF-8"},
        {{.body = "[{\"id\": \"1\", \"id\": \"2\"}, {\"id\": \"3\"}]"},
         SERVICE_OK,
         EIO,
         "3 -\n",
         "a key twice"},
        {{.body = "[{\"id\": tru}, {\"id\": \"3\"}]"}, SERVICE_OK, EIO, "3 -\n", "invalid JSON"},
        {{.body = "[{\"id\": \"1\"}, {\"id\": "}, SERVICE_RETRY, EIO, "1 -\n", "cut off"},
        {{.body = "[{\"id\": \"1\"}]garbage"}, SERVICE_RETRY, EIO, "1 -\n", "damaged"},
        {{.body = "<html>200</html>"}, SERVICE_RETRY, EIO, "", "not a JSON list"},
        {{.body = ""}, SERVICE_RETRY, EIO, "", "not a JSON list"},
        {{.status = 204}, SERVICE_RETRY, EIO, "", "not a JSON list"},
        {{.body = "{\"detail\": \"x\"}"}, SERVICE_RETRY, EIO, "", "not a JSON list"},
        {{.fault = SCRIPTED_HALF_BODY, .body = "[{\"id\": \"1\"}, {\"id\": \"2\"}, {\"id\": \"3\"}]"},
         SERVICE_RETRY,
         EHOSTUNREACH,
         "1 -\n",
         "cut off"},
        {{.fault = SCRIPTED_BAD_CHUNK}, SERVICE_RETRY, EHOSTUNREACH, "", "cut off"},
        {{.fault = SCRIPTED_ENDLESS_BODY}, SERVICE_RETRY, EIO, "", "not a JSON list"},
        {{.fault = SCRIPTED_CHUNKED, .body = "[{\"id\": \"1\"}, {\"id\": \"2\\\"}\"}]"},
         SERVICE_OK,
         0,
         "1 -\n2\"} -\n",
         NULL},
        {{.status = 500, .body = "{\"detail\": \"boom\"}"}, SERVICE_RETRY, EIO, "", "HTTP 500: boom"},
        {{.status = 404}, SERVICE_REJECTED, EINVAL, "", "HTTP 404"},
        {{.status = 304}, SERVICE_REJECTED, EIO, "", "HTTP 304"},
        {{.status = 401, .body = "{\"detail\": \"key " API_KEY " is wrong\"}"},
         SERVICE_UNAUTHORIZED,
         EACCES,
         "",
         "refuses the API key): key *"},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct found found = {.text = STRBUF_INIT(4096)};
        unsigned int count;
        scripted_server_push(fixture->server, cases[i].step);
        struct service_result result = list(fixture, (struct email_query){.limit = 100}, &found, &count);
        if (result.outcome != cases[i].outcome || result.error != cases[i].error ||
            strcmp(strbuf_str(&found.text), cases[i].found) != 0)
            fail_msg("case %zu: outcome %d, error %d (%s), records %s", i, result.outcome, result.error,
                     result.detail, strbuf_str(&found.text));
        if (cases[i].reason != NULL && strstr(result.detail, cases[i].reason) == NULL)
            fail_msg("case %zu: %s", i, result.detail);
        assert_true(result.http_status != 404 || result.is_foreign); /* every service lists mail */
        service_result_release(&result);
        strbuf_release(&found.text);
    }
}

/* A service that ignores the limit may send a list without end. */
API_TEST(a_list_is_read_up_to_the_known_number_and_a_surplus)
{
    struct api_fixture *fixture = *state;
    struct strbuf *body = &fixture->body;
    strbuf_append_char(body, '[');
    for (int i = 0; i < 2 * MAIL_LIST_SURPLUS; i++)
        strbuf_appendf(body, "%s{\"id\": \"%d\"}", i > 0 ? "," : "", i);
    strbuf_append_char(body, ']');
    for (size_t known = 0; known <= MAIL_LIST_SURPLUS; known += MAIL_LIST_SURPLUS) {
        struct found found = {.text = STRBUF_INIT(1 << 20)};
        unsigned int count;
        scripted_server_push(fixture->server,
                             (struct scripted_step){.body = body->data, .body_len = body->len});
        struct service_result result =
            list(fixture, (struct email_query){.limit = 100, .known = known}, &found, &count);
        assert_int_equal(count, known + MAIL_LIST_SURPLUS);
        assert_int_equal(result.outcome, known > 0 ? SERVICE_OK : SERVICE_RETRY);
        if (known == 0)
            assert_non_null(strstr(result.detail, "more than it was asked for: 10000 records were taken"));
        service_result_release(&result);
        strbuf_release(&found.text);
    }
    /* A request for one record only checks that the service answers. */
    struct found found = {.text = STRBUF_INIT(1 << 20)};
    unsigned int count;
    scripted_server_push(fixture->server, (struct scripted_step){.body = body->data, .body_len = body->len});
    struct service_result result = list(fixture, (struct email_query){.limit = 1}, &found, &count);
    assert_int_equal(result.outcome, SERVICE_OK);
    service_result_release(&result);
    strbuf_release(&found.text);
}

API_TEST(a_record_that_is_too_long_is_skipped_and_reported)
{
    struct api_fixture *fixture = *state;
    struct found found = {.text = STRBUF_INIT(4096)};
    struct strbuf *body = &fixture->body;
    strbuf_append_str(body, "[{\"id\": \"1\", \"x\": \"");
    strbuf_reserve(body, EMAIL_RECORD_MAX_BYTES);
    for (int i = 0; i < EMAIL_RECORD_MAX_BYTES; i++)
        strbuf_append_char(body, 'x');
    strbuf_append_str(body, "\"}, {\"id\": \"2\"}]");
    scripted_server_push(fixture->server, (struct scripted_step){.body = body->data, .body_len = body->len});
    unsigned int count;
    struct service_result result = list(fixture, (struct email_query){.limit = 100}, &found, &count);
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_int_equal(result.error, EIO);
    assert_int_equal(count, 2);
    assert_string_equal(strbuf_str(&found.text), "2 -\n");
    assert_non_null(strstr(result.detail, "record 1 of the list cannot be read: too long"));
    service_result_release(&result);
    strbuf_release(&found.text);
}

API_TEST(a_sink_can_stop_the_list)
{
    static const int errors[] = {-ENOSPC, -EBADMSG, -EMSGSIZE};
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        struct found found = {.text = STRBUF_INIT(4096), .stop_with = errors[i]};
        unsigned int count;
        scripted_server_push(fixture->server,
                             (struct scripted_step){.body = "[{\"id\": \"1\"}, {\"id\": \"2\"}]"});
        struct service_result result = list(fixture, (struct email_query){.limit = 100}, &found, &count);
        assert_int_equal(result.outcome, SERVICE_RETRY);
        assert_int_equal(result.error, -errors[i]);
        assert_int_equal(found.count, 1);
        service_result_release(&result);
        strbuf_release(&found.text);
    }
}

API_TEST(a_long_list_is_delivered_completely)
{
    enum {
        RECORDS = 20000
    };
    struct api_fixture *fixture = *state;
    struct found found = {.text = STRBUF_INIT(1 << 20)};
    struct strbuf *body = &fixture->body;
    for (int i = 0; i < RECORDS; i++)
        strbuf_appendf(body,
                       "%c{\"id\": \"id-%d\", \"inbox_id\": \"i\", \"subject\": \"[{\\\"quoted\\\"}] %d\"}",
                       i == 0 ? '[' : ',', i, i);
    strbuf_append_char(body, ']');
    scripted_server_push(fixture->server, (struct scripted_step){.body = body->data, .body_len = body->len});
    unsigned int count;
    struct service_result result =
        list(fixture, (struct email_query){.inbox_id = "i", .limit = RECORDS}, &found, &count);
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_int_equal(count, RECORDS);
    assert_int_equal(found.count, RECORDS);
    service_result_release(&result);
    strbuf_release(&found.text);
}

struct stopping {
    size_t count;
    size_t stop_at;
};

static int stop_at(void *context, struct email_record *record)
{
    struct stopping *stopping = context;
    return record != NULL && ++stopping->count >= stopping->stop_at ? -ENOSPC : 0;
}

/* A truncated list must not count as complete: the emails that it lacks would be removed. */
API_TEST(a_sink_can_stop_a_long_list_at_any_record)
{
    enum {
        RECORDS = 20000
    };
    static const size_t stops[] = {1,           RECORDS / 2, RECORDS - 5000, RECORDS - 1000, RECORDS - 100,
                                   RECORDS - 1, RECORDS};
    struct api_fixture *fixture = *state;
    struct strbuf *body = &fixture->body;
    for (int i = 0; i < RECORDS; i++)
        strbuf_appendf(body, "%c{\"id\": \"id-%d\", \"subject\": \"number %d\"}", i == 0 ? '[' : ',', i, i);
    strbuf_append_char(body, ']');
    for (size_t i = 0; i < ARRAY_LEN(stops); i++) {
        scripted_server_push(fixture->server,
                             (struct scripted_step){.body = body->data, .body_len = body->len});
        const struct email_query query = {.limit = RECORDS};
        struct stopping stopping = {.stop_at = stops[i]};
        struct service_result result;
        unsigned int count;
        fixture->service->ops->list_emails(fixture->service, &query, stop_at, &stopping, NULL, &count,
                                           &result);
        check_result(&result);
        assert_int_equal(result.outcome, SERVICE_RETRY);
        assert_int_equal(result.error, ENOSPC);
        assert_int_equal(stopping.count, stops[i]);
        service_result_release(&result);
    }
}

API_TEST(a_long_list_with_damage_at_any_record_fails)
{
    enum {
        RECORDS = 20000
    };
    static const int places[] = {1, RECORDS / 2, RECORDS - 5000, RECORDS - 1000, RECORDS - 100, RECORDS - 1};
    struct api_fixture *fixture = *state;
    struct strbuf *body = &fixture->body;
    size_t ends[ARRAY_LEN(places)];
    /* All lists are made first, since the server may still be sending one when the client gives it up. */
    for (size_t place = 0; place < ARRAY_LEN(places); place++) {
        for (int i = 0; i < RECORDS; i++)
            strbuf_appendf(body, "%c{\"id\": \"id-%d\"}", i == 0 ? '[' : i == places[place] ? '}' : ',', i);
        strbuf_append_char(body, ']');
        ends[place] = body->len;
    }
    for (size_t place = 0; place < ARRAY_LEN(places); place++) {
        size_t start = place == 0 ? 0 : ends[place - 1];
        scripted_server_push(fixture->server, (struct scripted_step){.body = body->data + start,
                                                                     .body_len = ends[place] - start});
        struct found found = {.text = STRBUF_INIT(1 << 20)};
        unsigned int count;
        struct service_result result = list(fixture, (struct email_query){.limit = RECORDS}, &found, &count);
        assert_int_not_equal(result.outcome, SERVICE_OK);
        service_result_release(&result);
        strbuf_release(&found.text);
    }
}

static int cancel_at_record(void *context, struct email_record *record)
{
    (void)record;
    cancel_set(context);
    return 0;
}

API_TEST(a_long_list_can_be_cancelled)
{
    struct api_fixture *fixture = *state;
    struct strbuf *body = &fixture->body;
    struct cancel cancel;
    cancel_init(&cancel);
    for (int i = 0; i < 20000; i++)
        strbuf_appendf(body, "%c{\"id\": \"id-%d\", \"subject\": \"number %d\"}", i == 0 ? '[' : ',', i, i);
    strbuf_append_char(body, ']');
    scripted_server_push(
        fixture->server,
        (struct scripted_step){.fault = SCRIPTED_STALL_IN_BODY, .body = body->data, .body_len = body->len});
    const struct email_query query = {.limit = 20000};
    struct service_result result;
    unsigned int count;
    fixture->service->ops->list_emails(fixture->service, &query, cancel_at_record, &cancel, &cancel, &count,
                                       &result);
    check_result(&result);
    assert_int_equal(result.error, EINTR);
    assert_true(count < 20000);
    service_result_release(&result);
    cancel_release(&cancel);
}

API_TEST(an_unchanged_answer_is_not_delivered_again)
{
    struct api_fixture *fixture = *state;
    struct found found = {.text = STRBUF_INIT(4096)};
    const struct email_query again = {.limit = 100, .may_be_unchanged = true};
    unsigned int count;
    scripted_server_push(
        fixture->server,
        (struct scripted_step){.headers = "ETag: \"v1\"\r\n", .body = "[{\"id\": \"1\"}, {\"id\": \"2\"}]"});
    struct service_result result = list(fixture, again, &found, &count);
    assert_int_equal(found.count, 2);
    service_result_release(&result);

    scripted_server_push(fixture->server, (struct scripted_step){.status = 304});
    result = list(fixture, again, &found, &count);
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_int_equal(result.http_status, 304);
    assert_int_equal(count, 2);
    assert_int_equal(found.count, 0);
    service_result_release(&result);
    assert_string_equal(scripted_request_header(scripted_server_request(fixture->server, 1), "If-None-Match"),
                        "\"v1\"");

    /* No ETag is sent if the query forbids it, or after an answer that was not delivered completely. */
    static const char *const bodies[] = {"[{\"id\": ", "[{\"id\": tru}]", "[]"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        scripted_server_push(fixture->server,
                             (struct scripted_step){.headers = "ETag: \"v2\"\r\n", .body = bodies[i]});
        result = list(fixture, i == 0 ? (struct email_query){.limit = 100} : again, &found, &count);
        service_result_release(&result);
        assert_null(
            scripted_request_header(scripted_server_request(fixture->server, 2 + i), "If-None-Match"));
    }
    strbuf_release(&found.text);
}
