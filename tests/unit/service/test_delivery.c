/* SPDX-License-Identifier: MIT */
/*
 * Mail from elsewhere: the service stores it byte for byte, reads any form of it, and applies the inbox's
 * rules.
 */
#include <dlfcn.h>
#include <errno.h>
#include <iconv.h>
#include <sys/socket.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/content_folder.h"
#include "mail/email_record.h"
#include "service/delivery.h"
#include "service/endpoints.h"
#include "service/tables.h"
#include "sql/query.h"
#include "unit/service/service_fixture.h"

#define ANN "ann@inbox.localhost"
#define BOB "bob@inbox.localhost"

static int deliver_to(const struct fixture *fixture, const char *sender, const char *const *recipients,
                      size_t recipients_len, const char *raw, size_t raw_len)
{
    struct database *database = NULL;
    struct smtp_message received = {sender != NULL ? sender : "", recipients, recipients_len, raw, raw_len};
    size_t unknown = 0;
    assert_int_equal(0, tables_open_existing(fixture->data_dir, &database));
    int error = delivery_receive(database, &received, NULL, &unknown);
    database_free(database);
    return error;
}

static void deliver(const struct fixture *fixture, const char *recipient, const char *raw)
{
    assert_int_equal(0, deliver_to(fixture, "env@x.example", &recipient, 1, raw, strlen(raw)));
}

static json_t *newest_content(const struct fixture *fixture, const char *inbox_id)
{
    json_t *email = newest_email(fixture, inbox_id, "");
    assert_non_null(email);
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s", text_of(email, "id"));
    json_decref(email);
    return get(fixture, target);
}

static void assert_bytes(const struct fixture *fixture, const char *target, const char *bytes, size_t len)
{
    struct http_answer answer;
    http_client_request(&fixture->client, "GET", target, "", NULL, 0, &answer);
    assert_int_equal(200, answer.status);
    assert_int_equal(len, answer.body_len);
    assert_memory_equal(bytes, answer.body, len);
    http_answer_release(&answer);
}

static void assert_raw(const struct fixture *fixture, const json_t *content, const char *bytes, size_t len)
{
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s/raw", text_of(content, "id"));
    assert_bytes(fixture, target, bytes, len);
}

static void assert_attachment(const struct fixture *fixture, const json_t *content, size_t index,
                              const char *name, const char *type, const char *bytes)
{
    const json_t *attachment = json_array_get(json_object_get(content, "attachments"), index);
    assert_string_equal(name, text_of(attachment, "filename"));
    assert_string_equal(type, text_of(attachment, "content_type"));
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email/%s/attachment/%s", text_of(content, "id"),
             text_of(attachment, "id"));
    assert_bytes(fixture, target, bytes, strlen(bytes));
}

TEST_WITH(a_delivered_message_is_read_and_keeps_its_bytes, fixture_set_up, fixture_tear_down)
{
    static const char raw[] = "Received: from x.example\r\n"
                              "From: =?utf-8?q?J=C3=B6rg?= <joerg@x.example>\r\n"
                              "To: Bob <" BOB ">, \"Eve, E.\" <eve@x.example>\r\n"
                              "Cc: team: a@x.example, b@x.example;\r\n"
                              "Reply-To: list@x.example\r\n"
                              "Subject: =?iso-8859-1?q?Gr=FC=DFe?=\r\n and more\r\n"
                              "Date: Fri, 20 Nov 2020 11:14:36 +0100\r\n"
                              "Message-ID: <1@x.example>\r\n"
                              "Content-Type: text/plain; charset=iso-8859-1\r\n"
                              "Content-Transfer-Encoding: quoted-printable\r\n"
                              "\r\n"
                              "Caf=E9\r\nat five=\r\n.\r\n";
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    deliver(fixture, "BOB@inbox.localhost", raw);
    json_t *content = newest_content(fixture, bob);
    assert_string_equal("Grüße and more", text_of(content, "subject"));
    assert_string_equal("2020-11-20T10:14:36.000Z", text_of(content, "date"));
    assert_string_equal("<1@x.example>", text_of(content, "message_id"));
    assert_string_equal("Jörg", text_of(json_object_get(content, "from_address"), "name"));
    assert_string_equal("joerg@x.example", text_of(json_object_get(content, "from_address"), "address"));
    const json_t *to = json_object_get(content, "to_addresses");
    assert_int_equal(2, json_array_size(to));
    assert_string_equal("Eve, E.", text_of(json_array_get(to, 1), "name"));
    assert_int_equal(2, json_array_size(json_object_get(content, "cc_addresses")));
    assert_int_equal(1, json_array_size(json_object_get(content, "reply_to_addresses")));
    assert_int_equal(0, json_array_size(json_object_get(content, "bcc_addresses")));
    assert_string_equal("Café\nat five.\n", text_of(content, "plain_text"));
    assert_raw(fixture, content, raw, strlen(raw));
    json_decref(content);
    free(bob);
}

