/* SPDX-License-Identifier: MIT */
/*
 * Covers content, attachments, raw messages, marks and sent mail over REST, and the evidence that a server
 * lacks their endpoints.
 */
#include "unit/api/api_fixture.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "support/shifted_clock.h"
#include "support/test.h"

#define CONTENT "{\"id\": \"e/1\", \"plain_text\": \"hello\", \"attachments\": []}"

static struct mail_service *service_of(struct api_fixture *fixture)
{
    return fixture->service;
}

static void push(struct api_fixture *fixture, int status, const char *body)
{
    scripted_server_push(fixture->server, (struct scripted_step){.status = status, .body = body});
}

static struct service_capabilities get_capabilities(struct api_fixture *fixture)
{
    struct service_capabilities known;
    fixture->service->ops->get_capabilities(fixture->service, &known);
    return known;
}

static const char *target_of(struct api_fixture *fixture, size_t number)
{
    return scripted_server_request(fixture->server, number)->target;
}

static enum service_outcome get_content(struct api_fixture *fixture, const char *id, bool is_known,
                                        int *ret_error)
{
    struct mail_service *service = service_of(fixture);
    const struct content_query query = {
        .email_id = id, .is_known_to_exist = is_known, .max_bytes = CONTENT_MAX_BYTES};
    _cleanup_(content_folder_release) struct content_folder content = {0};
    struct service_result result;
    service->ops->get_content(service, &query, NULL, &content, &result);
    check_result(&result);
    enum service_outcome outcome = result.outcome;
    *ret_error = result.error;
    service_result_release(&result);
    return outcome;
}

/* ---------------------------------------------------------------- content */

API_TEST(the_content_of_an_email_is_read)
{
    struct api_fixture *fixture = *state;
    struct mail_service *service = service_of(fixture);
    const struct content_query query = {.email_id = "e/1", .max_bytes = CONTENT_MAX_BYTES};
    _cleanup_(content_folder_release) struct content_folder content = {0};
    struct service_result result;
    push(fixture, 200, CONTENT);
    service->ops->get_content(service, &query, NULL, &content, &result);
    check_result(&result);
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_string_equal(content_folder_find(&content, CONTENT_TEXT, "body.txt")->bytes, "hello\n");
    assert_string_equal(target_of(fixture, 0), "/api/v1/email/e%2F1");
    assert_int_equal(get_capabilities(fixture).content, CAPABILITY_PRESENT);
    service_result_release(&result);
}

API_TEST(content_longer_than_the_maximum_is_refused)
{
    struct api_fixture *fixture = *state;
    struct mail_service *service = service_of(fixture);
    struct content_query query = {.email_id = "e/1", .max_bytes = strlen(CONTENT) - 1};
    _cleanup_(content_folder_release) struct content_folder content = {0};
    struct service_result result;
    push(fixture, 200, CONTENT);
    service->ops->get_content(service, &query, NULL, &content, &result);
    check_result(&result);
    assert_int_equal(result.outcome, SERVICE_REJECTED);
    assert_int_equal(result.error, EFBIG);
    service_result_release(&result);
    query.max_bytes++;
    push(fixture, 200, CONTENT);
    service->ops->get_content(service, &query, NULL, &content, &result);
    assert_int_equal(result.outcome, SERVICE_OK);
    service_result_release(&result);
}

API_TEST(answers_without_content_are_refused)
{
    static const struct {
        struct scripted_step step;
        enum service_outcome outcome;
        int error;
    } cases[] = {
        {{.status = 404}, SERVICE_REJECTED, ENOENT},
        {{.status = 410}, SERVICE_REJECTED, ENOENT},
        {{.status = 405}, SERVICE_REJECTED, EINVAL},
        {{.status = 401}, SERVICE_UNAUTHORIZED, EACCES},
        {{.status = 429}, SERVICE_RETRY, EAGAIN},
        {{.status = 503}, SERVICE_RETRY, EAGAIN},
        {{.status = 500}, SERVICE_RETRY, EIO},
        {{.body = "<html>"}, SERVICE_RETRY, EIO},
        {{.body = "{\"id\": \"e-1\", \"subject\": \"a record\"}"}, SERVICE_RETRY, EIO},
        {{.body = "{\"id\": \"other\", \"plain_text\": \"x\"}"}, SERVICE_RETRY, EIO},
        {{.fault = SCRIPTED_HALF_BODY, .body = CONTENT}, SERVICE_RETRY, EHOSTUNREACH},
        {{.fault = SCRIPTED_ENDLESS_HEAD}, SERVICE_RETRY, EIO},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int error;
        scripted_server_push(fixture->server, cases[i].step);
        enum service_outcome outcome = get_content(fixture, "e-1", false, &error);
        if (outcome != cases[i].outcome || (error != cases[i].error && cases[i].step.fault == SCRIPTED_NONE))
            fail_msg("case %zu: outcome %d, error %d", i, outcome, error);
    }
    assert_int_equal(get_capabilities(fixture).content, CAPABILITY_UNKNOWN);
}

