/* SPDX-License-Identifier: MIT */
/*
 * Drafts, from the messages in tests/data: NAME.expected has the result of each valid NAME.eml or NAME.json,
 * and the error and the reason of each invalid one.
 */
#include "mail/draft.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "mail/json_writer.h"
#include "support/test.h"

#define VALID "tests/data/valid/messages"
#define INVALID "tests/data/invalid/messages"

static void read_data(const char *folder, const char *name, char **ret_bytes, size_t *ret_len)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (file_read_at(AT_FDCWD, path, DRAFT_MAX_BYTES, ret_bytes, ret_len) != 0)
        fail_msg("cannot read %s", path);
}

static json_t *read_expected(const char *folder, const char *name)
{
    char path[512];
    int stem_len = (int)(strrchr(name, '.') - name);
    snprintf(path, sizeof(path), "%s/%.*s.expected", folder, stem_len, name);
    json_error_t problem;
    json_t *expected = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (expected == NULL)
        fail_msg("%s: %s", path, problem.text);
    return expected;
}

/* Describes a draft in the form of an .expected file. */
static json_t *describe(const struct draft *draft)
{
    json_t *names = json_array();
    json_t *parts = json_array();
    for (size_t i = 0; i < draft->attachment_names_len; i++)
        json_array_append_new(names, json_string(draft->attachment_names[i]));
    for (size_t i = 0; i < draft->parts_len; i++) {
        const struct draft_part *part = &draft->parts[i];
        json_array_append_new(parts, json_pack("{s:s, s:s, s:s%}", "name", part->name, "content_type",
                                               part->content_type, "text", part->bytes, part->len));
    }
    return json_pack("{s:s?, s:o, s:o, s:o}", "from", draft->from, "request",
                     json_loads(draft->request, 0, NULL), "attachment_names", names, "parts", parts);
}

static void check_valid_message(const char *name)
{
    _cleanup_free_ char *bytes = NULL;
    _cleanup_free_ char *reason = NULL;
    size_t len;
    struct draft *draft;
    read_data(VALID, name, &bytes, &len);
    _cleanup_json_ json_t *expected = read_expected(VALID, name);

    int error = draft_parse(bytes, len, NULL, &draft, &reason);
    if (error != 0)
        fail_msg("%s: %d %s", name, error, reason);
    _cleanup_json_ json_t *found = describe(draft);
    draft_free(draft);
    if (!json_equal(found, expected)) {
        _cleanup_free_ char *text = json_dumps(found, JSON_INDENT(2));
        fail_msg("%s came to %s", name, text);
    }
}

static void check_invalid_message(const char *name)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = {
        {"EBADMSG", -EBADMSG},
        {"EDESTADDRREQ", -EDESTADDRREQ},
        {"EMSGSIZE", -EMSGSIZE},
    };
    _cleanup_free_ char *bytes = NULL;
    _cleanup_free_ char *reason = NULL;
    size_t len;
    struct draft *draft;
    read_data(INVALID, name, &bytes, &len);
    _cleanup_json_ json_t *expected = read_expected(INVALID, name);
    const char *expected_error = json_string_value(json_object_get(expected, "error"));
    const char *expected_reason = json_string_value(json_object_get(expected, "reason"));

    int error = draft_parse(bytes, len, NULL, &draft, &reason);
    if (error == 0)
        fail_msg("%s was accepted", name);
    for (size_t i = 0; i < ARRAY_LEN(errors); i++)
        if (error == errors[i].error && strcmp(expected_error, errors[i].name) == 0 &&
            strcmp(reason, expected_reason) == 0)
            return;
    fail_msg("%s: %d %s", name, error, reason);
}

static void check_folder(const char *folder, void (*check)(const char *name), unsigned int at_least)
{
    unsigned int checked = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (entry->d_name[0] == '.' || strcmp(dot, ".expected") == 0)
            continue;
        check(entry->d_name);
        checked++;
    }
    closedir(directory);
    assert_true(checked >= at_least);
}

TEST(valid_messages_give_the_expected_drafts)
{
    check_folder(VALID, check_valid_message, 25);
}

TEST(invalid_messages_are_refused_with_a_reason)
{
    check_folder(INVALID, check_invalid_message, 40);
}

