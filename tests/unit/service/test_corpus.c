/* SPDX-License-Identifier: MIT */
/*
 * The service sends each message of the corpus (support/corpus.h). The email that arrives, and its raw
 * message, have the bodies and attachments of the request.
 */
#include "base/hash.h"
#include "mail/draft.h"
#include "service/message.h"
#include "support/corpus.h"
#include "unit/service/service_fixture.h"
#include <errno.h>

#include "support/test.h"

#define ANN "ann@inbox.localhost"

enum {
    FORWARDED_BYTES = 30 * 1000 * 1000
};

static char *upload_part(const struct fixture *fixture, const struct draft_part *part)
{
    return upload(fixture, part->name, part->content_type, part->bytes, part->len, 200);
}

/* Returns the draft's request, addressed to the fixture's inbox. */
static json_t *make_request(const struct fixture *fixture, const struct draft *draft)
{
    json_t *request = json_loads(draft->request, 0, NULL);
    json_object_set_new(request, "from_address", json_string(ANN));
    json_object_set_new(request, "to_addresses", json_pack("[{s:s}]", "address", ANN));
    json_object_del(request, "cc_addresses");
    json_object_del(request, "bcc_addresses");
    json_t *ids = json_array();
    for (size_t i = 0; i < draft->parts_len; i++) {
        char *id = upload_part(fixture, &draft->parts[i]);
        json_array_append_new(ids, json_string(id));
        free(id);
    }
    json_object_set_new(request, "attachment_ids", ids);
    return request;
}

static void load_part(const struct fixture *fixture, const char *id, const char *what,
                      struct http_answer *answer)
{
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s%s", id, what);
    http_client_request(&fixture->client, "GET", target, "", NULL, 0, answer);
    assert_int_equal(200, answer->status);
}

static void check_attachment(const struct fixture *fixture, const char *email_id, const json_t *attachment,
                             const json_t *expected)
{
    char path[128];
    char digest[65];
    struct http_answer answer;
    snprintf(path, sizeof(path), "/attachment/%s", text_of(attachment, "id"));
    load_part(fixture, email_id, path, &answer);
    hash_sha256(answer.body, answer.body_len, digest);
    assert_string_equal(text_of(expected, "sha256"), digest);
    assert_string_equal(text_of(expected, "name"), text_of(attachment, "filename"));
    http_answer_release(&answer);
}

static void check_content(const struct fixture *fixture, const char *id, const json_t *expected)
{
    struct http_answer answer;
    load_part(fixture, id, "", &answer);
    json_t *content = json_loads(answer.body, 0, NULL);
    http_answer_release(&answer);
    assert_string_equal(text_of(expected, "subject"), text_of(content, "subject"));
    assert_string_equal(text_of(expected, "plain_text"), text_of(content, "plain_text"));
    assert_string_equal(text_of(expected, "html"), text_of(content, "html"));

    const json_t *list = json_object_get(content, "attachments");
    const json_t *expected_list = json_object_get(expected, "attachments");
    assert_int_equal(json_array_size(expected_list), json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++)
        check_attachment(fixture, id, json_array_get(list, i), json_array_get(expected_list, i));
    json_decref(content);
}

/* Ignores a last line end, because each text of a message ends with one. */
static void assert_same_lines(const char *expected, const char *found)
{
    size_t len = strlen(expected);
    bool is_line_added = strlen(found) == len + 1 && found[len] == '\n' && strncmp(expected, found, len) == 0;
    if (!is_line_added)
        assert_string_equal(expected, found);
}

/* Checks that the raw message, read as a draft, has the expected content. */
static void check_raw(const struct fixture *fixture, const char *id, const json_t *expected)
{
    struct http_answer answer;
    struct draft *draft = NULL;
    char *reason = NULL;
    load_part(fixture, id, "/raw", &answer);
    int error = draft_parse(answer.body, answer.body_len, NULL, &draft, &reason);
    if (error != 0)
        fail_msg("%d %s: %s", error, reason, answer.body);
    http_answer_release(&answer);

    json_t *request = json_loads(draft->request, 0, NULL);
    const json_t *expected_list = json_object_get(expected, "attachments");
    assert_string_equal(text_of(expected, "subject"), text_of(request, "subject"));
    assert_same_lines(text_of(expected, "plain_text"), text_of(request, "plain_text"));
    assert_same_lines(text_of(expected, "html"), text_of(request, "html"));
    assert_int_equal(json_array_size(expected_list), draft->parts_len);
    for (size_t i = 0; i < draft->parts_len; i++) {
        char digest[65];
        hash_sha256(draft->parts[i].bytes, draft->parts[i].len, digest);
        assert_string_equal(text_of(json_array_get(expected_list, i), "sha256"), digest);
    }
    json_decref(request);
    draft_free(draft);
}

