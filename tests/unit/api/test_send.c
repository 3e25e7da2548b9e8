/* SPDX-License-Identifier: MIT */
/*
 * Covers each row of the contract's table of outcomes and each form of a send request that servers accept. No
 * message may be sent twice.
 */
#include "unit/api/api_fixture.h"

#include <jansson.h>

#include "base/thread.h"
#include "support/test.h"

#define MESSAGE                                                                                              \
    "{\"from_address\": \"me@inbox.example\", \"subject\": \"s\", \"plain_text\": \"p\", \"to_addresses\": " \
    "[{\"address\": \"a@b.example\", \"name\": null}]}"
#define NAMES_FROM "{\"detail\": [{\"loc\": [\"body\", \"from_address\"], \"msg\": \"object wanted\"}]}"
#define NAMES_KEY "{\"detail\": [{\"loc\": [\"body\", \"idempotency_key\"], \"msg\": \"Extra inputs\"}]}"

struct sent {
    struct service_result result;
    char *id;
};

static struct sent send_as(struct api_fixture *fixture, const struct send_request *request)
{
    struct sent sent;
    fixture->service->ops->send(fixture->service, request, NULL, &sent.id, &sent.result);
    check_result(&sent.result);
    return sent;
}

static struct sent send_one(struct api_fixture *fixture)
{
    return send_as(fixture, &(struct send_request){.json = MESSAGE, .idempotency_key = "key-1"});
}

static void release(struct sent *sent)
{
    service_result_release(&sent->result);
    free(sent->id);
}

static void push(struct api_fixture *fixture, int status, const char *body)
{
    scripted_server_push(fixture->server, (struct scripted_step){.status = status, .body = body});
}

/* Returns the body of request `number`; the caller releases it. */
static json_t *request_body(struct api_fixture *fixture, size_t number)
{
    const struct scripted_request *request = scripted_server_request(fixture->server, number);
    assert_non_null(request);
    assert_string_equal(request->target, "/api/v1/email/send");
    json_t *body = json_loadb(request->body, request->body_len, 0, NULL);
    assert_non_null(body);
    return body;
}

static void assert_form(struct api_fixture *fixture, size_t number, bool as_text, bool with_key)
{
    json_t *body = request_body(fixture, number);
    json_t *from = json_object_get(body, "from_address");
    assert_int_equal(json_is_string(from), as_text);
    if (!as_text) {
        assert_string_equal(json_string_value(json_object_get(from, "address")), "me@inbox.example");
        assert_true(json_is_null(json_object_get(from, "name")));
    }
    const char *key = json_string_value(json_object_get(body, "idempotency_key"));
    if (with_key)
        assert_string_equal(key, "key-1");
    else
        assert_null(json_object_get(body, "idempotency_key"));
    json_decref(body);
}

/* ---------------------------------------------------------------- outcomes */

