/* SPDX-License-Identifier: MIT */
/*
 * Envelopes survive their file, whatever is in them; receipts are JSON, with what the service tells of
 * sent mail in them.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/draft.h"
#include "mail/envelope.h"
#include "mail/json_writer.h"

static void fill(struct envelope *envelope)
{
    *envelope = (struct envelope){
        .number = 7,
        .order = 9,
        .kind = ENVELOPE_MESSAGE,
        .state = "sent",
        .name = strdup("m \xc3\xa4.eml"),
        .key = "3c90c3cc-0d44-4b50-8888-8dd25736052a",
        .answers = strdup("{\"existing_email_id\":\"e1\"}"),
        .digest = "digest",
        .from = strdup("me@inbox.example"),
        .sequence = "lane",
        .attachments = calloc(1, sizeof(struct envelope_attachment)),
        .attachments_len = 1,
        .part_ids = calloc(2, sizeof(char *)),
        .part_ids_len = 2,
        .replies_to = strdup("e2"),
        .may_have_been_sent = true,
        .was_unknown = true,
        .was_reuploaded = true,
        .quota_day = 20412,
        .request = strdup("{\"subject\":\"a \\\"quote\\\" \\u0000\"}"),
        .has_request = true,
        .content = 11,
        .is_hidden = true,
        .attempts = 3,
        .accepted_ms = 1795176000000,
        .finished_ms = 1795176001234,
        .http_status = 200,
        .id = strdup("id"),
        .error = strdup("words\x1b[31m \xff"),
    };
    envelope->attachments[0] = (struct envelope_attachment){.content = 5, .name = strdup("a.pdf")};
    envelope->part_ids[1] = strdup("part");
    assert_int_equal(envelope_add_not_carried(envelope, "one"), 0);
    assert_int_equal(envelope_add_not_carried(envelope, "a \"second\" one"), 0);
}

static void assert_as_filled(const struct envelope *envelope)
{
    assert_int_equal(envelope->number, 7);
    assert_int_equal(envelope->order, 9);
    assert_int_equal(envelope->kind, ENVELOPE_MESSAGE);
    assert_string_equal(envelope->state, "sent");
    assert_string_equal(envelope->name, "m \xc3\xa4.eml");
    assert_string_equal(envelope->digest, "digest");
    assert_string_equal(envelope->key, "3c90c3cc-0d44-4b50-8888-8dd25736052a");
    assert_string_equal(envelope->answers, "{\"existing_email_id\":\"e1\"}");
    assert_string_equal(envelope->from, "me@inbox.example");
    assert_string_equal(envelope->sequence, "lane");
    assert_string_equal(envelope->replies_to, "e2");
    assert_int_equal(envelope->not_carried_len, 2);
    assert_string_equal(envelope->not_carried[0], "one");
    assert_string_equal(envelope->not_carried[1], "a \"second\" one");
    assert_int_equal(envelope->attachments_len, 1);
    assert_int_equal(envelope->attachments[0].content, 5);
    assert_string_equal(envelope->attachments[0].name, "a.pdf");
    assert_int_equal(envelope->part_ids_len, 2);
    assert_null(envelope->part_ids[0]);
    assert_string_equal(envelope->part_ids[1], "part");
    assert_true(envelope->may_have_been_sent && envelope->was_unknown);
    assert_true(envelope->was_reuploaded && envelope->has_request);
    assert_int_equal(envelope->quota_day, 20412);
    assert_int_equal(envelope->content, 11);
    assert_true(envelope->is_hidden);
    assert_int_equal(envelope->attempts, 3);
    assert_int_equal(envelope->accepted_ms, 1795176000000);
    assert_int_equal(envelope->finished_ms, 1795176001234);
    assert_int_equal(envelope->http_status, 200);
    assert_string_equal(envelope->id, "id");
    assert_non_null(envelope->error);
    assert_memory_equal(envelope->error, "words", strlen("words"));
}

static void an_envelope_survives_its_file(void **state)
{
    (void)state;
    struct envelope envelope;
    struct envelope copy;
    struct envelope read;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    fill(&envelope);
    assert_int_equal(envelope_copy(&envelope, &copy), 0);
    envelope_release(&envelope);
    assert_int_equal(envelope_format(&copy, &text), 0);
    assert_int_equal(envelope_parse(text.data, text.len, &read), 0);
    assert_as_filled(&copy);
    assert_as_filled(&read);
    assert_string_equal(read.request, copy.request);
    envelope_clear_outcome(&read);
    assert_string_equal(read.answers, copy.answers);
    assert_string_equal(read.replies_to, copy.replies_to);
    assert_int_equal(read.not_carried_len, 0);
    envelope_release(&read);
    envelope_release(&copy);
}

static void set_counts(struct envelope *envelope, size_t attachments, size_t parts)
{
    for (size_t i = 0; i < envelope->attachments_len; i++)
        free(envelope->attachments[i].name);
    for (size_t i = 0; i < envelope->part_ids_len; i++)
        free(envelope->part_ids[i]);
    free(envelope->attachments);
    free(envelope->part_ids);
    envelope->attachments = calloc(attachments + 1, sizeof(struct envelope_attachment));
    envelope->part_ids = calloc(parts + 1, sizeof(char *));
    envelope->attachments_len = attachments;
    envelope->part_ids_len = parts;
    for (size_t i = 0; i < attachments; i++)
        envelope->attachments[i] = (struct envelope_attachment){.content = i + 1, .name = strdup("a.pdf")};
    for (size_t i = 0; i < parts; i++)
        envelope->part_ids[i] = strdup("part");
}

/* What could be handed in can be read again after a restart. */
static void as_many_attachments_as_are_allowed_survive(void **state)
{
    (void)state;
    for (size_t count = ATTACHMENTS_MAX; count <= ATTACHMENTS_MAX + 1; count++) {
        struct envelope envelope;
        struct envelope read;
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
        bool is_allowed = count == ATTACHMENTS_MAX;
        fill(&envelope);
        for (int with_parts = 0; with_parts < 2; with_parts++) {
            set_counts(&envelope, with_parts ? 0 : count, with_parts ? count : 0);
            strbuf_clear(&text);
            assert_int_equal(envelope_format(&envelope, &text), 0);
            assert_int_equal(envelope_parse(text.data, text.len, &read), is_allowed ? 0 : -EBADMSG);
            if (is_allowed) {
                assert_int_equal(read.attachments_len, with_parts ? 0 : count);
                assert_int_equal(read.part_ids_len, with_parts ? count : 0);
                envelope_release(&read);
            }
        }
        envelope_release(&envelope);
    }
}

