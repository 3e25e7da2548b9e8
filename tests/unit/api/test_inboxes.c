/* SPDX-License-Identifier: MIT */
/*
 * Covers the list of inboxes, the evidence that a server lacks it, and inbox creation and update.
 */
#include "unit/api/api_fixture.h"

#include "support/test.h"

static int collect(void *context, struct inbox_record *record)
{
    return strbuf_appendf(context, "%s %s\n", record->id, record->address != NULL ? record->address : "-");
}

static struct service_result list(struct api_fixture *fixture, struct strbuf *found)
{
    struct service_result result;
    strbuf_clear(found);
    fixture->service->ops->list_inboxes(fixture->service, collect, found, NULL, &result);
    check_result(&result);
    return result;
}

static enum service_capability get_inbox_list_capability(struct api_fixture *fixture)
{
    struct service_capabilities known;
    fixture->service->ops->get_capabilities(fixture->service, &known);
    return known.inbox_list;
}

static void push(struct api_fixture *fixture, int status, const char *body)
{
    scripted_server_push(fixture->server, (struct scripted_step){.status = status, .body = body});
}

#define ONE "[{\"id\": \"i-1\", \"email_address\": \"a@b.example\", \"name\": \"a\"}]"

API_TEST(a_list_of_inboxes_can_be_bare_or_in_an_object)
{
    struct api_fixture *fixture = *state;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(4096);
    static const char *const bodies[] = {ONE, "{\"inboxes\": " ONE ", \"total\": 1}"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        push(fixture, 200, bodies[i]);
        struct service_result result = list(fixture, &found);
        assert_int_equal(result.outcome, SERVICE_OK);
        assert_string_equal(strbuf_str(&found), "i-1 a@b.example\n");
        service_result_release(&result);
    }
    assert_int_equal(get_inbox_list_capability(fixture), CAPABILITY_PRESENT);
    assert_string_equal(scripted_server_request(fixture->server, 0)->target, "/api/v1/inbox");
}

API_TEST(an_inbox_without_an_id_is_skipped_and_reported)
{
    struct api_fixture *fixture = *state;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(4096);
    push(fixture, 200, "[{\"name\": \"nobody\"}, {\"id\": \"i-2\"}]");
    struct service_result result = list(fixture, &found);
    assert_int_equal(result.outcome, SERVICE_RETRY);
    assert_string_equal(strbuf_str(&found), "i-2 -\n");
    service_result_release(&result);
}

/* Each case has an answer to GET /inbox, and one to the GET /email that may follow it. */
API_TEST(an_endpoint_counts_as_absent_only_if_the_service_accepts_the_key)
{
    static const struct {
        struct scripted_step inbox;
        struct scripted_step email;
        size_t requests;
        enum service_outcome outcome;
        int error;
        enum service_capability knowledge;
    } cases[] = {
        {{.status = 404}, {.body = "[]"}, 2, SERVICE_ABSENT, ENOSYS, CAPABILITY_ABSENT},
        {{.status = 405}, {.body = "[{\"id\": \"e\"}]"}, 2, SERVICE_ABSENT, ENOSYS, CAPABILITY_ABSENT},
        {{.status = 501}, {.body = "{\"emails\": []}"}, 2, SERVICE_ABSENT, ENOSYS, CAPABILITY_ABSENT},
        {{.body = "<html>app</html>"}, {.body = "[]"}, 2, SERVICE_ABSENT, ENOSYS, CAPABILITY_ABSENT},
        {{.body = "{\"detail\": \"x\"}"}, {.body = "[]"}, 2, SERVICE_ABSENT, ENOSYS, CAPABILITY_ABSENT},
        {{.status = 404}, {.status = 401}, 2, SERVICE_UNAUTHORIZED, EACCES, CAPABILITY_UNKNOWN},
        {{.status = 404}, {.status = 404}, 2, SERVICE_REJECTED, EINVAL, CAPABILITY_UNKNOWN},
        {{.status = 404}, {.status = 503}, 2, SERVICE_RETRY, EAGAIN, CAPABILITY_UNKNOWN},
        {{.status = 404}, {.body = "<html>app</html>"}, 2, SERVICE_RETRY, EIO, CAPABILITY_UNKNOWN},
        {{.body = "<html>app</html>"},
         {.body = "<html>app</html>"},
         2,
         SERVICE_RETRY,
         EIO,
         CAPABILITY_UNKNOWN},
        {{.status = 401}, {.status = 500}, 1, SERVICE_UNAUTHORIZED, EACCES, CAPABILITY_UNKNOWN},
        {{.status = 403, .body = "{}"}, {.status = 500}, 1, SERVICE_UNAUTHORIZED, EACCES, CAPABILITY_UNKNOWN},
        {{.status = 429}, {.status = 500}, 1, SERVICE_RETRY, EAGAIN, CAPABILITY_UNKNOWN},
        {{.status = 500}, {.status = 500}, 1, SERVICE_RETRY, EIO, CAPABILITY_UNKNOWN},
        {{.status = 302}, {.status = 500}, 1, SERVICE_REJECTED, EIO, CAPABILITY_UNKNOWN},
        {{.body = "[{\"id\": "}, {.status = 500}, 1, SERVICE_RETRY, EIO, CAPABILITY_UNKNOWN},
        {{.fault = SCRIPTED_HALF_BODY, .body = ONE},
         {.status = 500},
         1,
         SERVICE_RETRY,
         EHOSTUNREACH,
         CAPABILITY_UNKNOWN},
        {{.fault = SCRIPTED_RESET_AFTER},
         {.status = 500},
         1,
         SERVICE_RETRY,
         EHOSTUNREACH,
         CAPABILITY_UNKNOWN},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        void *own;
        api_set_up(&own);
        struct api_fixture *fixture = own;
        scripted_server_push(fixture->server, cases[i].inbox);
        scripted_server_push(fixture->server, cases[i].email);
        _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(4096);
        struct service_result result = list(fixture, &found);
        if (result.outcome != cases[i].outcome || result.error != cases[i].error ||
            scripted_server_requests(fixture->server) != cases[i].requests ||
            get_inbox_list_capability(fixture) != cases[i].knowledge)
            fail_msg("case %zu: outcome %d, error %d (%s)", i, result.outcome, result.error, result.detail);
        service_result_release(&result);
        api_tear_down(&own);
    }
}

