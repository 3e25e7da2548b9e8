/* SPDX-License-Identifier: MIT */
/*
 * Sending: delivery, rules, idempotency, attachments, replies and forwards, daily limits.
 */
#include <errno.h>

#include "support/test.h"

#include "base/strbuf.h"
#include "mail/email_record.h"
#include "support/disk.h"
#include "unit/service/service_fixture.h"

#define SEND "/api/v1/email/send"
#define ANN "ann@inbox.localhost"
#define BOB "bob@inbox.localhost"
#define EMAIL_MEMBERS                                                                       \
    "id status status_message user_mark_status inbox_id subject from_address to_addresses " \
    "cc_addresses bcc_addresses reply_to_addresses date latest_webhook_log"
#define OUTBOUND_MEMBERS                                                               \
    "id status inbox_id subject from_address to_addresses cc_addresses bcc_addresses " \
    "reply_to_addresses date message_type open_and_click_tracking latest_event"
#define CONTENT_MEMBERS                                                                             \
    "id inbox_id subject date from_address to_addresses cc_addresses bcc_addresses "                \
    "reply_to_addresses message_id in_reply_to_id references prompt thread_prompt plain_text html " \
    "alternative_content attachments previous_emails"

static json_t *load_content(const struct fixture *fixture, const char *id, const char *folder)
{
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s%s", folder, id);
    return get(fixture, target);
}

static char *load_raw(const struct fixture *fixture, const char *id)
{
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s/raw", id);
    struct http_answer answer;
    http_client_request(&fixture->client, "GET", target, "", NULL, 0, &answer);
    assert_int_equal(200, answer.status);
    char *type = http_answer_header(&answer, "Content-Type");
    assert_string_equal("message/rfc822", type);
    free(type);
    char *raw = strdup(answer.body);
    http_answer_release(&answer);
    return raw;
}

TEST_WITH(damage_to_a_header_is_named, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    json_t *welcome = newest_email(fixture, ann, "");
    run_sql(fixture, "UPDATE messages SET header = '{'");
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s", text_of(welcome, "id"));
    json_t *answer = call(fixture, "GET", target, NULL, 500);
    assert_non_null(strstr(text_of(answer, "detail"), strerrordesc_np(EUCLEAN)));
    json_decref(answer);
    json_decref(welcome);
    free(ann);
}

TEST_WITH(the_welcome_email_is_marked_as_automatic, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    json_t *welcome = newest_email(fixture, ann, "");
    char *raw = load_raw(fixture, text_of(welcome, "id"));
    assert_non_null(strstr(raw, "\r\nAuto-Submitted: auto-generated\r\n"));
    free(raw);
    json_decref(welcome);
    free(ann);
}

TEST_WITH(mail_to_an_inbox_of_the_service_is_delivered, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    char *bob = create_inbox(fixture, BOB, NULL);
    json_t *request = message_to(ANN, "BOB@inbox.localhost", "Grüße 🎉");
    json_object_set_new(request, "cc_addresses", json_pack("[{s:s, s:s}]", "address", ANN, "name", "Änn"));
    char *sent = send_message(fixture, request);

    json_t *email = newest_email(fixture, bob, "");
    assert_members(email, EMAIL_MEMBERS);
    assert_string_equal("valid", text_of(email, "status"));
    assert_string_equal("Grüße 🎉", text_of(email, "subject"));
    assert_string_equal("Name", text_of(json_object_get(email, "from_address"), "name"));

    json_t *content = load_content(fixture, text_of(email, "id"), "");
    assert_members(content, CONTENT_MEMBERS);
    assert_string_equal("The text.", text_of(content, "plain_text"));
    assert_non_null(strstr(text_of(content, "prompt"), "# Grüße 🎉"));
    assert_true(json_is_null(json_object_get(content, "previous_emails")));
    char *raw = load_raw(fixture, text_of(email, "id"));
    assert_non_null(strstr(raw, text_of(content, "message_id")));
    assert_int_equal(0, strncmp(raw, "Date: ", 6));
    assert_non_null(strstr(raw, "From: Name <" ANN ">\r\n"));
    assert_null(strstr(raw, ": \r\n")); /* no header is empty */
    free(raw);

    json_t *outbound = get(fixture, "/api/v1/email/outbound");
    assert_int_equal(1, json_array_size(outbound));
    assert_members(json_array_get(outbound, 0), OUTBOUND_MEMBERS);
    assert_string_equal(sent, text_of(json_array_get(outbound, 0), "id"));
    assert_string_equal("sent", text_of(json_array_get(outbound, 0), "status"));
    assert_string_equal("new", text_of(json_array_get(outbound, 0), "message_type"));
    json_t *sent_content = load_content(fixture, sent, "outbound/");
    assert_members(sent_content, CONTENT_MEMBERS);

    json_decref(sent_content);
    json_decref(outbound);
    json_decref(content);
    json_decref(email);
    free(sent);
    free(bob);
}