static void torn_and_foreign_envelopes_are_refused(void **state)
{
    static const struct {
        const char *text;
        int error;
    } rows[] = {
        {"", -EBADMSG},
        {"[]", -EBADMSG},
        {"{\"version\": 1", -EBADMSG},
        {"{}", -EBADMSG},
        {"{\"version\": 2}", -EPROTO},
        {"{\"version\":1,\"kind\":\"message\",\"state\":\"sent\"}", -EBADMSG},
        {"{\"version\":1,\"kind\":\"message\",\"state\":\"sent\",\"name\":\"a/b\"}", -EBADMSG},
        {"{\"version\":1,\"kind\":\"message\",\"state\":\"sent\",\"name\":\"a\\nb\"}", 0},
        {"{\"version\":1,\"kind\":\"attachment\",\"state\":\"failed\",\"name\":\"a\\nb\"}", -EBADMSG},
        {"{\"version\":1,\"kind\":\"message\",\"name\":\"a\"}", -EBADMSG},
        {"{\"version\":1,\"kind\":\"message\",\"state\":\"sent\",\"name\":\"a\",\"number\":-1}", -EBADMSG},
        {"{\"version\":1,\"kind\":\"message\",\"state\":\"sent\",\"name\":\"a\",\"error\":[]}", -EBADMSG},
        {"{\"version\":1,\"kind\":\"message\",\"state\":\"a state of more than 24 bytes\",\"name\":\"a\"}",
         -EBADMSG},
        {"{\"version\":1,\"kind\":\"message\",\"state\":\"sent\",\"name\":\"a\",\"attachments\":[{}]}",
         -EBADMSG},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct envelope envelope;
        assert_int_equal(envelope_parse(rows[i].text, strlen(rows[i].text), &envelope), rows[i].error);
        if (rows[i].error == 0)
            envelope_release(&envelope);
    }
}

static void a_request_that_is_not_loaded_is_not_lost(void **state)
{
    (void)state;
    struct envelope envelope;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    fill(&envelope);
    free(envelope.request);
    envelope.request = NULL;
    assert_int_equal(envelope_format(&envelope, &text), -EINVAL);
    envelope_clear_outcome(&envelope);
    assert_int_equal(envelope_format(&envelope, &text), 0);
    assert_string_equal(envelope.key, "3c90c3cc-0d44-4b50-8888-8dd25736052a");
    assert_int_equal(envelope.attempts, 0);
    envelope_release(&envelope);
}

static void a_receipt_is_json_with_all_members(void **state)
{
    static const char *const members[] = {"state",       "kind",        "id",       "idempotency_key",
                                          "accepted_at", "finished_at", "attempts", "http_status",
                                          "error",       "request"};
    (void)state;
    struct envelope envelope;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    fill(&envelope);
    assert_int_equal(receipt_format(&envelope, &text), 0);
    json_t *root = json_loadb(text.data, text.len, JSON_ALLOW_NUL, NULL);
    assert_true(json_is_object(root));
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        assert_non_null(json_object_get(root, members[i]));
    assert_true(json_is_object(json_object_get(root, "request")));
    assert_string_equal(json_string_value(json_object_get(root, "finished_at")), "2026-11-20T12:00:01.234Z");
    assert_null(strchr(text.data, '\x1b'));
    json_decref(root);
    envelope_release(&envelope);

    strbuf_clear(&text);
    struct envelope bare = {.state = "uploading", .kind = ENVELOPE_ATTACHMENT};
    assert_int_equal(receipt_format(&bare, &text), 0);
    assert_non_null(strstr(text.data, "\"request\": null"));
    assert_non_null(strstr(text.data, "\"http_status\": null"));
    assert_non_null(strstr(text.data, "\"kind\": \"attachment\""));
}