TEST_WITH(attachments_arrive_byte_for_byte, fixture_set_up, fixture_tear_down)
{
    static const char raw[] = "From: a@x.example\nSubject: files\nMessage-ID: <2@x.example>\n"
                              "Content-Type: multipart/mixed; boundary=\"out\"\n"
                              "\n"
                              "--out\n"
                              "Content-Type: multipart/alternative; boundary=in\n"
                              "\n"
                              "--in\n\nplain\n"
                              "--in\nContent-Type: text/html\n\n<p>html</p>\n"
                              "--in--\n"
                              "--out\n"
                              "Content-Type: application/pdf; name*=utf-8''%C3%A4.pdf\n"
                              "Content-Transfer-Encoding: BASE64\n\nJVBE\nRg==\n"
                              "--out\n"
                              "Content-Type: message/rfc822\n\nSubject: inside\n\n--in\n"
                              "--out\n"
                              "Content-Disposition: attachment; filename=notes.txt\n\ntwo\r\nlines\r\n\r\n"
                              "--out--\nepilogue\n";
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    deliver(fixture, BOB, raw);
    json_t *content = newest_content(fixture, bob);
    assert_string_equal("plain", text_of(content, "plain_text"));
    assert_string_equal("<p>html</p>", text_of(content, "html"));
    assert_true(json_is_true(json_object_get(content, "alternative_content")));
    assert_int_equal(3, json_array_size(json_object_get(content, "attachments")));
    assert_attachment(fixture, content, 0, "ä.pdf", "application/pdf", "%PDF");
    assert_attachment(fixture, content, 1, "attachment-2.eml", "message/rfc822", "Subject: inside\n\n--in");
    assert_attachment(fixture, content, 2, "notes.txt", "text/plain", "two\r\nlines\r\n");
    json_decref(content);
    free(bob);
}

TEST_WITH(all_text_parts_are_joined_into_the_bodies, fixture_set_up, fixture_tear_down)
{
    static const char raw[] = "Subject: two of each\nMessage-ID: <3@x.example>\n"
                              "Content-Type: multipart/mixed; boundary=b\n"
                              "\n"
                              "--b\n\nfirst\n"
                              "--b\nContent-Type: text/html\n\n<p>first</p>\n"
                              "--b\n\nsecond\n"
                              "--b\nContent-Type: text/html\n\n<p>second</p>\n"
                              "--b--\n";
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    deliver(fixture, BOB, raw);
    json_t *content = newest_content(fixture, bob);
    assert_string_equal("first\nfirst\nsecond\nsecond\n", text_of(content, "plain_text"));
    assert_string_equal("<pre style=\"white-space: pre-wrap\">first</pre>\n<p>first</p>\n"
                        "<pre style=\"white-space: pre-wrap\">second</pre>\n<p>second</p>",
                        text_of(content, "html"));
    assert_true(json_is_true(json_object_get(content, "alternative_content")));
    assert_int_equal(0, json_array_size(json_object_get(content, "attachments")));
    json_decref(content);
    free(bob);
}

/* Turns the rows of a message, which has a text after a picture, into those that version 0.2 made. */
TEST_WITH(an_update_from_0_2_moves_text_attachments_into_the_bodies, fixture_set_up, fixture_tear_down)
{
    static const char raw[] = "Subject: code\nMessage-ID: <5@x.example>\n"
                              "Content-Type: multipart/mixed; boundary=b\n\n"
                              "--b\n\nLook:\n"
                              "--b\nContent-Type: image/png\n\n1\n"
                              "--b\n\nYour code is 123456\n"
                              "--b\nContent-Type: application/pdf; name=a.pdf\n\n%PDF\n"
                              "--b--\n";
    static const char old[] =
        "PRAGMA user_version = 2; ALTER TABLE outgoing ADD begun_ms; ALTER TABLE outgoing ADD failure;"
        "DROP TABLE trigrams; DELETE FROM settings WHERE name = 'indexed'; UPDATE contents SET plain_text = "
        "'Look:';"
        "UPDATE messages SET search_text = '', header = json_set(header, '$.attachments', json('["
        "{\"id\":\"1\",\"filename\":\"attachment-1\",\"content_type\":\"image/png\"},"
        "{\"id\":\"2\",\"filename\":\"attachment-2\",\"content_type\":\"text/plain\"},"
        "{\"id\":\"3\",\"filename\":\"a.pdf\",\"content_type\":\"application/pdf\"}]'))";
    struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    deliver(fixture, BOB, raw);
    fixture_stop(fixture);
    run_sql(fixture, old);
    fixture_start(fixture);
    json_t *content = newest_content(fixture, bob);
    assert_string_equal("Look:\nYour code is 123456", text_of(content, "plain_text"));
    assert_int_equal(2, json_array_size(json_object_get(content, "attachments")));
    assert_attachment(fixture, content, 0, "attachment-1.png", "image/png", "1");
    assert_attachment(fixture, content, 1, "a.pdf", "application/pdf", "%PDF");
    json_decref(content);
    free(bob);
}