static struct draft *parse_text(const char *text)
{
    struct draft *draft;
    _cleanup_free_ char *reason = NULL;
    if (draft_parse(text, strlen(text), NULL, &draft, &reason) != 0)
        fail_msg("%s: %s", text, reason);
    return draft;
}

TEST(a_completed_request_has_its_fields_in_a_fixed_order)
{
    static const char *const ids[] = {"p2", "p3"};
    static const struct {
        const char *message;
        size_t ids_len;
        const char *request;
    } cases[] = {
        {"To: a@b\nSubject: s\n\nx", 0,
         "{\"from_address\":\"me@x\",\"to_addresses\":[{\"address\":\"a@b\",\"name\":null}],\"subject\":"
         "\"s\","
         "\"plain_text\":\"x\"}"},
        {"To: a@b\nSubject: s\n\nx", 2,
         "{\"from_address\":\"me@x\",\"to_addresses\":[{\"address\":\"a@b\",\"name\":null}],\"subject\":"
         "\"s\","
         "\"plain_text\":\"x\",\"attachment_ids\":[\"p2\",\"p3\"]}"},
        {"{\"attachment_ids\":[\"p1\"],\"html\":\"<b>\",\"bcc_addresses\":\"B <b@c>\",\"plain_text\":\"x\","
         "\"message_type\":\"reply\",\"existing_email_id\":\"e\",\"reply_to_addresses\":[\"r@s\"],"
         "\"cc_addresses\":[\"c@d\"]}",
         2,
         "{\"from_address\":\"me@x\",\"to_addresses\":[],\"cc_addresses\":[{\"address\":\"c@d\",\"name\":"
         "null}],"
         "\"bcc_addresses\":[{\"address\":\"b@c\",\"name\":\"B\"}],"
         "\"reply_to_addresses\":[{\"address\":\"r@s\",\"name\":null}],\"plain_text\":\"x\",\"html\":\"<b>\","
         "\"alternative_content\":false,\"existing_email_id\":\"e\",\"message_type\":\"reply\","
         "\"attachment_ids\":[\"p1\",\"p2\",\"p3\"]}"},
        {"{\"attachment_ids\":[\"p1\"],\"to_addresses\":\"a@b\",\"subject\":\"\\\"\\u202e\"}", 0,
         "{\"from_address\":\"me@x\",\"to_addresses\":[{\"address\":\"a@b\",\"name\":null}],"
         "\"subject\":\"\\\"\\u202e\",\"plain_text\":\"\",\"attachment_ids\":[\"p1\"]}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *request = NULL;
        struct draft *draft = parse_text(cases[i].message);
        assert_int_equal(draft_complete_request(draft, "me@x", NULL, ids, cases[i].ids_len, &request), 0);
        assert_string_equal(request, cases[i].request);
        draft_free(draft);
    }
}

TEST(a_reason_has_no_character_that_a_terminal_obeys)
{
    static const char message[] = "{\"\x7f\xc2\x9b"
                                  "1m \u202etxt \u2028 \u200f \u061c\": 1}";
    struct draft *draft;
    _cleanup_free_ char *reason = NULL;
    assert_int_equal(draft_parse(message, strlen(message), NULL, &draft, &reason), -EBADMSG);
    assert_string_equal(reason, "unknown field \"   1m    txt           \"");
}

TEST(the_refusal_of_an_unknown_field_names_the_field_that_is_meant)
{
    static const struct {
        const char *message;
        const char *reason;
    } cases[] = {
        {"{\"to\": \"a@b\"}", "unknown field \"to\": it is called \"to_addresses\" here"},
        {"{\"to_addresses\": [\"a@b\"], \"body\": \"x\"}",
         "unknown field \"body\": it is called \"plain_text\" here"},
        {"{\"from\": \"a@b\"}", "unknown field \"from\": it is called \"from_address\" here"},
        {"{\"Subject\": \"s\"}", "unknown field \"Subject\": it is called \"subject\" here"},
        {"{\"Reply-To\": \"a@b\"}", "unknown field \"Reply-To\": it is called \"reply_to_addresses\" here"},
        {"{\"plainText\": \"x\"}", "unknown field \"plainText\": it is called \"plain_text\" here"},
        {"{\"priority\": 1}", "unknown field \"priority\""},
        {"{\"to_addresses\": [{\"email\": \"a@b\"}]}",
         "to_addresses[0]: unknown field \"email\": it is called \"address\" here"},
        {" [{\"to_addresses\": \"a@b\"}]",
         "a JSON list: a message is one object, and each has a file of its own"},
        {"[\"a@b\"]", "a JSON list: a message is one object, and each has a file of its own"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct draft *draft;
        _cleanup_free_ char *reason = NULL;
        assert_int_equal(draft_parse(cases[i].message, strlen(cases[i].message), NULL, &draft, &reason),
                         -EBADMSG);
        assert_string_equal(reason, cases[i].reason);
    }
}

/* ---- the answered email */

/* Checks the Message-IDs of a draft with these headers. `expected` has each id with a blank after it. */
static void assert_message_ids(const char *headers, const char *expected)
{
    _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(1 << 20);
    _cleanup_strbuf_ struct strbuf all = STRBUF_INIT(1 << 20);
    strbuf_appendf(&message, "To: a@b\n%s\nx\n", headers);
    struct draft *draft = parse_text(strbuf_str(&message));
    for (size_t i = 0; i < draft->message_ids_len; i++)
        strbuf_appendf(&all, "%s ", draft->message_ids[i]);
    assert_string_equal(strbuf_str(&all), expected);
    draft_free(draft);
}

TEST(message_ids_begin_with_in_reply_to_and_the_last_reference)
{
    assert_message_ids("", "");
    assert_message_ids("In-Reply-To: <r@x>\n", "r@x ");
    assert_message_ids("in-reply-to: <r@x>\nreferences: <1@x>\n <2@x>\n", "r@x 2@x 1@x ");
    assert_message_ids("References: <1@x> <2@x>\nIn-Reply-To: Ann's of Monday <r@x>\n", "r@x 2@x 1@x ");
    assert_message_ids("References: <1@x>\nReferences: <2@x>\n", "2@x 1@x ");
    assert_message_ids("In-Reply-To: r@x\nReferences: =?utf-8?Q?=3C1=40x=3E?= <2\n @x>\n", "r@x 2@x 1@x ");
    assert_message_ids("In-Reply-To: <r@x> <s@x>\n", "r@x s@x ");
    assert_message_ids("In-Reply-To: nothing\nReferences: \n", "");
    assert_message_ids("X-In-Reply-To: <r@x>\nMessage-ID: <m@x>\n", "");
}

TEST(message_ids_keep_the_last_references_of_a_long_thread)
{
    _cleanup_strbuf_ struct strbuf headers = STRBUF_INIT(1 << 20);
    _cleanup_strbuf_ struct strbuf expected = STRBUF_INIT(1 << 20);
    strbuf_append_str(&headers, "In-Reply-To:");
    for (int i = 0; i < 1000; i++)
        strbuf_appendf(&headers, " <r%d@x>\n", i);
    strbuf_append_str(&headers, "References:");
    for (int i = 0; i < 1000; i++)
        strbuf_appendf(&headers, " <%d@x>\n", i);
    for (int i = 0; i < DRAFT_MESSAGE_IDS_MAX; i++)
        strbuf_appendf(&expected, "r%d@x ", i);
    for (int i = 0; i < DRAFT_MESSAGE_IDS_MAX; i++)
        strbuf_appendf(&expected, "%d@x ", 999 - i);
    assert_message_ids(strbuf_str(&headers), strbuf_str(&expected));
}

TEST(an_answer_replies_to_the_answered_email_whatever_its_headers_name)
{
    static const char answered[] = "{\"existing_email_id\":\"e1\",\"message_type\":\"reply\"}";
    static const char message[] = "To: a@b\nIn-Reply-To: <r@x>\n\nx\n";
    struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    _cleanup_free_ char *request = NULL;
    assert_int_equal(draft_parse(message, strlen(message), answered, &draft, &reason), 0);
    assert_int_equal(draft->message_ids_len, 0);
    assert_int_equal(draft_complete_request(draft, "me@x", "e2", NULL, 0, &request), 0);
    assert_non_null(strstr(request, "\"existing_email_id\":\"e1\",\"message_type\":\"reply\""));
    assert_null(strstr(request, "e2"));
    draft_free(draft);
}

/* Checks the recipients of the answer `message` to an email. By default the answer goes to to@x, Cc cc@x. */
static void assert_answer_goes_to(const char *message, const char *to, const char *cc)
{
    static const char answered[] =
        "{\"to_addresses\":[{\"address\":\"to@x\"}],\"cc_addresses\":[{\"address\":\"cc@x\"}],"
        "\"existing_email_id\":\"e1\",\"message_type\":\"reply\"}";
    struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    _cleanup_free_ char *found_to = NULL;
    _cleanup_free_ char *found_cc = NULL;
    if (draft_parse(message, strlen(message), answered, &draft, &reason) != 0)
        fail_msg("%s: %s", message, reason);
    _cleanup_json_ json_t *request = json_loads(draft->request, 0, NULL);
    draft_free(draft);
    found_to = json_dumps(json_object_get(request, "to_addresses"), JSON_COMPACT);
    found_cc = json_dumps(json_object_get(request, "cc_addresses"), JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(found_to, to);
    assert_string_equal(found_cc == NULL ? "" : found_cc, cc);
}

/* An empty "Cc:" replaces the default Cc: the user who emptied the line wants no Cc. */
TEST(an_empty_recipient_header_replaces_the_default_recipients)
{
    static const char to[] = "[{\"address\":\"to@x\",\"name\":null}]";
    static const char cc[] = "[{\"address\":\"cc@x\",\"name\":null}]";
    static const char nobody[] = "To: \n\nx";
    struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    assert_answer_goes_to("x", to, cc);
    assert_answer_goes_to("Cc:\n\nx", to, "");
    assert_answer_goes_to("Cc: undisclosed-recipients:;\n\nx", to, "");
    assert_answer_goes_to("To: undisclosed-recipients:;\nBcc: b@x\n\nx", "[]", cc);
    assert_answer_goes_to("{\"cc_addresses\":[],\"plain_text\":\"x\"}", to, "");
    assert_answer_goes_to("{\"cc_addresses\":null,\"plain_text\":\"x\"}", to, cc);
    assert_int_equal(
        draft_parse(nobody, strlen(nobody), "{\"to_addresses\":[{\"address\":\"to@x\"}]}", &draft, &reason),
        -EDESTADDRREQ);
}

TEST(a_request_names_the_email_only_if_it_is_a_reply)
{
    _cleanup_free_ char *reply = NULL;
    _cleanup_free_ char *new_thread = NULL;
    struct draft *draft = parse_text("To: a@b\nSubject: s\nIn-Reply-To: <r@x>\n\nx");
    assert_int_equal(draft_complete_request(draft, "me@x", "e2", NULL, 0, &reply), 0);
    assert_non_null(strstr(reply, "\"subject\":\"s\",\"plain_text\":\"x\",\"existing_email_id\":\"e2\","
                                  "\"message_type\":\"reply\"}"));
    assert_int_equal(draft_complete_request(draft, "me@x", NULL, NULL, 0, &new_thread), 0);
    assert_null(strstr(new_thread, "message_type"));
    draft_free(draft);
}

/* ---- bounds */

static void assert_refused(const struct strbuf *message, int expected)
{
    struct draft *draft;
    _cleanup_free_ char *reason = NULL;
    assert_int_equal(message->error, 0);
    assert_int_equal(draft_parse(strbuf_str(message), message->len, NULL, &draft, &reason), expected);
    assert_non_null(reason);
}

static void append_many(struct strbuf *message, const char *text, size_t times)
{
    for (size_t i = 0; i < times; i++)
        strbuf_append_str(message, text);
}

TEST(a_message_that_is_too_large_is_refused)
{
    _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES + 1000);
    append_many(&message, "To: a@b\n\n", 1);
    append_many(&message, "0123456789abcdef", DRAFT_BODY_MAX_BYTES / 16);
    struct draft *draft = parse_text(strbuf_str(&message));
    draft_free(draft);
    append_many(&message, "x", 1);
    assert_refused(&message, -EMSGSIZE);
    append_many(&message, "0123456789abcdef", (DRAFT_MAX_BYTES - DRAFT_BODY_MAX_BYTES) / 16);
    assert_refused(&message, -EMSGSIZE);

    strbuf_clear(&message);
    append_many(&message, "To: a@b\nContent-Type: text/html\n\n", 1);
    append_many(&message, "0123456789abcdef", DRAFT_BODY_MAX_BYTES / 16);
    draft = parse_text(strbuf_str(&message));
    draft_free(draft);
    append_many(&message, "x", 1);
    assert_refused(&message, -EMSGSIZE);

    strbuf_clear(&message);
    append_many(&message, "To: a@b\nContent-Type: application/x\n\n", 1);
    append_many(&message, "0123456789", ATTACHMENTS_MAX_BYTES / 10);
    draft = parse_text(strbuf_str(&message));
    assert_int_equal(draft->parts[0].len, ATTACHMENTS_MAX_BYTES);
    draft_free(draft);
    append_many(&message, "x", 1);
    assert_refused(&message, -EMSGSIZE);

    strbuf_clear(&message);
    append_many(&message, "Subject: a\nX-Filler: ", 1);
    append_many(&message, "0123456789", 1000 * 1000 / 10);
    append_many(&message, "\nTo: a@b\n\nx", 1);
    assert_refused(&message, -EMSGSIZE);
}

TEST(an_overlong_type_becomes_octet_stream)
{
    _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES);
    append_many(&message, "To: a@b\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: x/", 1);
    append_many(&message, "0123456789", 50 * 1000);
    append_many(&message, "\n\nx\n--B--\n", 1);
    struct draft *draft = parse_text(strbuf_str(&message));
    assert_string_equal(draft->parts[0].content_type, "application/octet-stream");
    draft_free(draft);
}

/* Parses headers, after adding the blank line that ends them. */
static void assert_parsed(struct strbuf *headers, int expected)
{
    strbuf_append_str(headers, "\n");
    if (expected == 0)
        draft_free(parse_text(strbuf_str(headers)));
    else
        assert_refused(headers, expected);
}

TEST(a_header_name_over_998_bytes_is_refused)
{
    static const struct {
        size_t name_len;
        int expected;
    } cases[] = {{998, 0}, {999, -EBADMSG}, {5000, -EBADMSG}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES);
        append_many(&message, "To: a@b\n", 1);
        append_many(&message, "x", cases[i].name_len);
        append_many(&message, ": y\n", 1);
        assert_parsed(&message, cases[i].expected);
    }
}