TEST_WITH(bcc_is_hidden_from_other_recipients, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    char *bob = create_inbox(fixture, BOB, NULL);
    char *eve = create_inbox(fixture, "eve@inbox.localhost", NULL);
    json_t *request = message_to(ANN, BOB, "secret");
    json_object_set_new(request, "bcc_addresses",
                        json_pack("[{s:s, s:n}, {s:s, s:n}]", "address", "eve@inbox.localhost", "name",
                                  "address", "else@where.example", "name"));
    char *sent = send_message(fixture, request);

    json_t *to_bob = newest_email(fixture, bob, "");
    json_t *to_eve = newest_email(fixture, eve, "");
    assert_int_equal(0, json_array_size(json_object_get(to_bob, "bcc_addresses")));
    assert_int_equal(1, json_array_size(json_object_get(to_eve, "bcc_addresses")));
    char *raw = load_raw(fixture, text_of(to_bob, "id"));
    assert_null(strcasestr(raw, "bcc:")); /* an id may contain "bcc", but no colon */
    assert_null(strstr(raw, "eve@"));
    json_t *content = load_content(fixture, text_of(to_bob, "id"), "");
    char *text = json_dumps(content, 0);
    assert_null(strstr(text, "eve@"));
    json_t *outbound = load_content(fixture, sent, "outbound/");
    assert_int_equal(2, json_array_size(json_object_get(outbound, "bcc_addresses")));

    json_decref(outbound);
    json_decref(content);
    json_decref(to_bob);
    json_decref(to_eve);
    free(text);
    free(raw);
    free(sent);
    free(ann);
    free(bob);
    free(eve);
}

static void assert_newest_outbound(const struct fixture *fixture, const char *status)
{
    json_t *list = get(fixture, "/api/v1/email/outbound?limit=1");
    assert_members(json_array_get(list, 0), OUTBOUND_MEMBERS);
    assert_string_equal(status, text_of(json_array_get(list, 0), "status"));
    json_decref(list);
}

/* A message to Bob, who has an inbox, and to two recipients who cannot be reached. */
static json_t *message_with_unreachable_recipients(void)
{
    json_t *request = message_to(ANN, BOB, "to some");
    json_object_set_new(request, "idempotency_key", json_string("once"));
    json_object_set_new(request, "cc_addresses", json_pack("[{s:s}]", "address", "nobody@INBOX.localhost"));
    json_object_set_new(request, "bcc_addresses", json_pack("[{s:s}]", "address", "else@where.example"));
    return request;
}

TEST_WITH(mail_bounces_at_once_for_unreachable_recipients, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    char *bob = create_inbox(fixture, BOB, NULL);
    free(send_message(fixture, message_with_unreachable_recipients()));
    assert_newest_outbound(fixture, "failed");
    json_t *to_bob = newest_email(fixture, bob, "");
    assert_string_equal("to some", text_of(to_bob, "subject"));
    json_t *bounce = newest_email(fixture, ann, "");
    assert_string_equal("Undelivered: to some", text_of(bounce, "subject"));
    assert_string_equal("support@inbox.localhost",
                        text_of(json_object_get(bounce, "from_address"), "address"));
    json_t *content = load_content(fixture, text_of(bounce, "id"), "");
    const char *text = text_of(content, "plain_text");
    assert_non_null(
        strstr(text, "Final-Recipient: rfc822; nobody@INBOX.localhost\nAction: failed\nStatus: 5.1.1\n"));
    assert_non_null(
        strstr(text, "Final-Recipient: rfc822; else@where.example\nAction: failed\nStatus: 5.4.4\n"));
    assert_null(strstr(text, BOB));
    assert_int_equal(1, json_array_size(json_object_get(content, "previous_emails")));
    char *raw = load_raw(fixture, text_of(bounce, "id"));
    assert_non_null(strstr(raw, "\r\nAuto-Submitted: auto-replied\r\n"));

    size_t before = count_of(fixture, "/api/v1/email");
    free(send_message(fixture, message_with_unreachable_recipients())); /* again under the same key */
    assert_int_equal(before, count_of(fixture, "/api/v1/email"));
    free(raw);
    json_decref(content);
    json_decref(bounce);
    json_decref(to_bob);
    free(bob);
    free(ann);
}

TEST_WITH(mail_to_the_support_address_causes_no_bounce, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    size_t before = count_of(fixture, "/api/v1/email");
    free(send_message(fixture, message_to(ANN, "Support@inbox.localhost", "Re: Undelivered: x")));
    assert_int_equal(before, count_of(fixture, "/api/v1/email"));
    assert_newest_outbound(fixture, "failed");
    free(create_inbox(fixture, "support@inbox.localhost", NULL));
    free(send_message(fixture, message_to(ANN, "Support@inbox.localhost", "hello")));
    assert_newest_outbound(fixture, "sent");
    assert_int_equal(before + 1, count_of(fixture, "/api/v1/email"));
    free(ann);
}