TEST_WITH(attachments_have_their_content_ids, fixture_set_up, fixture_tear_down)
{
    static const char raw[] = "Subject: pictures\nMessage-ID: <4@x.example>\n"
                              "Content-Type: multipart/related; boundary=b\n"
                              "\n"
                              "--b\nContent-Type: text/html\n\n<img src=\"cid:one@x\">\n"
                              "--b\nContent-Type: image/png\nContent-ID: <one@x>\n\n1\n"
                              "--b\nContent-Type: image/png\nContent-ID: two@x \n\n2\n"
                              "--b\nContent-Type: image/png\nContent-ID: <t w o>\n\n3\n"
                              "--b\nContent-Type: image/png\n\n4\n"
                              "--b--\n";
    static const char *const expected[] = {"one@x", "two@x", "two", NULL};
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    deliver(fixture, BOB, raw);
    json_t *content = newest_content(fixture, bob);
    const json_t *list = json_object_get(content, "attachments");
    assert_int_equal(ARRAY_LEN(expected), json_array_size(list));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        const json_t *id = json_object_get(json_array_get(list, i), "content_id");
        if (expected[i] != NULL)
            assert_string_equal(expected[i], json_string_value(id));
        else
            assert_true(json_is_null(id));
    }
    json_decref(content);
    free(bob);
}

TEST_WITH(any_bytes_can_be_delivered, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *raw;
        size_t len;
        const char *subject;
        const char *plain_text;
    } cases[] = {
        {"", 0, "", ""},
        {"\n", 1, "", ""},
        {"no headers at all\nto be seen\n", 29, "", "no headers at all\nto be seen\n"},
        {"Subject: ends in it", 19, "ends in it", ""},
        {"Subject : old\nX\n", 16, "old", "X\n"},
        {"Subject: \xe4\n\n\xe4\0\xff", 16, "ä", "äÿ"},
        {"Subject: a\tb\x1b[0m\n\nx", 20, "a b [0m", "x"},
        {"Content-Type: multipart/mixed\n\ntext", 35, "", "text"},
        {"Content-Type: multipart/mixed; boundary=b\n\n--b\n\ncut", 51, "", "cut"},
        {"Content-Type: text\nContent-Transfer-Encoding: base64\n\naGk*=", 59, "", "hi"},
        {"Content-Type: text\nContent-Transfer-Encoding: base64\n\naGk", 57, "", "hi"},
        {"Content-Type: text\nContent-Transfer-Encoding: base64\n\naGVs\nbA\n", 62, "", "hell"},
        {"Content-Type: text/plain; charset=nobody-knows\n\n\xe4", 49, "", "ä"},
        {"To: , nobody, <a@@x>\nDate: never\nMessage-ID: <>\nReferences: x <\n\nt", 66, "", "t"},
    };
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    const char *recipient = BOB;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(0, deliver_to(fixture, NULL, &recipient, 1, cases[i].raw, cases[i].len));
        json_t *content = newest_content(fixture, bob);
        assert_string_equal(cases[i].subject, text_of(content, "subject"));
        assert_string_equal(cases[i].plain_text, text_of(content, "plain_text"));
        assert_string_equal("MAILER-DAEMON@inbox.localhost",
                            text_of(json_object_get(content, "from_address"), "address"));
        assert_raw(fixture, content, cases[i].raw, cases[i].len);
        json_decref(content);
    }
    free(bob);
}

TEST_WITH(dates_in_the_forms_of_common_programs_are_read, fixture_set_up, fixture_tear_down)
{
    static const char *const cases[][2] = {
        {"2020-11-20T11:14:36+01:00", "2020-11-20T10:14:36.000Z"},
        {"Fri, 20 Nov 2020 11:14:36 GMT+0100", "2020-11-20T10:14:36.000Z"},
        {"Fri, 20 Nov 2020 11:14:36 +01:00 (CET)", "2020-11-20T10:14:36.000Z"},
        {"Sat, 31 Dec 2016 23:59:60 +0000", "2017-01-01T00:00:00.000Z"},
    };
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char raw[256];
        snprintf(raw, sizeof(raw), "Subject: x\nDate: %s\n\nx\n", cases[i][0]);
        deliver(fixture, BOB, raw);
        json_t *email = newest_email(fixture, bob, "");
        assert_string_equal(cases[i][1], text_of(email, "date"));
        json_decref(email);
    }
    free(bob);
}

TEST_WITH(the_from_line_of_an_mbox_is_removed, fixture_set_up, fixture_tear_down)
{
    static const char raw[] = "From a@x.example Fri Nov 20 10:14:36 2020\nSubject: piped\n\nx\n";
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    deliver(fixture, BOB, raw);
    json_t *content = newest_content(fixture, bob);
    assert_string_equal("piped", text_of(content, "subject"));
    assert_raw(fixture, content, strchr(raw, '\n') + 1, strlen(strchr(raw, '\n') + 1));
    json_decref(content);
    free(bob);
}