TEST(too_many_recipients_or_attachments_are_refused)
{
    _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES);
    for (size_t extra = 0; extra <= 1; extra++) {
        strbuf_clear(&message);
        append_many(&message, "To: a@b\n", DRAFT_RECIPIENTS_MAX);
        append_many(&message, "Reply-To: a@b\n", extra);
        assert_parsed(&message, extra == 0 ? 0 : -EMSGSIZE);
        strbuf_clear(&message);
        append_many(&message, "To: a@b\n", 1);
        append_many(&message, "Attach: x\n", ATTACHMENTS_MAX + extra);
        assert_parsed(&message, extra == 0 ? 0 : -EMSGSIZE);
    }

    strbuf_clear(&message);
    append_many(&message, "To: a@b\nContent-Type: multipart/mixed; boundary=B\n\n", 1);
    append_many(&message, "--B\nContent-Type: x/y\n\nx\n", ATTACHMENTS_MAX + 1);
    append_many(&message, "--B--\n", 1);
    assert_refused(&message, -EMSGSIZE);
}

/* Reading such a message to its end would take ten times its size in memory. */
TEST(a_flood_of_recipients_is_refused)
{
    static const struct {
        const char *before;
        const char *one;
        const char *after;
        const char *words;
    } cases[] = {
        {"{\"to_addresses\":[\"a@b\"", ",\"a@b\"", "]", "values"},
        {"{\"x\":{\"\\\\\":1", ",\"\\\"\":1", "", "values"},
        {"{\"to_addresses\":\"a@b", ",?@b", "\"}", "recipients"},
        {"To: a@b", ",?@b", "\n\n", "recipients"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES);
        strbuf_append_str(&message, cases[i].before);
        append_many(&message, cases[i].one, 100 * 1000);
        strbuf_append_str(&message, cases[i].after);
        struct draft *draft = NULL;
        _cleanup_free_ char *reason = NULL;
        assert_int_equal(draft_parse(message.data, message.len, NULL, &draft, &reason), -EMSGSIZE);
        assert_non_null(strstr(reason, cases[i].words));
    }

    _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES);
    append_many(&message, "{\"to_addresses\":[\"a@b\"", 1);
    append_many(&message, ",\"a@b\"", DRAFT_RECIPIENTS_MAX - 1);
    append_many(&message, "],\"subject\":\"", 1);
    append_many(&message, ",\\\",", 100 * 1000);
    append_many(&message, "\"}", 1);
    draft_free(parse_text(strbuf_str(&message)));
}