API_TEST(each_answer_has_its_outcome)
{
    static const struct {
        struct scripted_step step;
        enum service_outcome outcome;
        int error;
        const char *id;
    } cases[] = {
        {{.body = "{\"id\": \"e-1\"}"}, SERVICE_OK, 0, "e-1"},
        {{.status = 201, .body = "{\"id\": 17}"}, SERVICE_OK, 0, "17"},
        {{.status = 202, .body = "\"e-2\""}, SERVICE_OK, 0, "e-2"},
        {{.status = 204}, SERVICE_OK, 0, NULL},
        {{.body = " \n"}, SERVICE_OK, 0, NULL},
        {{.body = "{\"ok\": true}"}, SERVICE_OK, 0, NULL},
        {{.body = "null"}, SERVICE_OK, 0, NULL},
        {{.body = "{\"id\": \"\"}"}, SERVICE_OK, 0, NULL},
        {{.body = "<html>logged out</html>"}, SERVICE_UNKNOWN, EIO, NULL},
        {{.body = "OK"}, SERVICE_UNKNOWN, EIO, NULL},
        {{.body = "{\"id\": \"e-"}, SERVICE_UNKNOWN, EIO, NULL},
        {{.status = 302, .headers = "Location: /login\r\n"}, SERVICE_REJECTED, EIO, NULL},
        {{.status = 304}, SERVICE_REJECTED, EIO, NULL},
        {{.status = 401, .body = "{\"detail\": \"Bad key " API_KEY "\"}"},
         SERVICE_UNAUTHORIZED,
         EACCES,
         NULL},
        {{.status = 403, .body = "{\"detail\": \"no\"}"}, SERVICE_UNAUTHORIZED, EACCES, NULL},
        {{.status = 403, .body = "<html>blocked</html>"}, SERVICE_RETRY, EHOSTUNREACH, NULL},
        {{.status = 404}, SERVICE_REJECTED, EINVAL, NULL},
        {{.status = 408}, SERVICE_UNKNOWN, ETIMEDOUT, NULL},
        {{.status = 409}, SERVICE_REJECTED, EEXIST, NULL},
        {{.status = 413}, SERVICE_REJECTED, EFBIG, NULL},
        {{.status = 418, .body = "<html>teapot</html>"}, SERVICE_REJECTED, EINVAL, NULL},
        {{.status = 429}, SERVICE_RETRY, EAGAIN, NULL},
        {{.status = 500, .body = "\x1b[31mred\r\n"}, SERVICE_UNKNOWN, EIO, NULL},
        {{.status = 501}, SERVICE_UNKNOWN, EIO, NULL},
        {{.status = 502}, SERVICE_UNKNOWN, EIO, NULL},
        {{.status = 503}, SERVICE_RETRY, EAGAIN, NULL},
        {{.status = 504}, SERVICE_UNKNOWN, ETIMEDOUT, NULL},
        {{.status = 599}, SERVICE_UNKNOWN, EIO, NULL},
        {{.status = 799}, SERVICE_UNKNOWN, EIO, NULL},
        {{.fault = SCRIPTED_RESET_AFTER}, SERVICE_UNKNOWN, EHOSTUNREACH, NULL},
        {{.fault = SCRIPTED_CLOSE_AFTER}, SERVICE_UNKNOWN, EHOSTUNREACH, NULL},
        {{.fault = SCRIPTED_HALF_HEAD}, SERVICE_UNKNOWN, EHOSTUNREACH, NULL},
        {{.fault = SCRIPTED_HALF_BODY, .body = "{\"id\": \"e-3\"}"}, SERVICE_UNKNOWN, EHOSTUNREACH, NULL},
        {{.fault = SCRIPTED_BAD_CHUNK}, SERVICE_UNKNOWN, EHOSTUNREACH, NULL},
        {{.fault = SCRIPTED_GARBAGE}, SERVICE_UNKNOWN, EIO, NULL},
        {{.fault = SCRIPTED_ENDLESS_HEAD}, SERVICE_UNKNOWN, EIO, NULL},
        {{.fault = SCRIPTED_ENDLESS_BODY}, SERVICE_UNKNOWN, EIO, NULL},
        {{.status = 409, .fault = SCRIPTED_HALF_BODY, .body = "cut off"}, SERVICE_REJECTED, EEXIST, NULL},
        {{.status = 503, .fault = SCRIPTED_ENDLESS_BODY}, SERVICE_RETRY, EAGAIN, NULL},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        scripted_server_clear(fixture->server);
        scripted_server_push(fixture->server, cases[i].step);
        struct sent sent = send_one(fixture);
        if (sent.result.outcome != cases[i].outcome || sent.result.error != cases[i].error)
            fail_msg("case %zu: outcome %d, error %d (%s)", i, sent.result.outcome, sent.result.error,
                     sent.result.detail);
        if (cases[i].id != NULL)
            assert_string_equal(sent.id, cases[i].id);
        else
            assert_null(sent.id);
        assert_int_equal(scripted_server_requests(fixture->server), 1);
        assert_form(fixture, 0, true, true);
        release(&sent);
    }
}

API_TEST(an_unreachable_service_gives_the_outcome_retry)
{
    struct scripted_server *gone = scripted_server_start();
    struct http_config config = {.base_url = scripted_server_url(gone), .api_key = API_KEY};
    struct api_fixture fixture = {.server = gone};
    assert_int_equal(api_service_new(&config, &fixture.service), 0);
    scripted_server_stop(gone);
    struct sent sent = send_one(&fixture);
    assert_int_equal(sent.result.outcome, SERVICE_RETRY);
    assert_int_equal(sent.result.error, EHOSTUNREACH);
    assert_int_equal(sent.result.http_status, 0);
    release(&sent);
    api_service_free(fixture.service);
}

API_TEST(retry_after_is_passed_to_the_caller)
{
    struct api_fixture *fixture = *state;
    scripted_server_push(fixture->server,
                         (struct scripted_step){.status = 429, .headers = "Retry-After: 9\r\n"});
    struct sent sent = send_one(fixture);
    assert_int_equal(sent.result.retry_after_ms, 9000);
    release(&sent);
    push(fixture, 429, "");
    sent = send_one(fixture);
    assert_int_equal(sent.result.retry_after_ms, -1);
    release(&sent);
}