static char *format_delivery(const char *record)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    assert_int_equal(receipt_delivery_format(record, strlen(record), &text), 0);
    return text.len == 0 ? strdup("") : strbuf_take(&text, NULL);
}

static void status_and_latest_event_are_members(void **state)
{
    static const struct {
        const char *record;
        const char *members;
    } rows[] = {
        {"{\"id\": \"1\"}", ""},
        {"{\"status\": \"sent\"}", ",\n  \"status\": \"sent\""},
        {"{\"status\": \"pending\", \"latest_event\": null}",
         ",\n  \"status\": \"pending\",\n  \"latest_event\": null"},
        {"{\"latest_event\": {\"event_type\": \"open\", \"date\": \"2026-11-20\"}, \"status\": \"sent\"}",
         ",\n  \"status\": \"sent\",\n  \"latest_event\": {\n    \"event_type\": \"open\",\n    \"date\": "
         "\"2026-11-20\"\n  }"},
        {"{\"status\": [\"odd\"]}", ",\n  \"status\": [\n    \"odd\"\n  ]"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_free_ char *members = format_delivery(rows[i].record);
        assert_string_equal(members, rows[i].members);
    }
}

static void what_is_no_record_is_refused(void **state)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    (void)state;
    assert_int_equal(receipt_delivery_format("[]", 2, &text), -EBADMSG);
    assert_int_equal(receipt_delivery_format("{", 1, &text), -EBADMSG);
    assert_int_equal(text.len, 0);
}

static void a_receipt_stays_json_with_them(void **state)
{
    struct envelope envelope = {.state = "sent", .kind = ENVELOPE_MESSAGE, .request = (char *)"{\"a\":1}"};
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(1 << 16);
    _cleanup_strbuf_ struct strbuf joined = STRBUF_INIT(1 << 16);
    (void)state;
    assert_int_equal(receipt_format(&envelope, &receipt), 0);
    _cleanup_free_ char *members =
        format_delivery("{\"status\": \"sent\", \"latest_event\": {\"event_type\": \"click\"}}");
    size_t end = receipt_end(receipt.data, receipt.len);
    strbuf_appendf(&joined, "%.*s%s%s", (int)end, receipt.data, members, receipt.data + end);
    _cleanup_json_ json_t *value = json_loadb(joined.data, joined.len, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(json_string_value(json_object_get(value, "status")), "sent");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(value, "latest_event"), "event_type")), "click");
    assert_true(json_is_object(json_object_get(value, "request")));
    assert_int_equal(receipt_end("{}", 2), 2);
}

/* The receipt is what a user looks at when something is wrong. */
static void a_damaged_envelope_makes_a_receipt_that_is_json(void **state)
{
    static const char *const requests[] = {
        "",
        "{",
        "{}}",
        "not json",
        "{\"a\":1}\n}\n{",
        "1, \"state\": \"sent\"",
        "\x01",
        "{\"a\":\"\xff\"}",
        "[[[[",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        struct envelope envelope = {.state = "failed",
                                    .accepted_ms = INT64_MAX,
                                    .finished_ms = INT64_MIN,
                                    .attempts = UINT_MAX,
                                    .http_status = INT_MIN,
                                    .error = (char *)"\x1b[2J",
                                    .request = (char *)requests[i]};
        _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(1 << 16);
        assert_int_equal(receipt_format(&envelope, &receipt), 0);
        _cleanup_json_ json_t *value = json_loadb(receipt.data, receipt.len, JSON_REJECT_DUPLICATES, NULL);
        if (value == NULL)
            fail_msg("with the request %s: %s", requests[i], strbuf_str(&receipt));
        assert_string_equal(json_string_value(json_object_get(value, "state")), "failed");
        assert_true(json_is_string(json_object_get(value, "request")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_envelope_survives_its_file),
        cmocka_unit_test(as_many_attachments_as_are_allowed_survive),
        cmocka_unit_test(torn_and_foreign_envelopes_are_refused),
        cmocka_unit_test(a_request_that_is_not_loaded_is_not_lost),
        cmocka_unit_test(a_receipt_is_json_with_all_members),
        cmocka_unit_test(status_and_latest_event_are_members),
        cmocka_unit_test(what_is_no_record_is_refused),
        cmocka_unit_test(a_receipt_stays_json_with_them),
        cmocka_unit_test(a_damaged_envelope_makes_a_receipt_that_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