TEST_WITH(a_missing_sender_is_taken_from_the_envelope, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *header, *envelope, *address, *name, *reply_to;
    } cases[] = {
        {"From: a@x.example, b@x.example\n", "e@x.example", "a@x.example", "(none)", "(none)"},
        {"From: broken\nSender: s@x.example\n", "e@x.example", "s@x.example", "(none)", "(none)"},
        {"From: root (Cron Daemon)\n", "root", "root@inbox.localhost", "root (Cron Daemon)", "(none)"},
        {"", "e@x.example", "e@x.example", "(none)", "(none)"},
        {"From: nobody at all\n", "", "MAILER-DAEMON@inbox.localhost", "nobody at all", "nobody at all"},
        {"From: nobody\nReply-To: r@x.example\n", "", "MAILER-DAEMON@inbox.localhost", "nobody",
         "r@x.example"},
        {"", "a b\"<", "MAILER-DAEMON@localhost", "(none)", "(none)"},
        {"From: =?, good@x.example\n", "", "good@x.example", "(none)", "(none)"},
    };
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    const char *recipient = BOB;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char raw[256];
        int len = snprintf(raw, sizeof(raw), "%sSubject: x\n\nx\n", cases[i].header);
        assert_int_equal(0, deliver_to(fixture, cases[i].envelope, &recipient, 1, raw, (size_t)len));
        json_t *content = newest_content(fixture, bob);
        const json_t *from = json_object_get(content, "from_address");
        assert_string_equal(cases[i].address, text_of(from, "address"));
        assert_string_equal(cases[i].name, text_of(from, "name"));
        const json_t *reply_to = json_array_get(json_object_get(content, "reply_to_addresses"), 0);
        assert_string_equal(cases[i].reply_to, text_of(reply_to, "address"));
        json_decref(content);
    }
    free(bob);
}

#define BLANKS_50 "                                                  "
#define BLANKS_300 BLANKS_50 BLANKS_50 BLANKS_50 BLANKS_50 BLANKS_50 BLANKS_50

/* Texts that are not addresses are listed after the addresses, and none of them looks like an address. */
TEST_WITH(text_instead_of_an_address_is_shown, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *header, *field;
        const char *addresses[4];
    } cases[] = {
        {"To: Smith John, d@x.example\n", "to_addresses", {"d@x.example", "Smith John"}},
        {"To: Smith John; d@x.example;e@x.example\n",
         "to_addresses",
         {"d@x.example", "e@x.example", "Smith John;"}},
        {"To: Smith John,,d@x.example\n", "to_addresses", {"d@x.example", "Smith John"}},
        {"Cc: a@x.example b@x.example\n", "cc_addresses", {"a@x.example b@x.example"}},
        {"Reply-To: nobody here\n", "reply_to_addresses", {"nobody here"}},
        {"To: <d@x.example\nTo: \n e@x.example\n", "to_addresses", {"e@x.example", "<d@x.example"}},
        {"Cc: =?UTF-8?Q?q=40x.example?=\n", "cc_addresses", {"=?UTF-8?Q?q=40x.example?="}},
        {"Cc: \374b@x.example\n", "cc_addresses", {"\uFFFDb@x.example"}},
        {"Cc: \001a@x.example\n", "cc_addresses", {"a@x.example\uFFFD"}},
        {"To: " BLANKS_300 "\001nobody here\n", "to_addresses", {"nobody here"}},
        {"To: undisclosed-recipients:;\n", "to_addresses", {NULL}},
        {"To: , ,\n", "to_addresses", {NULL}},
    };
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char raw[512];
        snprintf(raw, sizeof(raw), "From: c@x.example\n%sSubject: x\n\nx\n", cases[i].header);
        deliver(fixture, BOB, raw);
        json_t *content = newest_content(fixture, bob);
        const json_t *list = json_object_get(content, cases[i].field);
        size_t len = 0;
        while (cases[i].addresses[len] != NULL) {
            assert_string_equal(cases[i].addresses[len], text_of(json_array_get(list, len), "address"));
            len++;
        }
        assert_int_equal(len, json_array_size(list));
        json_decref(content);
    }
    free(bob);
}

/* Returns a text with the addresses a0@x.example to a1000@x.example, which the caller frees. */
static char *many_recipients(const char *before, const char *separator, const char *after)
{
    enum {
        COUNT = 1001,
        ADDRESS_MAX = 64
    };
    char *raw = malloc(strlen(before) + COUNT * (ADDRESS_MAX + strlen(separator)) + strlen(after) + 1);
    assert_non_null(raw);
    size_t len = (size_t)sprintf(raw, "%s", before);
    for (int i = 0; i < COUNT; i++)
        len += (size_t)sprintf(raw + len, "%sa%d@x.example", i > 0 ? separator : "", i);
    strcpy(raw + len, after);
    return raw;
}

TEST_WITH(the_first_thousand_recipients_are_shown, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *before, *separator, *after;
        const char *last; /* the last element of the list; may be a text that is not an address */
    } cases[] = {
        {"To: ", ", ", "", "a999@x.example"},          {"To: ", ";", "", "a999@x.example"},
        {"To: ", ";\n ", ";", "a999@x.example"},       {"To: team: ", ", ", ";", "a999@x.example"},
        {"To: Smith John; ", "; ", "", "Smith John;"}, {"To: Smith John, ", ", ", "", "Smith John"},
        {"To: Smith John, ", "; ", "", "Smith John"},
    };
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *raw = many_recipients(cases[i].before, cases[i].separator, cases[i].after);
        deliver(fixture, BOB, raw);
        json_t *content = newest_content(fixture, bob);
        const json_t *list = json_object_get(content, "to_addresses");
        assert_int_equal(1000, json_array_size(list));
        assert_string_equal("a0@x.example", text_of(json_array_get(list, 0), "address"));
        assert_string_equal(cases[i].last, text_of(json_array_get(list, 999), "address"));
        json_decref(content);
        free(raw);
    }
    free(bob);
}