TEST(a_flood_of_empty_parts_is_refused)
{
    _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES);
    append_many(&message, "To: a@b\nContent-Type: multipart/mixed; boundary=B\n\n", 1);
    append_many(&message, "--B\n\n", 3 * 1000 * 1000);
    append_many(&message, "--B--\n", 1);
    assert_refused(&message, -EMSGSIZE);
}

/* If the boundary's length was computed for each line, this would take minutes. */
TEST(a_message_with_a_long_boundary_is_read_in_linear_time)
{
    _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES);
    append_many(&message, "To: a@b\nContent-Type: multipart/mixed; boundary=", 1);
    append_many(&message, "0123456789", 90 * 1000);
    append_many(&message, "\n\n", 1);
    append_many(&message, "\n", 10 * 1000 * 1000);
    assert_refused(&message, -EBADMSG);
}

TEST(multiparts_nested_more_than_32_deep_are_refused)
{
    static const unsigned int depths[] = {33, 100, 1000, 1100, 5000};
    for (size_t i = 0; i < ARRAY_LEN(depths); i++) {
        _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES);
        strbuf_append_str(&message, "To: a@b\n");
        for (unsigned int depth = 0; depth < depths[i]; depth++)
            strbuf_appendf(&message, "Content-Type: multipart/mixed; boundary=B%u\n\n--B%u\n", depth, depth);
        strbuf_append_str(&message, "\nx\n");
        for (unsigned int depth = depths[i]; depth-- > 0;)
            strbuf_appendf(&message, "--B%u--\n", depth);
        assert_refused(&message, -EBADMSG);
    }
}