TEST_WITH(mail_that_breaks_a_rule_is_hidden_until_a_user_marks_it, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    char *bob = create_inbox(
        fixture, BOB, json_pack("{s:{s:[s], s:[]}}", "blocked_from_addresses", "addresses", ANN, "domains"));
    free(send_message(fixture, message_to(ANN, BOB, "blocked")));
    assert_null(newest_email(fixture, bob, ""));
    json_t *email = newest_email(fixture, bob, "&valid_only=false");
    assert_string_equal("blocked_from_address", text_of(email, "status"));
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s", text_of(email, "id"));
    json_decref(call(fixture, "GET", target, NULL, 404));
    snprintf(target, sizeof(target), "/api/v1/email/%s/raw", text_of(email, "id"));
    json_decref(call(fixture, "GET", target, NULL, 404));

    snprintf(target, sizeof(target), "/api/v1/email/%s/mark/true", text_of(email, "id"));
    json_t *marked = call(fixture, "POST", target, NULL, 200);
    assert_members(marked, EMAIL_MEMBERS);
    assert_true(json_is_true(json_object_get(marked, "user_mark_status")));
    assert_string_equal("blocked_from_address", text_of(marked, "status"));
    json_decref(marked);
    json_t *shown = newest_email(fixture, bob, "");
    assert_non_null(shown);
    json_decref(shown);
    json_decref(load_content(fixture, text_of(email, "id"), ""));
    /* Python's f-strings write a bool in this form. */
    snprintf(target, sizeof(target), "/api/v1/email/%s/mark/False", text_of(email, "id"));
    json_decref(call(fixture, "POST", target, NULL, 200));
    assert_null(newest_email(fixture, bob, ""));
    snprintf(target, sizeof(target), "/api/v1/email/%s/mark/maybe", text_of(email, "id"));
    json_decref(call(fixture, "POST", target, NULL, 422));
    json_decref(call(fixture, "POST", "/api/v1/email/nothing/mark/true", NULL, 404));
    json_decref(email);
    free(bob);
}

TEST_WITH(valid_mail_cannot_be_hidden_by_a_mark, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    char *bob = create_inbox(fixture, BOB, NULL);
    free(send_message(fixture, message_to(ANN, BOB, "fine")));
    json_t *email = newest_email(fixture, bob, "");
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s/mark/false", text_of(email, "id"));
    json_decref(call(fixture, "POST", target, NULL, 200));
    json_t *shown = newest_email(fixture, bob, "");
    assert_non_null(shown);
    assert_string_equal("fine", text_of(shown, "subject"));
    json_decref(load_content(fixture, text_of(email, "id"), ""));
    json_decref(shown);
    json_decref(email);
    free(bob);
}

TEST_WITH(an_inbox_can_refuse_cc_and_bcc, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *field, *status;
    } ways[] = {{"cc_addresses", "not_allowed_cc_address"}, {"bcc_addresses", "not_allowed_bcc_address"}};
    free(create_inbox(fixture, ANN, NULL));
    char *bob = create_inbox(fixture, BOB, json_pack("{s:b, s:b}", "allow_cc", false, "allow_bcc", false));
    for (size_t i = 0; i < 2; i++) {
        json_t *request = message_to(ANN, ANN, "x");
        json_object_set_new(request, ways[i].field, json_pack("[{s:s, s:n}]", "address", BOB, "name"));
        free(send_message(fixture, request));
        assert_null(newest_email(fixture, bob, ""));
        json_t *email = newest_email(fixture, bob, "&valid_only=false");
        assert_string_equal(ways[i].status, text_of(email, "status"));
        assert_true(strlen(text_of(email, "status_message")) > 10);
        json_decref(email);
    }
    free(send_message(fixture, message_to(ANN, BOB, "to")));
    json_t *email = newest_email(fixture, bob, "");
    assert_string_equal("to", text_of(email, "subject"));
    json_decref(email);
    free(bob);
}

TEST_WITH(requests_with_one_idempotency_key_send_one_email, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    json_t *request = message_to(ANN, ANN, "Unique");
    json_object_set_new(request, "idempotency_key", json_string("key-1"));
    json_t *variant = json_deep_copy(request);
    json_object_set_new(variant, "html", json_null());
    json_t *other = json_deep_copy(request);
    json_object_set_new(other, "subject", json_string("other"));
    char *first = send_message(fixture, json_incref(request));
    char *second = send_message(fixture, request);
    char *third = send_message(fixture, variant);
    assert_string_equal(first, second);
    assert_string_equal(first, third);
    json_decref(call(fixture, "POST", SEND, other, 409));
    assert_int_equal(1, count_of(fixture, "/api/v1/email/outbound"));
    assert_int_equal(1, count_of(fixture, "/api/v1/email?search_term=unique"));
    free(first);
    free(second);
    free(third);
}

TEST_WITH(an_upload_that_cannot_be_stored_is_refused, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    enum {
        DISK_BYTES = 2000 * 1000
    };
    char *bytes = calloc(2, DISK_BYTES);
    assert_non_null(bytes);
    disk_fill(DISK_BYTES);
    free(upload(fixture, "large.bin", "application/x-test", bytes, (size_t)2 * DISK_BYTES, 500));
    disk_empty();
    free(upload(fixture, "large.bin", "application/x-test", bytes, (size_t)2 * DISK_BYTES, 200));
    free(bytes);
}

