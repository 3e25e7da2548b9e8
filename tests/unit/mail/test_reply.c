/* SPDX-License-Identifier: MIT */
/*
 * Covers the recipients and subjects of answers, and how the text that the user writes changes them.
 */
#include "mail/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/draft.h"
#include "mail/json_writer.h"
#include "support/test.h"

DEFINE_CLEANUP_FREE(draft)

static const char *const own[] = {"bob@inbox.example", "shop@inbox.example"};

/* ---- subjects */

TEST(marks_before_subjects_are_not_doubled)
{
    static const struct {
        enum reply_kind kind;
        const char *subject;
        const char *answer;
    } cases[] = {
        {REPLY_SENDER, "Dinner", "Re: Dinner"},
        {REPLY_ALL, "Dinner", "Re: Dinner"},
        {REPLY_FORWARD, "Dinner", "Fwd: Dinner"},
        {REPLY_SENDER, "Re: Dinner", "Re: Dinner"},
        {REPLY_SENDER, "RE:Dinner", "Re: Dinner"},
        {REPLY_SENDER, "re : Re: RE: Dinner", "Re: Dinner"},
        {REPLY_SENDER, "Re[2]: Dinner", "Re: Dinner"},
        {REPLY_SENDER, "Re(12): Dinner", "Re: Dinner"},
        {REPLY_SENDER, "Re^3: Dinner", "Re: Dinner"},
        {REPLY_SENDER, "AW: Essen", "Re: Essen"},
        {REPLY_SENDER, "SV: Re: Middag", "Re: Middag"},
        {REPLY_SENDER, "Antw: Eten", "Re: Eten"},
        {REPLY_SENDER, "Odp: Obiad", "Re: Obiad"},
        {REPLY_SENDER, "回复：晚餐", "Re: 晚餐"},
        {REPLY_SENDER, "Fwd: Dinner", "Re: Fwd: Dinner"},
        {REPLY_FORWARD, "Fw: Dinner", "Fwd: Dinner"},
        {REPLY_FORWARD, "WG: FW: Essen", "Fwd: Essen"},
        {REPLY_FORWARD, "Re: Dinner", "Fwd: Re: Dinner"},
        {REPLY_SENDER, "Regarding: Dinner", "Re: Regarding: Dinner"},
        {REPLY_SENDER, "Re", "Re: Re"},
        {REPLY_SENDER, "Ref: 12", "Re: Ref: 12"},
        {REPLY_SENDER, "Re[x]: Dinner", "Re: Re[x]: Dinner"},
        {REPLY_SENDER, "  Dinner  ", "Re: Dinner"},
        {REPLY_SENDER, "", "Re:"},
        {REPLY_SENDER, NULL, "Re:"},
        {REPLY_SENDER, "Re: ", "Re:"},
        {REPLY_FORWARD, NULL, "Fwd:"},
        {REPLY_SENDER, "a\r\nBcc: eve@x.example\x1b[1m\xc2\x85", "Re: a  Bcc: eve@x.example [1m"},
        {REPLY_SENDER, "a\u2028b\u202etxt", "Re: a   b   txt"},
        {REPLY_SENDER, "\u05d0\u200f!", "Re: \u05d0\u200f!"},
        {REPLY_SENDER, "\xff", "Re: \xef\xbf\xbd"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct email_head head = {.subject = cases[i].subject != NULL ? strdup(cases[i].subject) : NULL};
        const struct reply_original original = {.email_id = "e1", .head = &head};
        _cleanup_free_ char *reply = NULL;
        assert_int_equal(0, reply_make(cases[i].kind, &original, &reply));
        _cleanup_json_ json_t *request = json_loads(reply, 0, NULL);
        assert_string_equal(cases[i].answer, json_string_value(json_object_get(request, "subject")));
        email_head_release(&head);
    }
}

TEST(the_file_of_an_answer_is_named_by_its_subject)
{
    static const char *const cases[][2] = {
        {"{\"subject\": \"Re: Dinner, at ten?\"}", "re-dinner-at-ten.eml"},
        {"{\"subject\": \"Fwd: Grüße/../x\"}", "fwd-grüße-x.eml"},
        {"{\"subject\": \"Re:\"}", "re.eml"},
        {"{\"subject\": \"\"}", "no-subject.eml"},
        {"{}", "no-subject.eml"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *name = reply_file_name(cases[i][0]);
        assert_string_equal(cases[i][1], name);
    }
}

/* ---- recipients */

/* Fills a list from "a@x.example, b@x.example|text that is not an address". */
static void fill(struct address_list *list, const char *addresses)
{
    _cleanup_free_ char *usable = strdup(addresses != NULL ? addresses : "");
    char *bar = strchr(usable, '|');
    if (bar != NULL) {
        list->unusable = strdup(bar + 1);
        *bar = '\0';
    }
    assert_int_equal(0, address_list_parse(list, usable, NULL, NULL));
}

static char *make(enum reply_kind kind, const char *from, const char *reply_to, const char *to,
                  const char *cc)
{
    struct email_head head = {.subject = strdup("Dinner")};
    fill(&head.from, from);
    fill(&head.reply_to, reply_to);
    fill(&head.to, to);
    fill(&head.cc, cc);
    const struct reply_original original = {.email_id = "e1",
                                            .inbox_address = own[0],
                                            .head = &head,
                                            .own_addresses = own,
                                            .own_addresses_len = ARRAY_LEN(own)};
    char *reply = NULL;
    assert_int_equal(0, reply_make(kind, &original, &reply));
    email_head_release(&head);
    return reply;
}

/* Writes the addresses as "a@x.example, b@x.example". */
static void join(const json_t *request, const char *key, char ret_text[500])
{
    size_t i;
    const json_t *one;
    ret_text[0] = '\0';
    json_array_foreach (json_object_get(request, key), i, one) {
        strcat(ret_text, i > 0 ? ", " : "");
        strcat(ret_text, json_string_value(json_object_get(one, "address")));
    }
}

TEST(an_answer_has_the_expected_recipients)
{
    static const struct {
        enum reply_kind kind;
        const char *from, *reply_to, *to, *cc;
        const char *answer_to, *answer_cc;
    } cases[] = {
        {REPLY_SENDER, "ann@x.example", NULL, "bob@inbox.example, eve@x.example", "c@x.example",
         "ann@x.example", ""},
        {REPLY_SENDER, "ann@x.example", "list@x.example, ann2@x.example", "bob@inbox.example", NULL,
         "list@x.example, ann2@x.example", ""},
        {REPLY_ALL, "ann@x.example", NULL, "Bob@Inbox.example, eve@x.example", "c@x.example", "ann@x.example",
         "eve@x.example, c@x.example"},
        {REPLY_ALL, "ann@x.example", NULL, "bob@inbox.example, shop@inbox.example", NULL, "ann@x.example",
         ""},
        {REPLY_ALL, "ann@x.example", NULL, "eve@x.example, EVE@X.example", "ann@X.EXAMPLE, eve@x.example",
         "ann@x.example", "eve@x.example"},
        {REPLY_ALL, "ann@x.example", "list@x.example", "list@x.example", NULL, "list@x.example", ""},
        {REPLY_SENDER, "shop@inbox.example", NULL, "bob@inbox.example", NULL, "shop@inbox.example", ""},
        {REPLY_SENDER, "bob@inbox.example", NULL, "eve@x.example, bob@inbox.example", NULL, "eve@x.example",
         ""},
        {REPLY_ALL, "bob@inbox.example", NULL, "eve@x.example", "c@x.example", "eve@x.example",
         "c@x.example"},
        {REPLY_SENDER, "bob@inbox.example", NULL, "bob@inbox.example", NULL, "bob@inbox.example", ""},
        {REPLY_SENDER, NULL, NULL, "bob@inbox.example", NULL, "", ""},
        {REPLY_ALL, "o'brien@x.example", NULL, "bob@inbox.example, d'arc@x.example", NULL,
         "o'brien@x.example", "d'arc@x.example"},
        {REPLY_FORWARD, "ann@x.example", "r@x.example", "bob@inbox.example", "c@x.example", "", ""},
        /* a Reply-To that is the inbox itself */
        {REPLY_SENDER, "ann@x.example", "bob@inbox.example", "bob@inbox.example, eve@x.example", NULL,
         "ann@x.example", ""},
        {REPLY_ALL, "ann@x.example", "BOB@inbox.example", "bob@inbox.example, eve@x.example", NULL,
         "ann@x.example", "eve@x.example"},
        {REPLY_SENDER, "bob@inbox.example", "bob@inbox.example", "eve@x.example", NULL, "eve@x.example", ""},
        {REPLY_SENDER, "ann@x.example", "bob@inbox.example, ann2@x.example", "eve@x.example", NULL,
         "bob@inbox.example, ann2@x.example", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char to[500];
        char cc[500];
        _cleanup_free_ char *reply =
            make(cases[i].kind, cases[i].from, cases[i].reply_to, cases[i].to, cases[i].cc);
        _cleanup_json_ json_t *request = json_loads(reply, 0, NULL);
        join(request, "to_addresses", to);
        join(request, "cc_addresses", cc);
        assert_string_equal(cases[i].answer_to, to);
        assert_string_equal(cases[i].answer_cc, cc);
    }
}

TEST(the_request_names_the_sender_the_email_and_the_kind_of_answer)
{
    _cleanup_free_ char *reply = make(REPLY_ALL, "Ann <ann@x.example>", NULL, "eve@x.example", NULL);
    assert_string_equal("{\"from_address\":\"bob@inbox.example\",\"to_addresses\":[{\"address\":"
                        "\"ann@x.example\",\"name\":\"Ann\"}],\"cc_addresses\":[{\"address\":"
                        "\"eve@x.example\",\"name\":null}],\"subject\":\"Re: Dinner\","
                        "\"existing_email_id\":\"e1\",\"message_type\":\"reply\"}",
                        reply);
    _cleanup_free_ char *forward = make(REPLY_FORWARD, "ann@x.example", NULL, NULL, NULL);
    assert_string_equal("{\"from_address\":\"bob@inbox.example\",\"subject\":\"Fwd: Dinner\","
                        "\"existing_email_id\":\"e1\",\"message_type\":\"forward\"}",
                        forward);
}

/* ---- texts of users */

static int parse(enum reply_kind kind, const char *text, struct draft **ret_draft, char **ret_reason)
{
    _cleanup_free_ char *reply = make(kind, "ann@x.example", NULL, "bob@inbox.example, eve@x.example", NULL);
    return draft_parse(text, strlen(text), reply, ret_draft, ret_reason);
}

TEST(fields_that_the_user_writes_replace_those_of_the_answer)
{
    static const struct {
        const char *text;
        const char *to, *cc, *subject, *plain_text;
    } cases[] = {
        {"Yes.\n", "ann@x.example", "eve@x.example", "Re: Dinner", "Yes.\n"},
        {"\n\nYes.\n", "ann@x.example", "eve@x.example", "Re: Dinner", "\n\nYes.\n"},
        {"Dear Ann:\nyes.\n\nBob", "ann@x.example", "eve@x.example", "Re: Dinner", "Dear Ann:\nyes.\n\nBob"},
        {"Note: yes\n\nBob", "ann@x.example", "eve@x.example", "Re: Dinner", "Note: yes\n\nBob"},
        {"From now on\n\nyes", "ann@x.example", "eve@x.example", "Re: Dinner", "From now on\n\nyes"},
        {"Gr\xfc\xdf"
         "e\n",
         "ann@x.example", "eve@x.example", "Re: Dinner", "Grüße\n"},
        {"Subject: Breakfast\n\nYes.\n", "ann@x.example", "eve@x.example", "Breakfast", "Yes.\n"},
        {"Subject:\n\nYes.\n", "ann@x.example", "eve@x.example", "", "Yes.\n"},
        {"To: dan@x.example\n\nYes.\n", "dan@x.example", "eve@x.example", "Re: Dinner", "Yes.\n"},
        {"Cc: dan@x.example\n\nYes.\n", "ann@x.example", "dan@x.example", "Re: Dinner", "Yes.\n"},
        {"Attach: a.pdf\n\nSee there.\n", "ann@x.example", "eve@x.example", "Re: Dinner", "See there.\n"},
        {"Date: today\nSubject: Both\n\nYes.\n", "ann@x.example", "eve@x.example", "Both", "Yes.\n"},
        {"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\nWWVzLgo=\n",
         "ann@x.example", "eve@x.example", "Re: Dinner", "Yes.\n"},
        {" {\"plain_text\": \"Yes.\"}", "ann@x.example", "eve@x.example", "Re: Dinner", "Yes."},
        {"{\"plain_text\": \"Yes.\", \"to_addresses\": \"dan@x.example\"}", "dan@x.example", "eve@x.example",
         "Re: Dinner", "Yes."},
        {"{\"existing_email_id\": \"e1\", \"message_type\": \"reply\"}", "ann@x.example", "eve@x.example",
         "Re: Dinner", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char to[500];
        char cc[500];
        _cleanup_(cleanup_draft_free) struct draft *draft = NULL;
        _cleanup_free_ char *reason = NULL;
        if (parse(REPLY_ALL, cases[i].text, &draft, &reason) != 0)
            fail_msg("%s: %s", cases[i].text, reason);
        _cleanup_json_ json_t *request = json_loads(draft->request, 0, NULL);
        join(request, "to_addresses", to);
        join(request, "cc_addresses", cc);
        assert_string_equal(cases[i].to, to);
        assert_string_equal(cases[i].cc, cc);
        assert_string_equal(cases[i].subject, json_string_value(json_object_get(request, "subject")));
        assert_string_equal(cases[i].plain_text, json_string_value(json_object_get(request, "plain_text")));
        assert_string_equal("e1", json_string_value(json_object_get(request, "existing_email_id")));
        assert_string_equal("reply", json_string_value(json_object_get(request, "message_type")));
        assert_string_equal("bob@inbox.example", draft->from);
    }
}

TEST(a_forward_needs_recipients)
{
    _cleanup_(cleanup_draft_free) struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    assert_int_equal(-EDESTADDRREQ, parse(REPLY_FORWARD, "See below.\n", &draft, &reason));
    free(TAKE_PTR(reason));
    assert_int_equal(0, parse(REPLY_FORWARD, "To: dan@x.example\n\nSee below.\n", &draft, &reason));
    assert_non_null(strstr(draft->request, "\"message_type\":\"forward\""));
    assert_non_null(strstr(draft->request, "\"subject\":\"Fwd: Dinner\""));
}

TEST(an_invalid_answer_is_refused_with_a_reason)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"", "not a message: it is empty"},
        {" \n", "not a message: it is empty"},
        {"Subject: Breakfast\nand this\n\nYes.",
         "not a message: line 2 is neither a header nor the blank line after them"},
        {"To: whom it may concern\n\nYes.", "To: not an email address: \"whom it may concern\""},
        {"{\"plain_text\": 1}", "plain_text: not a string"},
        {"{\"existing_email_id\": \"e2\", \"message_type\": \"reply\"}",
         "existing_email_id, message_type: not those of the email answered here"},
        {"{\"existing_email_id\": \"e1\", \"message_type\": \"forward\"}",
         "existing_email_id, message_type: not those of the email answered here"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(cleanup_draft_free) struct draft *draft = NULL;
        _cleanup_free_ char *reason = NULL;
        assert_int_equal(-EBADMSG, parse(REPLY_SENDER, cases[i].text, &draft, &reason));
        assert_string_equal(cases[i].reason, reason);
    }
}

TEST(an_answer_goes_to_all_its_recipients_or_to_none)
{
    static const struct {
        enum reply_kind kind;
        const char *from, *reply_to, *to, *cc;
        const char *text;
        const char *missing; /* the header that the user must add, or NULL */
        const char *answer_to, *answer_cc;
    } cases[] = {
        {REPLY_SENDER, "ann@x.example", "|who?", NULL, NULL, "Yes.\n", "a To header", NULL, NULL},
        {REPLY_SENDER, "ann@x.example", "list@x.example|who?", NULL, NULL, "Yes.\n", "a To header", NULL,
         NULL},
        {REPLY_SENDER, "|who?", NULL, NULL, NULL, "Yes.\n", "a To header", NULL, NULL},
        {REPLY_SENDER, "bob@inbox.example", NULL, "eve@x.example|who?", NULL, "Yes.\n", "a To header", NULL,
         NULL},
        {REPLY_SENDER, "ann@x.example", "|who?", NULL, NULL, "Cc: dan@x.example\n\nYes.\n", "a To header",
         NULL, NULL},
        {REPLY_SENDER, "ann@x.example", "|who?", NULL, NULL, "Subject: x\n\nYes.\n", "a To header", NULL,
         NULL},
        {REPLY_SENDER, "ann@x.example", "|who?", NULL, NULL, "{\"plain_text\": \"Yes.\"}", "a To header",
         NULL, NULL},
        {REPLY_ALL, "ann@x.example", NULL, "eve@x.example|who?", NULL, "Yes.\n", "a Cc header", NULL, NULL},
        {REPLY_ALL, "ann@x.example", NULL, NULL, "|who?", "Yes.\n", "a Cc header", NULL, NULL},
        {REPLY_ALL, "ann@x.example", NULL, "|who?", NULL, "To: dan@x.example\n\nYes.\n", "a Cc header", NULL,
         NULL},
        {REPLY_SENDER, "ann@x.example", "|who?", NULL, NULL, "To: dan@x.example\n\nYes.\n", NULL,
         "dan@x.example", ""},
        {REPLY_SENDER, "ann@x.example", "|who?", NULL, NULL,
         "{\"plain_text\": \"Yes.\", \"to_addresses\": \"dan@x.example\"}", NULL, "dan@x.example", ""},
        {REPLY_SENDER, "|who?", "ann@x.example", "|who?", "|who?", "Yes.\n", NULL, "ann@x.example", ""},
        {REPLY_ALL, "ann@x.example", NULL, "|who?", "|who?", "Cc: dan@x.example\n\nYes.\n", NULL,
         "ann@x.example", "dan@x.example"},
        {REPLY_FORWARD, "|who?", "|who?", "|who?", NULL, "To: dan@x.example\n\nYes.\n", NULL, "dan@x.example",
         ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char to[500];
        char cc[500];
        _cleanup_(cleanup_draft_free) struct draft *draft = NULL;
        _cleanup_free_ char *reason = NULL;
        _cleanup_free_ char *early_reason = NULL;
        _cleanup_free_ char *reply =
            make(cases[i].kind, cases[i].from, cases[i].reply_to, cases[i].to, cases[i].cc);
        const char *text = cases[i].text;
        int error = draft_parse(text, strlen(text), reply, &draft, &reason);
        bool is_body = text[0] == 'Y';
        int early = draft_check_beginning(text, 1 + strcspn(text, ":"), reply, &early_reason);
        assert_int_equal(is_body && cases[i].missing != NULL ? -EDESTADDRREQ : 0, early);
        if (cases[i].missing != NULL) {
            assert_int_equal(-EDESTADDRREQ, error);
            assert_non_null(strstr(reason, "\"who?\""));
            assert_non_null(strstr(reason, cases[i].missing));
            continue;
        }
        assert_int_equal(0, error);
        _cleanup_json_ json_t *request = json_loads(draft->request, 0, NULL);
        join(request, "to_addresses", to);
        join(request, "cc_addresses", cc);
        assert_string_equal(cases[i].answer_to, to);
        assert_string_equal(cases[i].answer_cc, cc);
    }
}

TEST(only_a_beginning_that_may_be_headers_is_accepted_without_recipients)
{
    static const char *const bodies[] = {"Yes.\n",   "\n\nYes.",           "Dear Ann:\n",
                                         "\xc3\xbc", "\xef\xbb\xbfYes.\n", "\xef\xbf"};
    static const char *const others[] = {
        "",     "T",        "To",          "To:",     "Date: today\nTo: dan@x.example\n",
        "{",    " ",        "\n\t {",      "X-My: a", "\xef\xbb\xbfTo: dan@x.example\n",
        "\xef", "\xef\xbb", "\xef\xbb\xbf"};
    _cleanup_free_ char *reply = make(REPLY_SENDER, "|who?", NULL, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        _cleanup_free_ char *reason = NULL;
        assert_int_equal(-EDESTADDRREQ, draft_check_beginning(bodies[i], strlen(bodies[i]), reply, &reason));
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        _cleanup_free_ char *reason = NULL;
        assert_int_equal(0, draft_check_beginning(others[i], strlen(others[i]), reply, &reason));
    }
}

TEST(a_beginning_of_a_forward_without_recipients_is_refused)
{
    static const char fyi[] = "FYI\n";
    _cleanup_free_ char *forward = make(REPLY_FORWARD, "ann@x.example", NULL, NULL, NULL);
    _cleanup_free_ char *reply = make(REPLY_SENDER, "ann@x.example", NULL, NULL, NULL);
    _cleanup_free_ char *reason = NULL;
    _cleanup_free_ char *other_reason = NULL;
    assert_int_equal(-EDESTADDRREQ, draft_check_beginning(fyi, strlen(fyi), forward, &reason));
    assert_non_null(strstr(reason, "no recipient"));
    assert_int_equal(0, draft_check_beginning(fyi, strlen(fyi), reply, &other_reason));
}

TEST(an_answer_to_too_many_recipients_is_refused)
{
    _cleanup_(cleanup_draft_free) struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    struct email_head head = {0};
    for (unsigned int i = 0; i < 50 * 1000; i++) {
        char address[50];
        snprintf(address, sizeof(address), "user%u@x.example", i);
        assert_int_equal(0, address_list_append(&head.to, address, NULL));
    }
    fill(&head.from, "ann@x.example");
    const struct reply_original original = {.email_id = "e1", .inbox_address = own[0], .head = &head};
    _cleanup_free_ char *reply = NULL;
    assert_int_equal(0, reply_make(REPLY_ALL, &original, &reply));
    email_head_release(&head);
    assert_int_equal(-EMSGSIZE, draft_parse("Yes.\n", 5, reply, &draft, &reason));
    assert_string_equal("more than 1000 recipients", reason);
    free(TAKE_PTR(reason));
    static const char with_cc[] = "Cc: dan@x.example\n\nYes.\n";
    assert_int_equal(0, draft_parse(with_cc, strlen(with_cc), reply, &draft, &reason));
}