TEST(a_message_nested_deep_in_messages_is_attached_or_refused)
{
    static const unsigned int depths[] = {10, 1000, 20000};
    for (size_t i = 0; i < ARRAY_LEN(depths); i++) {
        _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(DRAFT_MAX_BYTES);
        _cleanup_free_ char *reason = NULL;
        struct draft *draft = NULL;
        strbuf_append_str(&message, "To: a@b\n");
        append_many(&message, "Content-Type: message/rfc822\n\n", depths[i]);
        strbuf_append_str(&message, "Subject: innermost\n\ntext\n");
        int error = draft_parse(strbuf_str(&message), message.len, NULL, &draft, &reason);
        assert_true(error == -EBADMSG || (error == 0 && strstr(draft->parts[0].bytes, "innermost") != NULL));
        draft_free(draft);
    }
}

/* ---- messages that end too soon */

TEST(a_cut_json_message_is_refused)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_data(VALID, "json-all-fields.json", &bytes, &len);
    while (len > 0 && bytes[len - 1] != '}')
        len--;
    for (size_t cut = 0; cut < len; cut++) {
        struct draft *draft;
        _cleanup_free_ char *reason = NULL;
        assert_int_equal(draft_parse(bytes, cut, NULL, &draft, &reason), -EBADMSG);
    }
}