TEST_WITH(attachments_arrive_with_name_type_and_bytes, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    static const char bytes[] = "\0\r\n\nFrom x\r.\r\n--=\xff end";
    char *one = upload(fixture, "grüße \\\"1\\\".bin", "application/x-test", bytes, sizeof(bytes), 200);
    char *two = upload(fixture, "mail.eml", "message/rfc822", "Subject: x\n\ny", 13, 200);
    json_t *request = message_to(ANN, ANN, "files");
    json_object_set_new(request, "attachment_ids", json_pack("[s, s]", one, two));
    char *sent = send_message(fixture, request);
    json_t *email = newest_email(fixture, ann, "");
    json_t *content = load_content(fixture, text_of(email, "id"), "");
    json_t *list = json_object_get(content, "attachments");
    assert_int_equal(2, json_array_size(list));
    assert_members(json_array_get(list, 0), "id filename content_type content_encoding content_id");
    assert_string_equal("grüße \"1\".bin", text_of(json_array_get(list, 0), "filename"));
    assert_string_equal("message/rfc822", text_of(json_array_get(list, 1), "content_type"));

    static const struct {
        size_t index;
        const char *content;
        size_t len;
    } expected[] = {{0, bytes, sizeof(bytes)}, {1, "Subject: x\n\ny", 13}};
    for (size_t i = 0; i < 4; i++) {
        const char *id = text_of(json_array_get(list, expected[i % 2].index), "id");
        char target[256];
        if (i < 2)
            snprintf(target, sizeof(target), "/api/v1/email/%s/attachment/%s", text_of(email, "id"), id);
        else
            snprintf(target, sizeof(target), "/api/v1/email/outbound/%s/attachment/%s", sent, id);
        struct http_answer answer;
        http_client_request(&fixture->client, "GET", target, "", NULL, 0, &answer);
        assert_int_equal(200, answer.status);
        assert_int_equal(expected[i % 2].len, answer.body_len);
        assert_memory_equal(expected[i % 2].content, answer.body, answer.body_len);
        char *sniff = http_answer_header(&answer, "X-Content-Type-Options");
        char *disposition = http_answer_header(&answer, "Content-Disposition");
        assert_string_equal("nosniff", sniff);
        assert_string_equal("attachment", disposition);
        free(sniff);
        free(disposition);
        http_answer_release(&answer);
    }
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s/attachment/nothing", text_of(email, "id"));
    json_decref(call(fixture, "GET", target, NULL, 404));
    assert_int_equal(1, count_of(fixture, "/api/v1/email?search_term=GR%C3%9C%C3%9FE"));
    json_decref(content);
    json_decref(email);
    free(sent);
    free(one);
    free(two);
    free(ann);
}

TEST_WITH(attachments_are_bounded_together, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    size_t len = 10 * 1000 * 1000;
    char *bytes = calloc(1, len + 1);
    char *whole = upload(fixture, "a", "text/plain", bytes, len, 200);
    free(upload(fixture, "a", "text/plain", bytes, len + 1, 413));
    char *byte = upload(fixture, "b", "text/plain", "x", 1, 200);
    json_t *request = message_to(ANN, ANN, "all");
    json_object_set_new(request, "attachment_ids", json_pack("[s]", whole));
    free(send_message(fixture, request));
    request = message_to(ANN, ANN, "more");
    json_object_set_new(request, "attachment_ids", json_pack("[s, s]", whole, byte));
    json_decref(call(fixture, "POST", SEND, request, 413));
    request = message_to(ANN, ANN, "none");
    json_object_set_new(request, "attachment_ids", json_pack("[s, s]", byte, "nothing"));
    json_t *error = call(fixture, "POST", SEND, request, 422);
    char *text = json_dumps(error, JSON_COMPACT);
    assert_non_null(strstr(text, "[\"body\",\"attachment_ids\",1]"));
    free(text);
    json_decref(error);
    assert_int_equal(1, count_of(fixture, "/api/v1/email/outbound"));
    free(byte);
    free(whole);
    free(bytes);
}

/* Sends these texts to two people, with two attachments. Returns the email's prompt; the caller frees it. */
static char *prompt_of(const struct fixture *fixture, const char *inbox, json_t *texts)
{
    char *one = upload(fixture, "one.txt", "text/plain", "1", 1, 200);
    char *two = upload(fixture, "two.pdf", "application/pdf", "2", 1, 200);
    json_t *request = json_pack("{s:s, s:s, s:[{s:s, s:s}, {s:s, s:n}], s:[s, s]}", "from_address", ANN,
                                "subject", "Prompt", "to_addresses", "address", ANN, "name", "Ann", "address",
                                BOB, "name", "attachment_ids", one, two);
    json_object_update(request, texts);
    json_decref(texts);
    free(send_message(fixture, request));
    json_t *email = newest_email(fixture, inbox, "");
    char *prompt = take_text(load_content(fixture, text_of(email, "id"), ""), "prompt");
    json_decref(email);
    free(one);
    free(two);
    return prompt;
}

TEST_WITH(a_prompt_has_the_headers_texts_and_attachments, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *plain_text;
        const char *html;
        bool is_alternative;
        const char *body;
    } cases[] = {
        {"Plain.", NULL, false, "Plain.\n"},
        {NULL, "<p>Rich.</p>", false, "Rich.\n"},
        {"Plain.", "<p>Rich.</p>", true, "Plain.\n"},
        {"Plain.", "<p>Rich.</p>", false, "Plain.\n\nRich.\n"},
        {NULL, "<h1>Costs</h1><table><tr><th>a<th>b<tr><td>1<td>2</table>", false,
         "## Costs\n\na  b\n1  2\n"},
    };
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    free(create_inbox(fixture, BOB, NULL));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *prompt = prompt_of(fixture, ann,
                                 json_pack("{s:s*, s:s*, s:b}", "plain_text", cases[i].plain_text, "html",
                                           cases[i].html, "alternative_content", cases[i].is_alternative));
        static const char before[] =
            "# Prompt\n\n- **From:** Name <" ANN ">\n- **To:** Ann <" ANN ">, " BOB "\n"
            "- **Date:** ";
        static const char files[] =
            "\n- **Attachments:** one.txt (text/plain), two.pdf (application/pdf)\n\n";
        print_message("# %s\n", prompt);
        assert_int_equal(0, strncmp(before, prompt, strlen(before)));
        const char *after = strstr(prompt, files);
        assert_non_null(after);
        assert_string_equal(cases[i].body, after + strlen(files));
        free(prompt);
    }
    free(ann);
}