API_TEST(endless_content_is_refused_as_too_big)
{
    struct api_fixture *fixture = *state;
    int error;
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_ENDLESS_BODY});
    assert_int_equal(get_content(fixture, "e-1", false, &error), SERVICE_REJECTED);
    assert_int_equal(error, EFBIG);
    assert_int_equal(get_capabilities(fixture).content, CAPABILITY_UNKNOWN);
}

API_TEST(two_missing_emails_show_that_the_endpoint_is_absent)
{
    struct api_fixture *fixture = *state;
    int error;
    push(fixture, 404, "");
    assert_int_equal(get_content(fixture, "e-1", true, &error), SERVICE_REJECTED);
    push(fixture, 404, "");
    assert_int_equal(get_content(fixture, "e-1", true, &error),
                     SERVICE_REJECTED); /* the same email is no new evidence */
    push(fixture, 404, "");
    assert_int_equal(get_content(fixture, "e-9", false, &error),
                     SERVICE_REJECTED); /* this email may be deleted */
    static const int inconclusive[] = {401, 403, 429, 500, 503, 501};
    for (size_t i = 0; i < ARRAY_LEN(inconclusive); i++) {
        push(fixture, inconclusive[i], "");
        assert_int_not_equal(get_content(fixture, "e-3", true, &error), SERVICE_ABSENT);
    }
    assert_int_equal(get_capabilities(fixture).content, CAPABILITY_UNKNOWN);
    push(fixture, 405, "");
    assert_int_equal(get_content(fixture, "e-2", true, &error), SERVICE_ABSENT);
    assert_int_equal(error, ENOSYS);
    assert_int_equal(get_capabilities(fixture).content, CAPABILITY_ABSENT);
}

API_TEST(a_success_between_two_missing_emails_shows_that_the_endpoint_exists)
{
    struct api_fixture *fixture = *state;
    int error;
    push(fixture, 404, "");
    get_content(fixture, "e-1", true, &error);
    push(fixture, 200, "{\"plain_text\": \"x\"}");
    assert_int_equal(get_content(fixture, "e-2", true, &error), SERVICE_OK);
    push(fixture, 404, "");
    assert_int_equal(get_content(fixture, "e-3", true, &error), SERVICE_REJECTED);
    assert_int_equal(get_capabilities(fixture).content, CAPABILITY_PRESENT);
}

API_TEST(an_absent_content_endpoint_is_tried_again)
{
    struct api_fixture *fixture = *state;
    int error;
    scripted_server_set_default(fixture->server, (struct scripted_step){.status = 404});
    get_content(fixture, "e-1", true, &error);
    get_content(fixture, "e-2", true, &error);
    size_t calls = 0;
    while (scripted_server_requests(fixture->server) < 3) {
        assert_int_equal(get_content(fixture, "e-1", true, &error), SERVICE_ABSENT);
        assert_true(++calls < 1000);
    }
    assert_int_equal(calls, 20 + 1);
    scripted_server_set_default(fixture->server, (struct scripted_step){.body = "{\"html\": \"x\"}"});
    while (get_content(fixture, "e-1", true, &error) == SERVICE_ABSENT)
        assert_true(++calls < 1000);
    assert_int_equal(get_capabilities(fixture).content, CAPABILITY_PRESENT);
}

/* ---------------------------------------------------------------- bytes */