TEST(a_message_cut_in_its_headers_is_refused)
{
    static const char *const messages[] = {
        "To: bob@x.example, carol@x.example\nSubject: s\n\nText.\n",
        "Subject: s\r\nTo: bob@x.example,\r\n carol@x.example\r\n\r\nText.\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(messages); i++) {
        const char *text = strstr(messages[i], "Text.");
        for (size_t cut = 0; messages[i] + cut <= text; cut++) {
            struct draft *draft;
            _cleanup_free_ char *reason = NULL;
            int error = draft_parse(messages[i], cut, NULL, &draft, &reason);
            assert_int_equal(error, messages[i] + cut == text ? 0 : -EBADMSG);
            if (error == 0)
                draft_free(draft);
        }
    }
}

TEST(a_cut_multipart_message_is_refused)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    unsigned int accepted = 0;
    read_data(VALID, "mime-everything.eml", &bytes, &len);
    const char *body = strstr(bytes, "\n\n");
    size_t last = (size_t)(strstr(bytes, "--outer--") - bytes);
    for (size_t cut = (size_t)(body - bytes) + 2; cut <= len; cut++) {
        struct draft *draft;
        _cleanup_free_ char *reason = NULL;
        int error = draft_parse(bytes, cut, NULL, &draft, &reason);
        assert_true(error == -EBADMSG || (error == 0 && cut >= last + strlen("--outer--")));
        if (error == 0)
            draft_free(draft);
        accepted += error == 0;
    }
    assert_true(accepted > 0);
}