TEST_WITH(html_headings_in_a_thread_are_below_the_subjects, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    char *ann = create_inbox(fixture, ANN, NULL);
    json_t *request = message_to(ANN, BOB, "Question");
    json_object_set_new(request, "html", json_string("<h1>Asked</h1>"));
    free(send_message(fixture, request));
    json_t *question = newest_email(fixture, bob, "");
    request = message_to(BOB, ANN, "Answer");
    json_object_set_new(request, "html", json_string("<h1>Costs</h1><h2>Each</h2>"));
    json_object_set_new(request, "existing_email_id", json_string(text_of(question, "id")));
    json_object_set_new(request, "message_type", json_string("reply"));
    free(send_message(fixture, request));

    json_t *answer = newest_email(fixture, ann, "");
    json_t *content = load_content(fixture, text_of(answer, "id"), "");
    const char *prompt = text_of(content, "prompt");
    const char *thread = text_of(content, "thread_prompt");
    print_message("# %s\n# %s\n", prompt, thread);
    assert_non_null(strstr(prompt, "\n## Costs\n\n### Each\n"));
    assert_non_null(strstr(thread, "\n## Question\n"));
    assert_non_null(strstr(thread, "\n### Asked\n"));
    assert_non_null(strstr(thread, "\n### Costs\n\n#### Each\n"));
    json_decref(content);
    json_decref(answer);
    json_decref(question);
    free(ann);
    free(bob);
}

TEST_WITH(a_reply_joins_the_thread, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    char *bob = create_inbox(fixture, BOB, NULL);
    free(send_message(fixture, message_to(ANN, BOB, "Question")));
    json_t *question = newest_email(fixture, bob, "");
    json_t *request = message_to(BOB, ANN, "");
    json_object_del(request, "subject");
    json_object_set_new(request, "existing_email_id", json_string(text_of(question, "id")));
    json_object_set_new(request, "message_type", json_string("reply"));
    free(send_message(fixture, request));

    json_t *original = load_content(fixture, text_of(question, "id"), "");
    json_t *reply = newest_email(fixture, ann, "");
    assert_string_equal("Question", text_of(reply, "subject"));
    json_t *content = load_content(fixture, text_of(reply, "id"), "");
    assert_string_equal(text_of(original, "message_id"), text_of(content, "in_reply_to_id"));
    assert_int_equal(1, json_array_size(json_object_get(content, "references")));
    const json_t *previous = json_object_get(content, "previous_emails");
    assert_int_equal(1, json_array_size(previous));
    const json_t *before = json_array_get(previous, 0);
    assert_members(before, CONTENT_MEMBERS);
    assert_string_equal(text_of(original, "message_id"), text_of(before, "message_id"));
    assert_string_equal(ann, text_of(before, "inbox_id"));
    assert_true(json_is_null(json_object_get(before, "previous_emails")));
    assert_non_null(strstr(text_of(content, "thread_prompt"), "Thread of 2 emails"));
    char *raw = load_raw(fixture, text_of(reply, "id"));
    assert_non_null(strstr(raw, "\r\nIn-Reply-To: <"));
    assert_non_null(strstr(raw, "\r\nReferences: <"));
    free(raw);
    json_decref(content);
    json_decref(reply);
    json_decref(original);
    json_decref(question);
    free(ann);
    free(bob);
}

/* Returns the Message-ID of an email, which the caller frees. */
static char *load_message_id(const struct fixture *fixture, const char *id)
{
    static const char name[] = "\r\nMessage-ID: ";
    char *raw = load_raw(fixture, id);
    const char *value = strcasestr(raw, name);
    assert_non_null(value);
    value += strlen(name);
    char *message_id = strndup(value, strcspn(value, "\r"));
    free(raw);
    return message_id;
}

TEST_WITH(references_of_a_long_thread_keep_the_first_and_newest, fixture_set_up, fixture_tear_down)
{
    enum {
        EMAILS = 103
    };
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    char *ids[EMAILS];
    json_t *references = NULL;
    json_t *newest = NULL;
    for (size_t i = 0; i < EMAILS; i++) {
        json_t *request = message_to(ANN, ANN, "Thread");
        if (i > 0)
            json_object_set_new(request, "existing_email_id", json_string(text_of(newest, "id")));
        json_decref(newest);
        free(send_message(fixture, request));
        newest = newest_email(fixture, ann, "");
        ids[i] = load_message_id(fixture, text_of(newest, "id"));
        if (i >= 2 && i < 99) /* reading the content of each would take too long */
            continue;
        json_t *content = load_content(fixture, text_of(newest, "id"), "");
        assert_string_equal(ids[i], text_of(content, "message_id"));
        json_decref(references);
        references = json_incref(json_object_get(content, "references"));
        size_t previous = json_array_size(json_object_get(content, "previous_emails"));
        assert_int_equal(i < 100 ? i : 100, previous);
        json_decref(content);
    }
    assert_int_equal(50, json_array_size(references));
    assert_string_equal(ids[0], json_string_value(json_array_get(references, 0)));
    for (size_t i = 1; i < 50; i++)
        assert_string_equal(ids[i + EMAILS - 1 - 50], json_string_value(json_array_get(references, i)));
    for (size_t i = 0; i < EMAILS; i++)
        free(ids[i]);
    json_decref(newest);
    json_decref(references);
    free(ann);
}