TEST_WITH(an_answer_joins_the_thread_and_can_be_answered, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *ann = create_inbox(fixture, ANN, NULL);
    free(create_inbox(fixture, BOB, NULL));
    free(send_message(fixture, message_to(BOB, ANN, "question")));
    json_t *question = newest_content(fixture, ann);
    char raw[1024];
    snprintf(raw, sizeof(raw),
             "From: a@x.example\nSubject: Re: question\nMessage-ID: <3@x.example>\nIn-Reply-To: <unknown@x>\n"
             "References: <unknown@x>\n\t%s\n\nanswer\n",
             text_of(question, "message_id"));
    deliver(fixture, ANN, raw);
    json_t *answer = newest_content(fixture, ann);
    const json_t *previous = json_object_get(answer, "previous_emails");
    assert_int_equal(1, json_array_size(previous));
    assert_string_equal("question", text_of(json_array_get(previous, 0), "subject"));
    assert_int_equal(2, json_array_size(json_object_get(answer, "references")));

    json_t *request = message_to(ANN, ANN, "Re: question");
    json_object_set(request, "existing_email_id", json_object_get(answer, "id"));
    free(send_message(fixture, request));
    json_t *reply = newest_content(fixture, ann);
    assert_string_equal("<3@x.example>", text_of(reply, "in_reply_to_id"));
    assert_int_equal(2, json_array_size(json_object_get(reply, "previous_emails")));
    json_decref(reply);
    json_decref(answer);
    json_decref(question);
    free(ann);
}

static int count_step(void *context)
{
    ++*(uint64_t *)context;
    return 0;
}

/* Returns how much SQLite does to read the newest email with the emails of its thread before it. */
static uint64_t read_newest_email(const struct fixture *fixture, const char *inbox_id, size_t previous)
{
    json_t *newest = newest_content(fixture, inbox_id);
    json_t *content = NULL;
    uint64_t steps = 0;
    struct connection connection = {.db = open_database(fixture)};
    sqlite3_progress_handler(connection.db, 1, count_step, &steps);
    assert_int_equal(0, email_load_content(&connection, SIDE_RECEIVED, text_of(newest, "id"), &content));
    assert_int_equal(previous, json_array_size(json_object_get(content, "previous_emails")));
    connection_close(&connection);
    json_decref(content);
    json_decref(newest);
    return steps;
}

TEST_WITH(an_email_takes_no_longer_to_read_in_a_longer_thread, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    uint64_t steps[2];
    deliver(fixture, BOB, "Subject: first\nMessage-ID: <1@x>\n\nx\n");
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 0; n < 110; n++)
            deliver(fixture, BOB, "Subject: answer\nIn-Reply-To: <1@x>\n\nx\n");
        steps[i] = read_newest_email(fixture, bob, 100);
    }
    assert_in_range(steps[1], 1, steps[0] * 3 / 2);
    free(bob);
}

TEST_WITH(an_answer_finds_its_thread_by_any_spelling_of_a_message_id, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *question, *answer;
    } cases[] = {
        {"<q0@x>", "In-Reply-To: q0@x"},
        {"<q1@x>", "In-Reply-To: <unknown@x> <q1@x>"},
        {"<q2@x>", "In-Reply-To: Ann's of Friday <q2\n @x>"},
        {"<q3@x>", "In-Reply-To: =?utf-8?Q?=3Cq3?=\n =?utf-8?Q?=40x=3E?="},
        {"<q4@x>", "References: unknown@x q4@x"},
        {"<q5@x>", "References: <unknown@x> =?us-ascii?B?PHE1QHg+?="},
        {"q6@x", "In-Reply-To: <q6@x>"},
        {"=?utf-8?Q?=3Cq7=40x=3E?=", "In-Reply-To: <q7@x>"},
        {"<q8\n @x>", "In-Reply-To: <q8@x>"},
    };
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char raw[256];
        char id[16];
        snprintf(raw, sizeof(raw), "Subject: question\nMessage-ID: %s\n\nx\n", cases[i].question);
        deliver(fixture, BOB, raw);
        snprintf(raw, sizeof(raw), "Subject: answer\n%s\n\nx\n", cases[i].answer);
        deliver(fixture, BOB, raw);
        json_t *answer = newest_content(fixture, bob);
        const json_t *previous = json_array_get(json_object_get(answer, "previous_emails"), 0);
        snprintf(id, sizeof(id), "<q%zu@x>", i);
        assert_string_equal(id, text_of(previous, "message_id"));
        json_decref(answer);
    }
    free(bob);
}