struct corpus_check {
    const struct fixture *fixture;
    char *inbox;
    size_t sent;
};

static void send_and_check(void *context, const struct corpus_message *message)
{
    struct corpus_check *corpus_check = context;
    struct draft *draft = NULL;
    char *reason = NULL;
    if (json_object_get(message->expected, "error") != NULL)
        return;
    print_message("%s\n", message->name);
    assert_int_equal(0, draft_parse(message->bytes, message->len, NULL, &draft, &reason));
    free(send_message(corpus_check->fixture, make_request(corpus_check->fixture, draft)));
    draft_free(draft);
    char *id = take_text(newest_email(corpus_check->fixture, corpus_check->inbox, ""), "id");
    check_content(corpus_check->fixture, id, message->expected);
    check_raw(corpus_check->fixture, id, message->expected);
    free(id);
    corpus_check->sent++;
}

TEST_WITH(every_mime_structure_arrives_unchanged, fixture_set_up, fixture_tear_down)
{
    struct corpus_check corpus_check = {.fixture = *state, .inbox = create_inbox(*state, ANN, NULL)};
    corpus_for_each(send_and_check, &corpus_check);
    assert_true(corpus_check.sent >= 60);
    free(corpus_check.inbox);
}

static struct message new_message(void)
{
    return (struct message){
        .message_id = strdup("<2@inbox.localhost>"),
        .from = json_pack("{s:s, s:n}", "address", ANN, "name"),
        .to = json_array(),
        .cc = json_array(),
        .bcc = json_array(),
        .reply_to = json_array(),
        .subject = strdup("Fwd"),
        .plain_text = strdup("See below."),
    };
}

/* Forwards `raw` and reads the enclosed bytes back; the caller frees them. Returns 0 or the error. */
static int forward_and_read(const char *raw, size_t len, char **ret_enclosed, size_t *ret_len)
{
    struct message message = new_message();
    message.forwarded = malloc(len + 1);
    memcpy(message.forwarded, raw, len);
    message.forwarded[len] = '\0';
    message.forwarded_len = len;
    size_t written_len = 0;
    char *written = message_write(&message, &written_len);
    int error = message_read_attachment(written, written_len, 0, ret_enclosed, ret_len);
    char *beyond = NULL;
    size_t beyond_len;
    if (error == 0)
        assert_int_equal(-ENOENT, message_read_attachment(written, written_len, 1, &beyond, &beyond_len));
    free(written);
    message_release(&message);
    return error;
}

/* A well-formed message can be read back, and does not change when it is forwarded again. For a malformed
 * message the test only looks for crashes. */
static void forward_and_check(void *context, const struct corpus_message *message)
{
    bool is_damaged = json_object_get(message->expected, "error") != NULL;
    char *once = NULL;
    char *twice = NULL;
    size_t once_len = 0;
    size_t twice_len = 0;
    int error = forward_and_read(message->bytes, message->len, &once, &once_len);
    if (error == 0)
        error = forward_and_read(once, once_len, &twice, &twice_len);
    if (!is_damaged && (error != 0 || once_len != twice_len || memcmp(once, twice, once_len) != 0))
        fail_msg("%s changes each time it is forwarded", message->name);
    free(once);
    free(twice);
}

TEST(every_mime_structure_can_be_forwarded)
{
    assert_true(corpus_for_each(forward_and_check, NULL) >= 60);
}

TEST(a_message_of_30_megabytes_can_be_forwarded)
{
    static const char header[] = "From: bob@x.example\r\nSubject: Large\r\n\r\n";
    static const char line[] = "0123456789012345678901234567890123456789012345678901234567890123456789\r\n";
    char *raw = malloc(FORWARDED_BYTES + sizeof(line));
    size_t len = strlen(header);
    memcpy(raw, header, len);
    for (; len + strlen(line) <= FORWARDED_BYTES; len += strlen(line))
        memcpy(raw + len, line, strlen(line));
    size_t enclosed_len = 0;
    char *enclosed = NULL;
    assert_int_equal(0, forward_and_read(raw, len, &enclosed, &enclosed_len));
    assert_int_equal(len, enclosed_len);
    assert_memory_equal(raw, enclosed, len);
    free(enclosed);
    free(raw);
}