API_TEST(attachments_are_fetched_byte_for_byte)
{
    struct api_fixture *fixture = *state;
    struct mail_service *service = service_of(fixture);
    FILE *file = tmpfile();
    const struct content_query query = {.email_id = "e-1", .attachment_id = "a b", .max_bytes = 5};
    struct service_result result;
    uint64_t len;
    scripted_server_push(fixture->server, (struct scripted_step){.body = "a\0\xff\r\n", .body_len = 5});
    service->ops->get_bytes(service, &query, fileno(file), NULL, &len, &result);
    check_result(&result);
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_int_equal(len, 5);
    char bytes[8];
    assert_int_equal(file_pread_all(fileno(file), bytes, sizeof(bytes), 0), 5);
    assert_memory_equal(bytes, "a\0\xff\r\n", 5);
    assert_string_equal(target_of(fixture, 0), "/api/v1/email/e-1/attachment/a%20b");
    assert_string_equal(scripted_request_header(scripted_server_request(fixture->server, 0), "Accept"),
                        "*/*");
    service_result_release(&result);

    push(fixture, 200, "123456");
    service->ops->get_bytes(service, &query, fileno(file), NULL, &len, &result);
    assert_int_equal(result.outcome, SERVICE_REJECTED);
    assert_int_equal(result.error, EFBIG);
    service_result_release(&result);
    fclose(file);
}

API_TEST(a_failure_to_write_bytes_is_reported)
{
    struct api_fixture *fixture = *state;
    struct mail_service *service = service_of(fixture);
    FILE *full = fopen("/dev/full", "r+");
    assert_non_null(full);
    const struct content_query query = {.email_id = "e-1", .max_bytes = 100};
    struct service_result result;
    uint64_t len;
    push(fixture, 200, "123456");
    service->ops->get_bytes(service, &query, fileno(full), NULL, &len, &result);
    check_result(&result);
    assert_int_equal(result.outcome, SERVICE_RETRY);
    assert_int_equal(result.error, ENOSPC);
    service_result_release(&result);
    fclose(full);
}

static enum service_outcome get_raw(struct api_fixture *fixture, const char *id)
{
    struct mail_service *service = service_of(fixture);
    FILE *file = tmpfile();
    const struct content_query query = {.email_id = id, .is_known_to_exist = true, .max_bytes = 1000};
    struct service_result result;
    uint64_t len;
    service->ops->get_bytes(service, &query, fileno(file), NULL, &len, &result);
    check_result(&result);
    enum service_outcome outcome = result.outcome;
    service_result_release(&result);
    fclose(file);
    return outcome;
}

API_TEST(raw_messages_can_be_absent_while_content_is_present)
{
    struct api_fixture *fixture = *state;
    int error;
    push(fixture, 200, "{\"plain_text\": \"x\"}");
    get_content(fixture, "e-1", true, &error);
    push(fixture, 404, "");
    assert_int_equal(get_raw(fixture, "e-1"), SERVICE_REJECTED);
    scripted_server_push(fixture->server,
                         (struct scripted_step){.headers = "Content-Type: text/html\r\n", .body = "<html>"});
    assert_int_equal(get_raw(fixture, "e-2"), SERVICE_ABSENT);
    assert_string_equal(target_of(fixture, 2), "/api/v1/email/e-2/raw");
    assert_int_equal(get_capabilities(fixture).raw, CAPABILITY_ABSENT);
    assert_int_equal(get_capabilities(fixture).content, CAPABILITY_PRESENT);
}

API_TEST(a_raw_message_that_is_too_long_shows_that_the_endpoint_exists)
{
    struct api_fixture *fixture = *state;
    const struct content_query query = {.email_id = "e-1", .is_known_to_exist = true, .max_bytes = 1000};
    _cleanup_close_ int fd = memfd_create("raw", MFD_CLOEXEC);
    static const char *const headers[] = {"Content-Type: text/html\r\n", NULL};
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        uint64_t len = 0;
        struct service_result result;
        scripted_server_push(fixture->server,
                             (struct scripted_step){.fault = SCRIPTED_ENDLESS_BODY, .headers = headers[i]});
        fixture->service->ops->get_bytes(fixture->service, &query, fd, NULL, &len, &result);
        check_result(&result);
        assert_int_equal(result.error, headers[i] != NULL ? EIO : EFBIG);
        assert_int_equal(get_capabilities(fixture).raw,
                         headers[i] != NULL ? CAPABILITY_UNKNOWN : CAPABILITY_PRESENT);
        service_result_release(&result);
    }
}

/* Waits until the client has written the chunks sent so far, then lets ten seconds pass. */
static void wait_for_previous_chunk(void *context, size_t sent_bytes)
{
    const int *fd = context;
    const struct timespec tick = {.tv_nsec = 1000 * 1000};
    struct stat status = {.st_size = 0};
    for (int i = 0; i < 10000 && (size_t)status.st_size < sent_bytes; i++) {
        fstat(*fd, &status);
        nanosleep(&tick, NULL);
    }
    shifted_clock_pass(10);
}