/* Cuts the message at each byte (a long one at some 500), and changes the byte there: checks that each error
 * has a reason. */
static void parse_damaged(const char *folder, const char *name)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_data(folder, name, &bytes, &len);
    size_t step = len < 2000 ? 1 : len / 500;
    for (size_t i = 0; i < len; i += step) {
        struct draft *draft = NULL;
        _cleanup_free_ char *reason_cut = NULL;
        _cleanup_free_ char *reason_changed = NULL;
        _cleanup_free_ char *copy =
            malloc(i + 1); /* of exact length, so that a sanitizer sees reads beyond the end */
        assert_non_null(copy);
        memcpy(copy, bytes, i);
        int error = draft_parse(copy, i, NULL, &draft, &reason_cut);
        assert_true((error != 0) == (reason_cut != NULL));
        draft_free(error == 0 ? draft : NULL);

        char before = bytes[i];
        bytes[i] = (char)(before ^ (1 << i % 8));
        error = draft_parse(bytes, len, NULL, &draft, &reason_changed);
        assert_true((error != 0) == (reason_changed != NULL));
        draft_free(error == 0 ? draft : NULL);
        bytes[i] = before;
    }
}

static void parse_damaged_valid(const char *name)
{
    parse_damaged(VALID, name);
}

static void parse_damaged_invalid(const char *name)
{
    parse_damaged(INVALID, name);
}

TEST(a_damaged_message_is_read_or_refused_with_a_reason)
{
    check_folder(VALID, parse_damaged_valid, 25);
    check_folder(INVALID, parse_damaged_invalid, 40);
}

struct parsing {
    const char *bytes;
    size_t len;
    unsigned int failed;
};

static void *parse_many(void *argument)
{
    struct parsing *parsing = argument;
    for (int i = 0; i < 100; i++) {
        struct draft *draft = NULL;
        _cleanup_free_ char *reason = NULL;
        int error = draft_parse(parsing->bytes, parsing->len, NULL, &draft, &reason);
        parsing->failed += error != 0 || draft->parts_len != 3;
        draft_free(draft);
    }
    return NULL;
}

TEST(several_threads_can_parse_drafts_at_once)
{
    _cleanup_free_ char *bytes = NULL;
    struct parsing parsings[4];
    pthread_t threads[4];
    size_t len;
    read_data(VALID, "mime-everything.eml", &bytes, &len);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        parsings[i] = (struct parsing){.bytes = bytes, .len = len};
        assert_int_equal(pthread_create(&threads[i], NULL, parse_many, &parsings[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(parsings[i].failed, 0);
    }
}

TEST(messages_from_one_sender_to_the_same_recipients_share_a_sequence)
{
    static const char one[] = "{\"to_addresses\":[{\"address\":\"a@x.example\",\"name\":null},"
                              "{\"address\":\"b@x.example\",\"name\":\"B\"}]}";
    static const char same[] =
        "{\"to_addresses\":[{\"address\":\"B@x.example\",\"name\":null}],"
        "\"cc_addresses\":[{\"address\":\"A@X.example\",\"name\":null}],\"subject\":\"s\"}";
    static const char other[] = "{\"to_addresses\":[{\"address\":\"a@x.example\",\"name\":null}]}";
    char sequences[4][65];
    draft_sequence(one, "me@i.example", sequences[0]);
    draft_sequence(same, "ME@i.example", sequences[1]);
    draft_sequence(other, "me@i.example", sequences[2]);
    draft_sequence(one, "you@i.example", sequences[3]);
    assert_string_equal(sequences[0], sequences[1]);
    assert_string_not_equal(sequences[0], sequences[2]);
    assert_string_not_equal(sequences[0], sequences[3]);
}
