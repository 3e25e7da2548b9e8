/* SPDX-License-Identifier: MIT */
/*
 * Uploads send the bytes and the name unchanged, and find the id in every form of reply.
 */
#include "unit/api/api_fixture.h"

#include "support/test.h"

struct uploaded {
    struct service_result result;
    char *id;
};

static struct uploaded upload(struct api_fixture *fixture, const struct upload_request *request)
{
    struct uploaded uploaded;
    fixture->service->ops->upload(fixture->service, request, NULL, &uploaded.id, &uploaded.result);
    check_result(&uploaded.result);
    return uploaded;
}

static void release(struct uploaded *uploaded)
{
    service_result_release(&uploaded->result);
    free(uploaded->id);
}

static const struct upload_request text_file = {
    .name = "a.txt", .content_type = "text/plain", .bytes = "hello", .len = 5};

API_TEST(the_id_of_an_upload_is_found_in_every_form_of_reply)
{
    static const struct {
        struct scripted_step step;
        enum service_outcome outcome;
        const char *id;
    } cases[] = {
        {{.body = "{\"id\": \"p-1\"}"}, SERVICE_OK, "p-1"},
        {{.body = "{\"attachment_id\": \"p-2\", \"size\": 3}"}, SERVICE_OK, "p-2"},
        {{.body = "\"p-3\""}, SERVICE_OK, "p-3"},
        {{.body = "{\"id\": 42}"}, SERVICE_OK, "42"},
        {{.body = "42"}, SERVICE_OK, "42"},
        {{.body = "{\"id\": null, \"attachment_id\": \"p-4\"}"}, SERVICE_OK, "p-4"},
        {{.body = "{}"}, SERVICE_OK, NULL},
        {{.body = "{\"id\": \"\"}"}, SERVICE_OK, NULL},
        {{.body = "{\"id\": [\"x\"]}"}, SERVICE_OK, NULL},
        {{.body = ""}, SERVICE_OK, NULL},
        {{.body = "<html>"}, SERVICE_UNKNOWN, NULL},
        {{.status = 413, .body = "too big"}, SERVICE_REJECTED, NULL},
        {{.status = 503}, SERVICE_RETRY, NULL},
        {{.status = 401}, SERVICE_UNAUTHORIZED, NULL},
        {{.fault = SCRIPTED_RESET_AFTER}, SERVICE_UNKNOWN, NULL},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        scripted_server_push(fixture->server, cases[i].step);
        struct uploaded uploaded = upload(fixture, &text_file);
        if (uploaded.result.outcome != cases[i].outcome)
            fail_msg("case %zu: outcome %d (%s)", i, uploaded.result.outcome, uploaded.result.detail);
        if (cases[i].id != NULL)
            assert_string_equal(uploaded.id, cases[i].id);
        else
            assert_null(uploaded.id);
        release(&uploaded);
    }
}

API_TEST(the_uploaded_part_is_named_file_and_has_the_bytes)
{
    static const char bytes[] = "\0\r\n--binary\xff";
    struct api_fixture *fixture = *state;
    const struct upload_request request = {
        .name = "Grüße \"1\".pdf",
        .content_type = "application/pdf",
        .bytes = bytes,
        .len = sizeof(bytes),
    };
    scripted_server_set_default(fixture->server, (struct scripted_step){.body = "\"p\""});
    struct uploaded uploaded = upload(fixture, &request);
    assert_int_equal(uploaded.result.outcome, SERVICE_OK);
    release(&uploaded);
    const struct scripted_request *got = scripted_server_request(fixture->server, 0);
    assert_string_equal(got->target, "/api/v1/email/add-attachment-to-pool");
    assert_non_null(strstr(scripted_request_header(got, "Content-Type"), "multipart/form-data; boundary="));
    assert_non_null(strstr(
        got->body, "name=\"file\"; filename=\"Grüße %221%22.pdf\"\r\nContent-Type: application/pdf\r\n\r\n"));
    assert_null(strstr(got->body, "filename*"));
    const char *content = strstr(got->body, "\r\n\r\n") + 4;
    assert_memory_equal(content, bytes, sizeof(bytes));
    assert_memory_equal(content + sizeof(bytes), "\r\n--", 4);
}

API_TEST(malformed_content_types_are_replaced)
{
    static const struct {
        const char *type;
        const char *expected;
    } cases[] = {
        {"image/svg+xml", "Content-Type: image/svg+xml\r\n\r\n"},
        {"text/plain\r\nX-Evil: 1", "Content-Type: application/octet-stream\r\n\r\n"},
        {"text", "Content-Type: application/octet-stream\r\n\r\n"},
        {"/x", "Content-Type: application/octet-stream\r\n\r\n"},
        {"x/", "Content-Type: application/octet-stream\r\n\r\n"},
        {"", "Content-Type: application/octet-stream\r\n\r\n"},
    };
    struct api_fixture *fixture = *state;
    scripted_server_set_default(fixture->server, (struct scripted_step){.body = "\"p\""});
    for (unsigned int i = 0; i < ARRAY_LEN(cases); i++) {
        struct upload_request request = text_file;
        request.content_type = cases[i].type;
        struct uploaded uploaded = upload(fixture, &request);
        assert_non_null(strstr(scripted_server_request(fixture->server, i)->body, cases[i].expected));
        release(&uploaded);
    }
}

API_TEST(an_empty_file_is_uploaded)
{
    struct api_fixture *fixture = *state;
    scripted_server_set_default(fixture->server, (struct scripted_step){.body = "\"p\""});
    struct uploaded uploaded =
        upload(fixture, &(struct upload_request){.name = "empty", .content_type = "text/plain"});
    assert_int_equal(uploaded.result.outcome, SERVICE_OK);
    release(&uploaded);
}