API_TEST(a_raw_message_over_a_slow_line_is_complete)
{
    enum {
        CHUNK_BYTES = 8 * 1024,
        CHUNKS = 70
    };
    struct api_fixture *fixture = *state;
    const struct mail_service_ops *ops = fixture->service->ops;
    const struct content_query query = {.email_id = "e-1", .max_bytes = 1 << 20};
    _cleanup_close_ int fd = memfd_create("raw", MFD_CLOEXEC);
    _cleanup_free_ char *text = calloc(1, CHUNKS * CHUNK_BYTES);
    assert_non_null(text);
    scripted_server_push(fixture->server, (struct scripted_step){.fault = SCRIPTED_CHUNKED,
                                                                 .body = text,
                                                                 .body_len = CHUNKS * CHUNK_BYTES,
                                                                 .chunk_bytes = CHUNK_BYTES,
                                                                 .before_chunk = wait_for_previous_chunk,
                                                                 .context = &fd});
    uint64_t len = 0;
    struct service_result result;
    ops->get_bytes(fixture->service, &query, fd, NULL, &len, &result);
    check_result(&result);
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_int_equal(len, CHUNKS * CHUNK_BYTES);
    service_result_release(&result);
}

API_TEST(a_raw_message_shows_that_the_endpoint_exists)
{
    struct api_fixture *fixture = *state;
    push(fixture, 200, "Subject: x\r\n\r\n");
    assert_int_equal(get_raw(fixture, "e-1"), SERVICE_OK);
    assert_int_equal(get_capabilities(fixture).raw, CAPABILITY_PRESENT);
}

API_TEST(path_segments_are_encoded)
{
    static const struct {
        const char *id;
        const char *expected;
    } cases[] = {
        {"3c90c3cc-0d44", "3c90c3cc-0d44"},
        {"a/b", "a%2Fb"},
        {"a b?c#d", "a%20b%3Fc%23d"},
        {"ü", "%C3%BC"},
        {"a%2Fb", "a%252Fb"},
        {"x\r\nHost: y", "x%0D%0AHost%3A%20y"},
        {"..", "%252E%252E"},
        {".", "%252E"},
        {"...", "..."},
    };
    struct api_fixture *fixture = *state;
    scripted_server_set_default(fixture->server, (struct scripted_step){.status = 404});
    for (unsigned int i = 0; i < ARRAY_LEN(cases); i++) {
        const struct content_query query = {.email_id = cases[i].id, .max_bytes = CONTENT_MAX_BYTES};
        struct content_folder content;
        struct service_result result;
        char expected[128];
        fixture->service->ops->get_content(fixture->service, &query, NULL, &content, &result);
        service_result_release(&result);
        snprintf(expected, sizeof(expected), "/api/v1/email/%s", cases[i].expected);
        assert_string_equal(target_of(fixture, i), expected);
    }
}

/* A truncated path would name another resource. */
API_TEST(an_id_too_long_for_a_path_makes_no_request)
{
    struct api_fixture *fixture = *state;
    const struct mail_service_ops *ops = fixture->service->ops;
    FILE *file = tmpfile();
    char id[4096 + 1]; /* longer than any path */
    const struct content_query queries[] = {
        {.email_id = id, .max_bytes = 1000},
        {.email_id = id, .attachment_id = "a", .max_bytes = 1000},
        {.email_id = "e-1", .attachment_id = id, .max_bytes = 1000},
    };
    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(queries) + 2; i++) {
        _cleanup_(content_folder_release) struct content_folder content = {0};
        struct service_result result = {.outcome = SERVICE_OK};
        struct email_record record;
        uint64_t len;
        if (i < ARRAY_LEN(queries))
            ops->get_bytes(fixture->service, &queries[i], fileno(file), NULL, &len, &result);
        else if (i == ARRAY_LEN(queries))
            ops->get_content(fixture->service, &queries[0], NULL, &content, &result);
        else
            ops->mark_email(fixture->service, id, true, 5000, NULL, &record, &result);
        assert_int_equal(result.outcome, SERVICE_REJECTED);
        assert_int_equal(result.error, EINVAL);
        service_result_release(&result);
    }
    assert_int_equal(scripted_server_requests(fixture->server), 0);
    fclose(file);
}

/* ---------------------------------------------------------------- marks */