TEST_WITH(mail_without_a_header_can_be_forwarded, fixture_set_up, fixture_tear_down)
{
    static const char *const raws[] = {"", "no header\n"};
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    for (size_t i = 0; i < 2; i++) {
        deliver(fixture, BOB, raws[i]);
        json_t *email = newest_email(fixture, bob, "");
        json_t *request = message_to(BOB, BOB, "forwarded");
        json_object_set(request, "existing_email_id", json_object_get(email, "id"));
        json_object_set_new(request, "message_type", json_string("forward"));
        free(send_message(fixture, request));
        json_t *content = newest_content(fixture, bob);
        assert_attachment(fixture, content, 0, "forwarded.eml", "message/rfc822", raws[i]);
        json_decref(content);
        json_decref(email);
    }
    free(bob);
}

TEST_WITH(an_inbox_gets_a_message_with_a_message_id_once, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    char *ann = create_inbox(fixture, ANN, NULL);
    static const char one[] = "Subject: one\nMessage-ID: <4@x.example>\n\nx\n";
    static const char other[] = "Subject: other\nMessage-ID: <4@x.example>\n\nx\n";
    static const char without[] = "Subject: without\n\nx\n";
    char target[256];
    snprintf(target, sizeof(target), "/api/v1/email?inbox_ids=%s", bob);
    json_t *before = get(fixture, target);
    deliver(fixture, BOB, one);
    deliver(fixture, BOB, one);
    deliver(fixture, ANN, one);
    deliver(fixture, BOB, other);
    deliver(fixture, BOB, without);
    deliver(fixture, BOB, without);
    json_t *after = get(fixture, target);
    assert_int_equal(json_array_size(before) + 4, json_array_size(after));
    json_t *to_ann = newest_email(fixture, ann, "");
    assert_string_equal("one", text_of(to_ann, "subject"));
    json_t *second = json_array_get(after, 2);
    snprintf(target, sizeof(target), "/api/v1/email/%s", text_of(second, "id"));
    json_t *content = get(fixture, target);
    assert_string_equal("other", text_of(content, "subject"));
    assert_string_equal("<4@x.example>", text_of(content, "message_id"));
    json_decref(content);
    json_decref(to_ann);
    json_decref(after);
    json_decref(before);
    free(ann);
    free(bob);
}

TEST_WITH(inbox_rules_apply_to_delivered_mail, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    char *bob = create_inbox(fixture, BOB,
                             json_pack("{s:{s:[], s:[s]}, s:b, s:b}", "blocked_from_addresses", "addresses",
                                       "domains", "spam.example", "allow_cc", 0, "allow_bcc", 0));
    static const struct {
        const char *header, *status;
    } cases[] = {
        {"From: x@spam.example\nTo: " BOB "\n", "blocked_from_address"},
        {"From: X <x@spam.example\nTo: " BOB "\n", "blocked_from_address"},
        {"From: X <x@spam.example> and more\nTo: " BOB "\n", "blocked_from_address"},
        {"From: X <x@spam.example (c)\nTo: " BOB "\n", "blocked_from_address"},
        {"From: <x@spam.example> <y@x.example\nTo: " BOB "\n", "blocked_from_address"},
        {"From: x@spam.example.\nTo: " BOB "\n", "blocked_from_address"},
        {"From: x@x.example\nFrom: x@spam.example\nTo: " BOB "\n", "blocked_from_address"},
        {"From: x@x.example, Y <y@spam.example>\nTo: " BOB "\n", "blocked_from_address"},
        {"From: x@x.example\nCc: " BOB "\n", "not_allowed_cc_address"},
        {"From: x@x.example\nTo: list@x.example\n", "not_allowed_bcc_address"},
        {"From: x@x.example\nCc: " BOB "\nTo: Bob <" BOB ">\n", "valid"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char raw[256];
        snprintf(raw, sizeof(raw), "%sSubject: x\n\nx\n", cases[i].header);
        deliver(fixture, BOB, raw);
        json_t *email = newest_email(fixture, bob, "&valid_only=false");
        assert_string_equal(cases[i].status, text_of(email, "status"));
        json_decref(email);
    }
    free(bob);
}

TEST_WITH(a_message_with_an_unknown_recipient_is_refused_for_all, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    static const char raw[] = "Subject: for two\n\nx\n";
    const char *recipients[] = {BOB, "nobody@inbox.localhost"};
    assert_int_equal(-ENOENT, deliver_to(fixture, NULL, recipients, 2, raw, strlen(raw)));
    const char *strange[] = {"", "bob", "\xff@inbox.localhost", "' OR 1=1 --"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(-ENOENT, deliver_to(fixture, NULL, &strange[i], 1, raw, strlen(raw)));
    json_t *email = newest_email(fixture, bob, "");
    assert_string_not_equal("for two", text_of(email, "subject"));
    json_decref(email);
    free(bob);
}

static char *repeat(const char *text, size_t count, const char *before, size_t *ret_len)
{
    size_t len = strlen(text), head = strlen(before);
    char *result = malloc(head + len * count + 1);
    memcpy(result, before, head + 1);
    for (size_t i = 0; i < count; i++)
        memcpy(result + head + i * len, text, len + 1);
    *ret_len = head + len * count;
    return result;
}

TEST_WITH(a_large_message_keeps_its_bytes_and_has_bounded_values, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *before, *text;
        size_t count;
    } cases[] = {
        {"Subject: ", "long ", 200000},
        {"Subject: x\nTo: ", "a@x.example, ", 100000},
        {"Subject: x\nTo: bad@@x, ", "a@x.example, ", 100000},
        {"Subject: x\nReferences: ", "<a@x>", 100000},
        {"Content-Type: multipart/mixed; boundary=b\n\n", "--b\n\nx\n", 100000},
        {"", "Content-Type: multipart/mixed; boundary=b\n\n--b\n", 1000},
        {"Subject: x\n\n", "0123456789abcdef0123456789abcdef", 1000000},
    };
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    const char *recipient = BOB;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len = 0;
        char *raw = repeat(cases[i].text, cases[i].count, cases[i].before, &len);
        assert_int_equal(0, deliver_to(fixture, NULL, &recipient, 1, raw, len));
        json_t *content = newest_content(fixture, bob);
        assert_raw(fixture, content, raw, len);
        assert_true(strlen(text_of(content, "subject")) <= 8192);
        assert_true(strlen(text_of(content, "plain_text")) <= 8000000);
        assert_true(json_array_size(json_object_get(content, "to_addresses")) <= 1000);
        assert_true(json_array_size(json_object_get(content, "references")) <= 50);
        assert_true(json_array_size(json_object_get(content, "attachments")) <= 1000);
        json_decref(content);
        free(raw);
    }
    free(bob);
}