/* ---------------------------------------------------------------- forms of the request */

API_TEST(the_accepted_form_of_from_address_is_remembered)
{
    struct api_fixture *fixture = *state;
    push(fixture, 422, NAMES_FROM);
    push(fixture, 200, "{\"id\": \"e\"}");
    struct sent sent = send_one(fixture);
    assert_int_equal(sent.result.outcome, SERVICE_OK);
    release(&sent);
    sent = send_one(fixture);
    release(&sent);
    assert_int_equal(scripted_server_requests(fixture->server), 3);
    assert_form(fixture, 0, true, true);
    assert_form(fixture, 1, false, true);
    assert_form(fixture, 2, false, true);
    struct service_capabilities known;
    fixture->service->ops->get_capabilities(fixture->service, &known);
    assert_int_equal(known.from_address_text, CAPABILITY_ABSENT);
    assert_int_equal(known.idempotency_key, CAPABILITY_UNKNOWN);
}

API_TEST(a_refused_idempotency_key_is_omitted_in_later_requests)
{
    struct api_fixture *fixture = *state;
    push(fixture, 400, "{\"detail\": \"unknown field: idempotency_key\"}");
    push(fixture, 200, "");
    struct sent sent = send_one(fixture);
    assert_int_equal(sent.result.outcome, SERVICE_OK);
    release(&sent);
    sent = send_one(fixture);
    release(&sent);
    assert_int_equal(scripted_server_requests(fixture->server), 3);
    assert_form(fixture, 1, true, false);
    assert_form(fixture, 2, true, false);
    struct service_capabilities known;
    fixture->service->ops->get_capabilities(fixture->service, &known);
    assert_int_equal(known.idempotency_key, CAPABILITY_ABSENT);
}

struct fallback_case {
    const char *name;
    struct scripted_step steps[4]; /* a request beyond the last step is answered 500 */
    size_t requests;
    enum service_outcome outcome;
    int http_status;
    const char *reason; /* part of the detail, or NULL */
};

static const struct fallback_case fallback_cases[] = {
    {"a refusal names both fields",
     {{.status = 422,
       .body = "{\"detail\": [{\"loc\": [\"body\", \"from_address\"], \"msg\": \"a\"}, {\"loc\": [\"body\", "
               "\"idempotency_key\"], \"msg\": \"b\"}]}"},
      {.body = "{}"}},
     2,
     SERVICE_OK,
     200,
     NULL},
    {"each of two refusals names one field",
     {{.status = 422, .body = NAMES_FROM}, {.status = 422, .body = NAMES_KEY}, {.body = "{}"}},
     3,
     SERVICE_OK,
     200,
     NULL},
    {"both forms of from_address are refused",
     {{.status = 400, .body = "{\"detail\": \"from_address: no such inbox\"}"},
      {.status = 422, .body = NAMES_FROM}},
     2,
     SERVICE_REJECTED,
     400,
     "no such inbox"},
    {"a refusal that names another field is final",
     {{.status = 422, .body = "{\"detail\": [{\"loc\": [\"body\", \"to_addresses\"], \"msg\": \"bad\"}]}"}},
     1,
     SERVICE_REJECTED,
     422,
     "to_addresses: bad"},
    {"a refusal that names no field is final",
     {{.status = 400, .body = "Bad Request"}},
     1,
     SERVICE_REJECTED,
     400,
     "Bad Request"},
    {"an unknown outcome is final",
     {{.status = 422, .body = NAMES_FROM}, {.status = 500, .body = NAMES_KEY}},
     2,
     SERVICE_UNKNOWN,
     500,
     NULL},
    {"a 429 is final", {{.status = 422, .body = NAMES_KEY}, {.status = 429}}, 2, SERVICE_RETRY, 429, NULL},
    {"a 409 that names a field is final",
     {{.status = 409, .body = NAMES_FROM}},
     1,
     SERVICE_REJECTED,
     409,
     NULL},
    {"a 500 that names a field is final",
     {{.status = 500, .body = NAMES_KEY}},
     1,
     SERVICE_UNKNOWN,
     500,
     NULL},
};