/* The bound is 12 MB of records, and a record has each text three times. */
TEST_WITH(a_thread_of_long_emails_shows_the_newest, fixture_set_up, fixture_tear_down)
{
    enum {
        EMAILS = 4,
        PAGE_BYTES = 1500 * 1000
    };
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    char *page = malloc(PAGE_BYTES + 1);
    assert_non_null(page);
    memset(page, 'x', PAGE_BYTES);
    page[PAGE_BYTES] = '\0';
    for (int i = 0; i < EMAILS; i++) {
        char subject[24];
        snprintf(subject, sizeof(subject), "page %d", i);
        json_t *request = message_to(ANN, ANN, subject);
        json_t *before = newest_email(fixture, ann, "");
        json_object_set_new(request, "html", json_string(page));
        if (i > 0)
            json_object_set_new(request, "existing_email_id", json_string(text_of(before, "id")));
        json_decref(before);
        free(send_message(fixture, request));
    }
    json_t *newest = newest_email(fixture, ann, "");
    json_t *content = load_content(fixture, text_of(newest, "id"), "");
    const json_t *previous = json_object_get(content, "previous_emails");
    assert_int_equal(2, json_array_size(previous));
    assert_string_equal("page 1", text_of(json_array_get(previous, 0), "subject"));
    assert_string_equal("page 2", text_of(json_array_get(previous, 1), "subject"));
    json_decref(content);
    json_decref(newest);
    free(page);
    free(ann);
}

/* In Markdown each line of this list is indented by 24 blanks. The caller frees the text. */
static char *deep_list(size_t lines)
{
    enum {
        LISTS = 12
    };
    _cleanup_strbuf_ struct strbuf html = STRBUF_INIT(SIZE_MAX / 2);
    for (int i = 0; i < LISTS; i++)
        strbuf_append_str(&html, "<ol start=999999><li>");
    for (size_t i = 0; i < lines; i++)
        strbuf_append_str(&html, "\u00e9<br>");
    return strbuf_take(&html, NULL);
}

TEST_WITH(the_prompt_of_html_that_grows_in_markdown_is_cut, fixture_set_up, fixture_tear_down)
{
    enum {
        LINES = 200 * 1000,
        PROMPT_BYTES = 4 * 1000 * 1000
    };
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    char *html = deep_list(LINES);
    json_t *request = message_to(ANN, ANN, "Page");
    json_object_set_new(request, "html", json_string(html));
    free(send_message(fixture, request));
    json_t *page = newest_email(fixture, ann, "");
    json_t *content = load_content(fixture, text_of(page, "id"), "");
    assert_string_equal(html, text_of(content, "html"));
    assert_non_null(strstr(text_of(content, "prompt"), "999999. \u00e9\n"));
    assert_in_range(strlen(text_of(content, "prompt")), PROMPT_BYTES / 10 * 9, PROMPT_BYTES + 1);

    request = message_to(ANN, ANN, "Answer");
    json_object_set_new(request, "existing_email_id", json_string(text_of(page, "id")));
    free(send_message(fixture, request));
    json_t *answer = newest_email(fixture, ann, "");
    json_t *thread = load_content(fixture, text_of(answer, "id"), "");
    assert_int_equal(1, json_array_size(json_object_get(thread, "previous_emails")));
    const char *prompt = text_of(thread, "thread_prompt");
    assert_non_null(strstr(prompt, "\n\n## Page\n"));
    assert_non_null(strstr(prompt, "\n\n## Answer\n"));
    assert_string_equal("\n\nThe text.\n", prompt + strlen(prompt) - strlen("\n\nThe text.\n"));
    json_decref(thread);
    json_decref(answer);
    json_decref(content);
    json_decref(page);
    free(html);
    free(ann);
}

/* The subjects differ in length, so that the limit falls within a character of at least one text. */
TEST_WITH(a_prompt_cuts_a_long_text_after_a_whole_character, fixture_set_up, fixture_tear_down)
{
    enum {
        SIGNS = 1400 * 1000,
        PROMPT_BYTES = 4 * 1000 * 1000
    };
    static const char *const subjects[] = {"1", "22"};
    static const char end[] = "\u20ac\n";
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SIZE_MAX / 2);
    for (int i = 0; i < SIGNS; i++)
        strbuf_append_str(&text, "\u20ac");
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
        json_t *request = message_to(ANN, ANN, subjects[i]);
        json_object_set_new(request, "plain_text", json_string(strbuf_str(&text)));
        free(send_message(fixture, request));
        json_t *email = newest_email(fixture, ann, "");
        json_t *content = load_content(fixture, text_of(email, "id"), "");
        const char *prompt = text_of(content, "prompt");
        assert_string_equal(strbuf_str(&text), text_of(content, "plain_text"));
        assert_in_range(strlen(prompt), PROMPT_BYTES - 30, PROMPT_BYTES + 1);
        assert_string_equal(end, prompt + strlen(prompt) - strlen(end));
        json_decref(content);
        json_decref(email);
    }
    free(ann);
}