/* Appends the longest possible address and name, of characters that take the most bytes in JSON. */
static void append_largest_address(struct strbuf *out)
{
    enum {
        NAME_MARKS = 127,
        ADDRESS_QUOTES = 125
    };
    strbuf_append_str(out, "\"");
    for (int i = 0; i < NAME_MARKS; i++)
        strbuf_append_str(out, "\u061C");
    strbuf_append_str(out, "\\\"\" <\"");
    for (int i = 0; i < ADDRESS_QUOTES; i++)
        strbuf_append_str(out, "\\\"");
    strbuf_append_str(out, "\"@x>");
}

static void append_largest_field(struct strbuf *out, const char *name)
{
    enum {
        ADDRESSES = 1000
    };
    strbuf_appendf(out, "%s: ", name);
    for (int i = 0; i < ADDRESSES; i++) {
        strbuf_append_str(out, i > 0 ? ",\n " : "");
        append_largest_address(out);
    }
    strbuf_append_char(out, '\n');
}

/* Reads the record with the limits of inboxfs. */
static void assert_record_can_be_listed(const json_t *record)
{
    char *text = json_dumps(record, JSON_COMPACT);
    struct email_record read = {0};
    int error = email_record_from_text(text, strlen(text), &read);
    if (error != 0)
        fail_msg("a record of %zu bytes: %s", strlen(text), strerror(-error));
    email_record_release(&read);
    free(text);
}

TEST_WITH(inboxfs_can_read_a_record_with_the_longest_addresses, fixture_set_up, fixture_tear_down)
{
    enum {
        SUBJECT_MARKS = 5000,
        TIMES = 3
    };
    static const char *const fields[] = {"To", "Cc", "Reply-To"};
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    _cleanup_strbuf_ struct strbuf raw = STRBUF_INIT(50 * 1000 * 1000);
    for (size_t i = 0; i < TIMES * ARRAY_LEN(fields); i++)
        append_largest_field(&raw, fields[i % ARRAY_LEN(fields)]);
    const char *const lines[] = {"Subject: ", "\nFrom: "};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        strbuf_append_str(&raw, lines[i]);
        for (int mark = 0; mark < SUBJECT_MARKS; mark++)
            strbuf_append_str(&raw, "\u061C");
    }
    strbuf_append_str(&raw, "\n\nx\n");
    assert_int_equal(0, raw.error);
    deliver(fixture, BOB, raw.data);
    json_t *record = newest_email(fixture, bob, "");
    assert_record_can_be_listed(record);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        static const char *const members[] = {"to_addresses", "cc_addresses", "reply_to_addresses"};
        const json_t *list = json_object_get(record, members[i]);
        assert_int_equal(1000, json_array_size(list));
        assert_int_equal(254, strlen(text_of(json_array_get(list, 999), "address")));
        assert_int_equal(255, strlen(text_of(json_array_get(list, 999), "name")));
    }
    json_decref(record);
    free(bob);
}

#define CONTROLS "\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001\001"
#define QUOTES "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\""

static void append_many(struct strbuf *out, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        strbuf_append_str(out, text);
}

/* Writes a reply to the message before `number`, each part as long as possible, and of bytes that JSON writes
 * as two or six bytes. */
static void write_largest_message(struct strbuf *out, int number)
{
    enum {
        BODY_BYTES = 8 * 1000 * 1000,
        FILES = 1000
    };
    strbuf_appendf(out, "From: c@x.example\nMessage-ID: <%d@x>\nIn-Reply-To: <%d@x>\n", number, number - 1);
    append_largest_field(out, "To");
    append_largest_field(out, "Cc");
    append_largest_field(out, "Reply-To");
    strbuf_append_str(out, "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n");
    append_many(out, CONTROLS, BODY_BYTES / strlen(CONTROLS));
    strbuf_append_str(out, "\n--b\nContent-Type: text/html\n\n");
    append_many(out, QUOTES, BODY_BYTES / strlen(QUOTES));
    for (int i = 0; i < FILES; i++) {
        strbuf_append_str(out, "\n--b\nContent-Disposition: attachment; filename=\"");
        append_many(out, "\\\"", 255);
        strbuf_append_str(out, "\"\n\n");
    }
    strbuf_append_str(out, "\n--b--\n");
}