API_TEST(a_refusal_that_names_a_field_is_followed_by_another_form)
{
    for (size_t i = 0; i < ARRAY_LEN(fallback_cases); i++) {
        const struct fallback_case *row = &fallback_cases[i];
        void *own;
        api_set_up(&own);
        struct api_fixture *fixture = own;
        scripted_server_set_default(fixture->server, (struct scripted_step){.status = 500});
        for (size_t j = 0; j < row->requests; j++)
            scripted_server_push(fixture->server, row->steps[j]);
        struct sent sent = send_one(fixture);
        if (sent.result.outcome != row->outcome || sent.result.http_status != row->http_status ||
            scripted_server_requests(fixture->server) != row->requests)
            fail_msg("%s: outcome %d, status %d, %zu requests", row->name, sent.result.outcome,
                     sent.result.http_status, scripted_server_requests(fixture->server));
        if (row->reason != NULL)
            assert_non_null(strstr(sent.result.detail, row->reason));
        release(&sent);
        api_tear_down(&own);
    }
}

API_TEST(a_message_that_may_have_been_sent_is_never_repeated_without_its_key)
{
    static const char *const refusals[] = {NAMES_KEY, "Bad Request"};
    struct api_fixture *fixture = *state;
    const struct send_request again = {.json = MESSAGE, .idempotency_key = "key-1", .is_repeat = true};
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        push(fixture, 400, refusals[1 - i]); /* the first refusal does not name the key */
        struct sent sent = send_as(fixture, &again);
        assert_int_equal(sent.result.outcome, SERVICE_REJECTED);
        assert_int_equal(scripted_server_requests(fixture->server), i + 1);
        release(&sent);
    }
    /* The service has refused the key, so no request is made any more. */
    struct sent sent = send_as(fixture, &again);
    assert_int_equal(sent.result.outcome, SERVICE_REJECTED);
    assert_int_equal(scripted_server_requests(fixture->server), 2);
    release(&sent);
}

/* ---------------------------------------------------------------- cancelling, and many at once */

struct cancelling {
    struct cancel cancel;
    struct scripted_server *server;
};

static void *cancel_after_first_request(void *argument)
{
    struct cancelling *cancelling = argument;
    scripted_server_wait(cancelling->server, 1);
    cancel_set(&cancelling->cancel);
    return NULL;
}

API_TEST(a_cancel_after_the_request_leaves_the_outcome_unknown)
{
    struct api_fixture *fixture = *state;
    struct cancelling cancelling = {.server = fixture->server};
    const struct send_request request = {.json = MESSAGE, .idempotency_key = "key-1"};
    cancel_init(&cancelling.cancel);
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_STALL});
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "cancel", cancel_after_first_request, &cancelling), 0);
    struct sent sent;
    fixture->service->ops->send(fixture->service, &request, &cancelling.cancel, &sent.id, &sent.result);
    pthread_join(thread, NULL);
    assert_int_equal(sent.result.outcome, SERVICE_UNKNOWN);
    assert_int_equal(sent.result.error, EINTR);
    release(&sent);

    fixture->service->ops->send(fixture->service, &request, &cancelling.cancel, &sent.id, &sent.result);
    assert_int_equal(sent.result.outcome, SERVICE_RETRY);
    assert_int_equal(sent.result.error, EINTR);
    assert_int_equal(scripted_server_requests(fixture->server), 1);
    release(&sent);
    cancel_release(&cancelling.cancel);
}

enum {
    THREADS = 6,
    SENDS_EACH = 20,
};

static void *send_many(void *argument)
{
    struct api_fixture *fixture = argument;
    const struct send_request request = {.json = MESSAGE, .idempotency_key = "key-1"};
    size_t failures = 0;
    for (int i = 0; i < SENDS_EACH; i++) {
        struct sent sent;
        fixture->service->ops->send(fixture->service, &request, NULL, &sent.id, &sent.result);
        failures += sent.result.outcome != SERVICE_OK;
        release(&sent);
    }
    return (void *)failures;
}

API_TEST(several_threads_can_send_at_the_same_time)
{
    struct api_fixture *fixture = *state;
    push(fixture, 422, NAMES_FROM); /* the form changes while the other threads send */
    scripted_server_set_default(fixture->server, (struct scripted_step){.body = "{\"id\": \"e\"}"});
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(thread_start(&threads[i], "send", send_many, fixture), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failures;
        pthread_join(threads[i], &failures);
        assert_null(failures);
    }
    struct service_counters counters;
    fixture->service->ops->get_counters(fixture->service, &counters);
    assert_int_equal(counters.requests, THREADS * SENDS_EACH + 1);
    assert_int_equal(counters.failures, 1);
    assert_true(counters.sent_bytes > 0 && counters.received_bytes > 0);
    assert_in_range(scripted_server_connections(fixture->server), 1, THREADS);
}