static json_t *strangers(size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:o}", "address", json_sprintf("a%zu@example.com", i)));
    return list;
}

TEST_WITH(recipients_of_all_headers_are_bounded_together, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    for (size_t more = 0; more < 2; more++) {
        json_t *request = message_to(ANN, ANN, "Many");
        json_object_set_new(request, "to_addresses", strangers(400));
        json_object_set_new(request, "cc_addresses", strangers(400));
        json_object_set_new(request, "bcc_addresses", strangers(200 + more));
        json_decref(call(fixture, "POST", SEND, request, more == 0 ? 200 : 422));
    }
}

static json_t *strangers_named(size_t count, const char *mark, size_t marks)
{
    _cleanup_strbuf_ struct strbuf name = STRBUF_INIT(SIZE_MAX / 2);
    for (size_t i = 0; i < marks; i++)
        strbuf_append_str(&name, mark);
    json_t *list = strangers(count);
    size_t i;
    json_t *address;
    json_array_foreach (list, i, address)
        json_object_set_new(address, "name", json_string(strbuf_str(&name)));
    return list;
}

/* inboxfs must accept the record, although it writes each character of these names with three times as many
 * bytes. */
TEST_WITH(names_of_all_recipients_are_bounded_together, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    for (size_t more = 0; more < 2; more++) {
        json_t *request = message_to(ANN, ANN, "Names");
        json_object_set_new(request, "cc_addresses", strangers_named(999, "\u061C", 125));
        json_object_set_new(request, "reply_to_addresses", strangers_named(1000, "\u061C", 125 + more));
        json_decref(call(fixture, "POST", SEND, request, more == 0 ? 200 : 422));
        request = message_to(ANN, ANN, "Names");
        json_object_set_new(request, "cc_addresses", strangers_named(999, "n", 500 + more));
        json_decref(call(fixture, "POST", SEND, request, more == 0 ? 200 : 422));
    }
    json_t *list = get(fixture, "/api/v1/email");
    size_t i;
    const json_t *record;
    json_array_foreach (list, i, record) {
        char *text = json_dumps(record, JSON_COMPACT);
        struct email_record read = {0};
        assert_int_equal(0, email_record_from_text(text, strlen(text), &read));
        email_record_release(&read);
        free(text);
    }
    json_decref(list);
    free(ann);
}

TEST_WITH(a_forward_encloses_the_original_up_to_ten_deep, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    free(send_message(fixture, message_to(ANN, ANN, "First")));
    json_t *first = newest_email(fixture, ann, "");
    /* The email that is forwarded below is a reply, not the first of its thread. */
    json_t *reply = message_to(ANN, ANN, "Second");
    json_object_set(reply, "existing_email_id", json_object_get(first, "id"));
    json_object_set_new(reply, "message_type", json_string("reply"));
    free(send_message(fixture, reply));
    json_decref(first);
    json_t *email = newest_email(fixture, ann, "");
    char *original = load_raw(fixture, text_of(email, "id"));
    unsigned int status = 200;
    /* ten forwards are accepted, the next one is not */
    for (int i = 0; i <= 10; i++) {
        json_t *request = message_to(ANN, ANN, "Forward");
        json_object_set_new(request, "existing_email_id", json_string(text_of(email, "id")));
        json_object_set_new(request, "message_type", json_string("forward"));
        status = i < 10 ? 200 : 413;
        json_decref(call(fixture, "POST", SEND, request, (int)status));
        json_t *newest = newest_email(fixture, ann, "");
        if (i == 0) {
            json_t *content = load_content(fixture, text_of(newest, "id"), "");
            const json_t *attachment = json_array_get(json_object_get(content, "attachments"), 0);
            assert_string_equal("message/rfc822", text_of(attachment, "content_type"));
            assert_string_equal("forwarded.eml", text_of(attachment, "filename"));
            char target[256];
            snprintf(target, sizeof(target), "/api/v1/email/%s/attachment/%s", text_of(newest, "id"),
                     text_of(attachment, "id"));
            struct http_answer answer;
            http_client_request(&fixture->client, "GET", target, "", NULL, 0, &answer);
            assert_int_equal(200, answer.status);
            assert_string_equal(original, answer.body);
            char *raw = load_raw(fixture, text_of(newest, "id"));
            assert_non_null(strstr(raw, "\nContent-Type: message/rfc822"));
            free(raw);
            assert_true(json_is_null(json_object_get(content, "previous_emails")));
            http_answer_release(&answer);
            json_decref(content);
        }
        json_decref(email);
        email = newest;
    }
    json_decref(email);
    free(original);
    free(ann);
}