API_TEST(mark_email_returns_the_new_record_or_the_refusal)
{
    struct api_fixture *fixture = *state;
    struct mail_service *service = service_of(fixture);
    struct email_record record;
    struct service_result result;
    push(fixture, 200, "{\"id\": \"e-1\", \"user_mark_status\": true}");
    service->ops->mark_email(service, "e-1", true, 5000, NULL, &record, &result);
    check_result(&result);
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_string_equal(record.key, "e-1");
    assert_string_equal(target_of(fixture, 0), "/api/v1/email/e-1/mark/true");
    assert_string_equal(scripted_server_request(fixture->server, 0)->method, "POST");
    email_record_release(&record);
    service_result_release(&result);

    push(fixture, 204, "");
    service->ops->mark_email(service, "e-1", false, 5000, NULL, &record, &result);
    assert_int_equal(result.outcome, SERVICE_OK);
    assert_null(record.key);
    assert_string_equal(target_of(fixture, 1), "/api/v1/email/e-1/mark/false");
    service_result_release(&result);

    push(fixture, 200, "<html>Welcome to the hotel</html>");
    service->ops->mark_email(service, "e-1", false, 5000, NULL, &record, &result);
    assert_int_equal(result.outcome, SERVICE_UNKNOWN);
    assert_true(result.is_foreign);
    service_result_release(&result);

    push(fixture, 404, "");
    service->ops->mark_email(service, "e-9", false, 5000, NULL, &record, &result);
    assert_int_equal(result.outcome, SERVICE_REJECTED);
    assert_int_equal(result.error, ENOENT);
    service_result_release(&result);
}

/* ---------------------------------------------------------------- lists */

static int collect(void *context, struct email_record *record)
{
    return record != NULL ? strbuf_appendf(context, "%s ", record->key) : 0;
}

API_TEST(a_search_sends_its_term)
{
    struct api_fixture *fixture = *state;
    struct mail_service *service = service_of(fixture);
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(4096);
    const struct email_query query = {
        .limit = 9, .search_term = "r\xc3\xa9sum\xc3\xa9 & co", .with_invalid = true};
    struct service_result result;
    unsigned int count;
    push(fixture, 200, "[{\"id\": \"e-1\", \"inbox_id\": \"i-1\"}]");
    service->ops->list_emails(service, &query, collect, &found, NULL, &count, &result);
    check_result(&result);
    assert_string_equal(strbuf_str(&found), "e-1 ");
    assert_string_equal(target_of(fixture, 0),
                        "/api/v1/email?search_term=r%C3%A9sum%C3%A9%20%26%20co&valid_only=false&limit=9");
    service_result_release(&result);
}

static enum service_outcome list_outbound(struct api_fixture *fixture, struct strbuf *found)
{
    struct mail_service *service = service_of(fixture);
    const struct email_query query = {.limit = 2, .inbox_id = "i-1"};
    struct service_result result;
    unsigned int count;
    strbuf_clear(found);
    service->ops->list_outbound(service, &query, collect, found, NULL, &count, &result);
    check_result(&result);
    enum service_outcome outcome = result.outcome;
    service_result_release(&result);
    return outcome;
}

API_TEST(sent_mail_is_listed_if_the_service_has_the_endpoint)
{
    struct api_fixture *fixture = *state;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(4096);
    push(fixture, 200,
         "[{\"id\": \"o-1\", \"inbox_id\": \"i-1\"}, {\"id\": \"o-2\", \"inbox_id\": \"i-2\"}]");
    assert_int_equal(list_outbound(fixture, &found), SERVICE_OK);
    assert_string_equal(strbuf_str(&found), "o-1 ");
    assert_string_equal(target_of(fixture, 0), "/api/v1/email/outbound?inbox_ids=i-1&limit=2");
    assert_int_equal(get_capabilities(fixture).outbound, CAPABILITY_PRESENT);
    push(fixture, 404, "");
    assert_int_equal(list_outbound(fixture, &found), SERVICE_ABSENT);
    assert_int_equal(get_capabilities(fixture).outbound, CAPABILITY_ABSENT);
    assert_int_equal(list_outbound(fixture, &found), SERVICE_ABSENT);
    assert_int_equal(scripted_server_requests(fixture->server), 2);
}

API_TEST(a_refused_key_does_not_make_sent_mail_absent)
{
    struct api_fixture *fixture = *state;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(4096);
    push(fixture, 404, "");
    push(fixture, 401, "");
    assert_int_equal(list_outbound(fixture, &found), SERVICE_UNAUTHORIZED);
    assert_int_equal(get_capabilities(fixture).outbound, CAPABILITY_UNKNOWN);
}
