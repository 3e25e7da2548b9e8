/* SPDX-License-Identifier: MIT */
/*
 * Envelopes survive their file, whatever is in them; receipts are JSON; sequences are the same for the same
 * people.
 */
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
#include "mail/receipt.h"
#include "mail/send_order.h"

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

static void lanes_are_the_same_for_the_same_people(void **state)
{
    static const char one[] = "{\"to_addresses\":[{\"address\":\"a@x.example\",\"name\":null},"
                              "{\"address\":\"b@x.example\",\"name\":\"B\"}]}";
    static const char same[] =
        "{\"to_addresses\":[{\"address\":\"B@x.example\",\"name\":null}],"
        "\"cc_addresses\":[{\"address\":\"A@X.example\",\"name\":null}],\"subject\":\"s\"}";
    static const char other[] = "{\"to_addresses\":[{\"address\":\"a@x.example\",\"name\":null}]}";
    char sequences[4][65];
    (void)state;
    assert_int_equal(send_order_sequence(one, "me@i.example", sequences[0]), 0);
    assert_int_equal(send_order_sequence(same, "ME@i.example", sequences[1]), 0);
    assert_int_equal(send_order_sequence(other, "me@i.example", sequences[2]), 0);
    assert_int_equal(send_order_sequence(one, "you@i.example", sequences[3]), 0);
    assert_string_equal(sequences[0], sequences[1]);
    assert_string_not_equal(sequences[0], sequences[2]);
    assert_string_not_equal(sequences[0], sequences[3]);
    assert_int_equal(send_order_sequence("[]", "me@i.example", sequences[0]), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_envelope_survives_its_file),
        cmocka_unit_test(as_many_attachments_as_are_allowed_survive),
        cmocka_unit_test(torn_and_foreign_envelopes_are_refused),
        cmocka_unit_test(a_request_that_is_not_loaded_is_not_lost),
        cmocka_unit_test(a_receipt_is_json_with_all_members),
        cmocka_unit_test(lanes_are_the_same_for_the_same_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