API_TEST(an_absent_inbox_list_is_tried_again)
{
    struct api_fixture *fixture = *state;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(4096);
    push(fixture, 404, "");
    push(fixture, 200, "[]");
    push(fixture, 404, "");
    push(fixture, 200, ONE);
    size_t calls = 0;
    struct service_result result;
    while ((result = list(fixture, &found)).outcome == SERVICE_ABSENT && calls < 1000) {
        calls++;
        service_result_release(&result);
    }
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_int_equal(calls, 2 * (1 + 20));
    assert_int_equal(scripted_server_requests(fixture->server), 4); /* the key was checked once */
    assert_int_equal(get_inbox_list_capability(fixture), CAPABILITY_PRESENT);
}

API_TEST(a_page_instead_of_a_list_does_not_make_a_known_endpoint_absent)
{
    struct api_fixture *fixture = *state;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(4096);
    push(fixture, 200, ONE);
    struct service_result result = list(fixture, &found);
    service_result_release(&result);
    push(fixture, 200, "<html>maintenance</html>");
    result = list(fixture, &found);
    assert_int_equal(result.outcome, SERVICE_RETRY);
    assert_int_equal(get_inbox_list_capability(fixture), CAPABILITY_PRESENT);
    service_result_release(&result);
}

/* ---------------------------------------------------------------- upsert */

API_TEST(an_upsert_returns_the_id)
{
    static const struct {
        struct scripted_step step;
        const char *request;
        enum service_outcome outcome;
        int error;
        const char *id;
    } cases[] = {
        {{.body = "{\"id\": \"i-1\", \"webhook_secret\": null}"}, "{\"id\": null}", SERVICE_OK, 0, "i-1"},
        {{.status = 201, .body = "{\"id\": 5}"}, "{\"id\": null}", SERVICE_OK, 0, "5"},
        {{.body = "\"i-2\""}, "{\"id\": null}", SERVICE_OK, 0, "i-2"},
        {{.body = ""}, "{\"id\": null}", SERVICE_OK, 0, NULL},
        {{.body = "{}"}, "{\"id\": null}", SERVICE_OK, 0, NULL},
        {{.status = 204}, "{\"id\": \"i-3\"}", SERVICE_OK, 0, NULL},
        {{.status = 204}, "{\"id\": 3}", SERVICE_OK, 0, NULL},
        {{.body = "{\"id\": \"i-4\", \"name\": \"a\\u0000b\"}"}, "{\"id\": null}", SERVICE_OK, 0, "i-4"},
        {{.body = "<html>"}, "{\"id\": \"i-3\"}", SERVICE_UNKNOWN, EIO, NULL},
        {{.status = 409}, "{\"id\": null}", SERVICE_REJECTED, EEXIST, NULL},
        {{.status = 403, .body = "{}"}, "{\"id\": null}", SERVICE_UNAUTHORIZED, EACCES, NULL},
        {{.status = 422}, "{\"id\": null}", SERVICE_REJECTED, EINVAL, NULL},
        {{.status = 429}, "{\"id\": null}", SERVICE_RETRY, EAGAIN, NULL},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        scripted_server_clear(fixture->server);
        scripted_server_push(fixture->server, cases[i].step);
        struct service_result result;
        _cleanup_free_ char *id = NULL;
        fixture->service->ops->upsert_inbox(fixture->service, cases[i].request, 5000, NULL, &id, &result);
        check_result(&result);
        if (result.outcome != cases[i].outcome || result.error != cases[i].error)
            fail_msg("case %zu: outcome %d, error %d (%s)", i, result.outcome, result.error, result.detail);
        assert_int_equal(id == NULL, cases[i].id == NULL);
        if (id != NULL)
            assert_string_equal(id, cases[i].id);
        const struct scripted_request *got = scripted_server_request(fixture->server, 0);
        assert_string_equal(got->target, "/api/v1/inbox/upsert");
        assert_string_equal(got->body, cases[i].request);
        service_result_release(&result);
    }
}

API_TEST(an_upsert_ends_at_its_timeout)
{
    struct api_fixture *fixture = *state;
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_STALL});
    struct service_result result;
    char *id;
    fixture->service->ops->upsert_inbox(fixture->service, "{\"id\": null}", 200, NULL, &id, &result);
    check_result(&result);
    assert_int_equal(result.outcome, SERVICE_UNKNOWN);
    assert_int_equal(result.error, ETIMEDOUT);
    service_result_release(&result);
}