static const struct {
    const char *change; /* members that replace those of a good request */
    int status;
    const char *words; /* text that the answer contains */
} wrong[] = {
    {"{\"from_address\":\"nobody@inbox.localhost\"}", 404, "no inbox"},
    {"{\"from_address\":\"nonsense\"}", 422, "\"from_address\""},
    {"{\"from_address\":null}", 422, "\"from_address\""},
    {"{\"from_address\":{\"address\":null}}", 422, "\"from_address\", \"address\""},
    {"{\"subject\":null}", 422, "\"subject\""},
    {"{\"subject\":\"a\\r\\nBcc: x@y\"}", 422, "\"subject\""},
    {"{\"plain_text\":null}", 422, "\"plain_text\""},
    {"{\"plain_text\":5}", 422, "\"plain_text\""},
    {"{\"to_addresses\":null}", 422, "\"to_addresses\""},
    {"{\"to_addresses\":[]}", 422, "\"to_addresses\""},
    {"{\"to_addresses\":[\"a@b\"]}", 422, "\"to_addresses\", 0"},
    {"{\"to_addresses\":[{\"address\":\"a@b,c@d\",\"name\":null}]}", 422, "\"to_addresses\", 0, \"address\""},
    {"{\"to_addresses\":[{\"address\":\"a@b\",\"name\":\"x\\ny\"}]}", 422, "\"to_addresses\", 0, \"name\""},
    {"{\"message_type\":\"answer\"}", 422, "\"message_type\""},
    {"{\"message_type\":\"reply\"}", 422, "\"message_type\""},
    {"{\"existing_email_id\":\"nothing\"}", 404, "no such email"},
    {"{\"attachment_ids\":\"x\"}", 422, "\"attachment_ids\""},
    {"{\"attachment_ids\":[5]}", 422, "\"attachment_ids\", 0"},
    {"{\"idempotency_key\":5}", 422, "\"idempotency_key\""},
};

TEST_WITH(wrong_fields_are_refused, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        json_t *request = message_to(ANN, ANN, "x");
        json_t *change = json_loads(wrong[i].change, 0, NULL);
        json_object_update(request, change);
        json_decref(change);
        json_t *error = call(fixture, "POST", SEND, request, wrong[i].status);
        char *text = json_dumps(error, 0);
        if (strstr(text, wrong[i].words) == NULL)
            fail_msg("%s: %s", wrong[i].change, text);
        free(text);
        json_decref(error);
    }
    assert_int_equal(0, count_of(fixture, "/api/v1/email/outbound"));
}

/* The `loc` of the problem is the body, not a member. */
TEST_WITH(a_refusal_of_a_body_that_is_not_an_object_names_the_body, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static const char *const targets[] = {SEND, "/api/v1/inbox/upsert"};
    static const char *const bodies[] = {"[]", "[{}]", "\"text\"", "17", "true", "null"};
    for (size_t i = 0; i < 2 * sizeof(bodies) / sizeof(bodies[0]); i++) {
        const char *body = bodies[i / 2];
        struct http_answer answer;
        http_client_request(&fixture->client, "POST", targets[i % 2], "Content-Type: application/json\r\n",
                            body, strlen(body), &answer);
        if (answer.status != 422 || strstr(answer.body, "should be a valid dictionary") == NULL ||
            strstr(answer.body, "address") != NULL)
            fail_msg("%s of %s: %d %s", targets[i % 2], body, answer.status, answer.body);
        http_answer_release(&answer);
    }
}

TEST_WITH(requests_of_published_clients_are_accepted, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    json_t *request = json_pack(
        "{s:{s:s, s:s}, s:s, s:s, s:[{s:s, s:n}], s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n}",
        "from_address", "address", ANN, "name", "Other Name", "subject", "x", "plain_text", "y",
        "to_addresses", "address", ANN, "name", "cc_addresses", "bcc_addresses", "reply_to_addresses", "html",
        "alternative_content", "attachment_ids", "existing_email_id", "message_type", "idempotency_key");
    json_t *answer = call(fixture, "POST", SEND, request, 200);
    assert_members(answer, "id");
    json_decref(answer);
    json_t *list = get(fixture, "/api/v1/email?search_term=x");
    assert_string_equal("Other Name",
                        text_of(json_object_get(json_array_get(list, 0), "from_address"), "name"));
    json_decref(list);
}

/* ---------------------------------------------------------------- the daily limits of the tiers */

static json_t *message_with_key(const char *key)
{
    json_t *request = message_to(ANN, ANN, "x");
    if (key != NULL)
        json_object_set_new(request, "idempotency_key", json_string(key));
    return request;
}

/* Sends one email, which must exceed the daily limit. */
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

static int set_up_free(void **state)
{
    return fixture_set_up_limited(state, 10);
}

TEST_WITH(the_free_tier_sends_ten_emails_a_day, set_up_free, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    for (int i = 0; i < 10; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key %d", i);
        free(send_message(fixture, message_with_key(key)));
    }
    /* a repeated request does not count as another email */
    free(send_message(fixture, message_with_key("key 3")));
    assert_refused(fixture);
    assert_int_equal(10, count_of(fixture, "/api/v1/email/outbound"));
}

TEST_WITH(the_daily_limit_starts_anew_each_day, set_up_free, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    for (int i = 0; i < 10; i++)
        free(send_message(fixture, message_with_key(NULL)));
    assert_refused(fixture);
    run_sql(fixture, "UPDATE outbound SET date_ms = date_ms - 86400000");
    free(send_message(fixture, message_with_key(NULL)));
}