/* Reads the content with the limits of inboxfs. */
static struct content_folder read_largest_content(const struct fixture *fixture, const json_t *email)
{
    char target[256];
    struct http_answer answer;
    snprintf(target, sizeof(target), "/api/v1/email/%s", text_of(email, "id"));
    http_client_request(&fixture->client, "GET", target, "", NULL, 0, &answer);
    assert_int_equal(200, answer.status);
    struct content_folder content = {0};
    int error = content_folder_read(answer.body, answer.body_len, &content);
    if (error != 0)
        fail_msg("a content of %zu bytes: %s", answer.body_len, strerror(-error));
    http_answer_release(&answer);
    return content;
}

TEST_WITH(inboxfs_can_read_a_content_with_the_longest_texts, fixture_set_up, fixture_tear_down)
{
    enum {
        MESSAGES = 2
    };
    const struct fixture *fixture = *state;
    char *bob = create_inbox(fixture, BOB, NULL);
    for (int number = 1; number <= MESSAGES; number++) {
        _cleanup_strbuf_ struct strbuf raw = STRBUF_INIT(50 * 1000 * 1000);
        write_largest_message(&raw, number);
        assert_int_equal(0, raw.error);
        deliver(fixture, BOB, raw.data);
    }
    json_t *email = newest_email(fixture, bob, "");
    struct content_folder content = read_largest_content(fixture, email);
    size_t earlier = 0;
    for (size_t i = 0; i < content.len; i++)
        earlier += content.entries[i].kind == CONTENT_PREVIOUS;
    assert_int_equal(1, earlier);
    assert_string_equal("2@x", content.message_id);
    content_folder_release(&content);
    json_decref(email);
    free(bob);
}

static unsigned int conversions;

size_t iconv(iconv_t charset, char **text, size_t *len, char **ret_text, size_t *ret_len)
{
    static size_t (*really_convert)(iconv_t, char **, size_t *, char **, size_t *);
    if (really_convert == NULL)
        *(void **)&really_convert = dlsym(RTLD_NEXT, "iconv");
    conversions++;
    return really_convert(charset, text, len, ret_text, ret_len);
}

TEST(a_long_header_is_decoded_up_to_its_limit)
{
    static const char *const fields[] = {"Subject: ", "Content-Type: application/x; name="};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        _cleanup_strbuf_ struct strbuf raw = STRBUF_INIT(4 * 1000 * 1000);
        strbuf_append_str(&raw, fields[i]);
        while (raw.len < 2 * 1000 * 1000)
            strbuf_append_str(&raw, "=?koi8-r?q?a?= =?big5?q?a?= ");
        strbuf_append_str(&raw, "\n\nText\n");
        struct message message = {0};
        conversions = 0;
        message_read(raw.data, raw.len, &message);
        if (conversions == 0 || conversions > 20 * 1000)
            fail_msg("%s: %u conversions", fields[i], conversions);
        message_release(&message);
    }
}

/* Sends a GET request, and reads only the status of the answer. */
static int read_status(const struct fixture *fixture, const char *target, int *ret_status)
{
    char status[13] = "";
    char request[1000];
    int fd = http_client_connect(&fixture->client);
    int len = snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", target,
                       fixture->key);
    assert_int_equal(len, write(fd, request, (size_t)len));
    assert_int_equal(12, recv(fd, status, 12, MSG_WAITALL));
    *ret_status = atoi(status + strlen("HTTP/1.1 "));
    return fd;
}

TEST_WITH(large_replies_to_slow_clients_are_bounded, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    size_t len = DELIVERY_MAX_BYTES;
    char *raw = malloc(len);
    const char *const recipient = ANN;
    free(create_inbox(fixture, ANN, NULL));
    memset(raw, 'a', len);
    memcpy(raw, "Content-Type: a/b\n\n", 19);
    assert_int_equal(0, deliver_to(fixture, ANN, &recipient, 1, raw, len));
    free(raw);
    char target[100];
    json_t *list = get(fixture, "/api/v1/email");
    snprintf(target, sizeof(target), "/api/v1/email/%s/raw", text_of(json_array_get(list, 0), "id"));
    json_decref(list);

    int clients[6];
    int status;
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        clients[i] = read_status(fixture, target, &status);
        assert_int_equal(200, status);
    }
    close(read_status(fixture, target, &status));
    assert_int_equal(503, status);
    json_decref(get(fixture, "/api/v1/email"));
    close(clients[0]);
    /* The service may not have noticed yet that connections were closed. */
    do
        close(read_status(fixture, target, &status));
    while (status == 503);
    assert_int_equal(200, status);
    for (size_t i = 1; i < ARRAY_LEN(clients); i++)
        close(clients[i]);
}
