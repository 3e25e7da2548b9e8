/* SPDX-License-Identifier: MIT */
/*
 * Messages whose In-Reply-To or References name an email: they are sent as replies if the email is known when
 * they are handed in.
 */
#include "outbox_fixture.h"

#include "support/test.h"

#define REPLY "To: ann@x.example\nSubject: Re: Dinner\nIn-Reply-To: <dinner@x>\n\nYes.\n"

/* The emails that the store would find by Message-ID. Tests change them. */
struct emails {
    const char *dinner; /* id of the email <dinner@x> in the inbox of ME; NULL if unknown */
    const char *first;  /* id of the email <first@x>, or NULL */
    bool first_is_elsewhere;
    unsigned int questions;
    int error; /* result of each lookup, unless 0 */
};

static int find_email(void *context, const char *message_id, const char *from, char **ret_email_id)
{
    struct emails *emails = context;
    const char *id = NULL;
    emails->questions++;
    if (emails->error != 0)
        return emails->error;
    if (strcmp(message_id, "dinner@x") == 0)
        id = emails->dinner;
    if (strcmp(message_id, "first@x") == 0)
        id = emails->first;
    if (id == NULL)
        return -ENOENT;
    if (strcmp(from, ME) != 0 || (id == emails->first && emails->first_is_elsewhere))
        return -EXDEV;
    *ret_email_id = strdup(id);
    return *ret_email_id == NULL ? -ENOMEM : 0;
}

static struct emails emails;

static int set_up(void **state)
{
    fixture_setup(state);
    struct fixture *fixture = *state;
    emails = (struct emails){.dinner = "e1"};
    fixture->config.emails = (struct email_directory){find_email, &emails};
    fixture_reopen(fixture);
    return 0;
}

static void assert_request(struct fixture *fixture, unsigned int index, const char *email_id)
{
    char expected[100];
    const char *text = fake_service_get(fixture->fake, FAKE_SEND, index).text;
    snprintf(expected, sizeof(expected), "\"existing_email_id\":\"%s\",\"message_type\":\"reply\"",
             email_id == NULL ? "" : email_id);
    bool is_right = email_id != NULL
                        ? strstr(text, expected) != NULL
                        : strstr(text, "existing_email_id") == NULL && strstr(text, "message_type") == NULL;
    if (!is_right)
        fail_msg("request %u should name %s: %s", index, email_id == NULL ? "nothing" : email_id, text);
}

static bool receipt_says(struct fixture *fixture, const char *name, const char *words)
{
    return shown_contains(fixture, SENT, name, words);
}

static void assert_all_carried(struct fixture *fixture, const char *name)
{
    char *receipt = read_shown(fixture, SENT, name);
    assert_null(strstr(receipt, "not_carried"));
    free(receipt);
}

static void send_well(struct fixture *fixture, const char *name, const char *text)
{
    assert_int_equal(0, mail(fixture, name, text));
    assert_int_equal(0, settle(fixture));
}

TEST_WITH(a_message_that_names_a_known_email_is_a_reply, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    send_well(fixture, "yes", REPLY);
    assert_request(fixture, 0, "e1");
    assert_true(receipt_says(fixture, "yes.receipt.json", "\"existing_email_id\":\"e1\""));
    assert_all_carried(fixture, "yes.receipt.json");
    copy_in(fixture, OUT, "yes2", "To: ann@x.example\nReferences: <first@x> <dinner@x>\n\nYes.\n");
    assert_int_equal(0, settle(fixture));
    assert_request(fixture, 1, "e1");
}

TEST_WITH(the_likeliest_known_email_is_answered, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    emails.first = "e0";
    send_well(fixture, "1", "To: a@b\nIn-Reply-To: <dinner@x>\nReferences: <first@x>\n\nYes.\n");
    assert_request(fixture, 0, "e1");
    send_well(fixture, "2", "To: a@b\nIn-Reply-To: <other@x>\nReferences: <dinner@x> <first@x>\n\nYes.\n");
    assert_request(fixture, 1, "e0");
    assert_all_carried(fixture, "2.receipt.json");
    /* The inbox of ME cannot answer an email of another inbox. */
    emails.first_is_elsewhere = true;
    send_well(fixture, "3", "To: a@b\nIn-Reply-To: <first@x>\nReferences: <dinner@x> <first@x>\n\nYes.\n");
    assert_request(fixture, 2, "e1");
    assert_all_carried(fixture, "3.receipt.json");
}

TEST_WITH(the_receipt_names_an_unknown_email, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    emails.dinner = NULL;
    send_well(fixture, "yes", REPLY);
    assert_request(fixture, 0, NULL);
    assert_true(receipt_says(fixture, "yes.receipt.json", "\"not_carried\": ["));
    assert_true(receipt_says(fixture, "yes.receipt.json", "was opened in this mount"));
    fixture_reopen(fixture);
    assert_true(receipt_says(fixture, "yes.receipt.json", "was opened in this mount"));
}

TEST_WITH(the_receipt_names_an_email_of_another_inbox, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    send_well(fixture, "yes", "From: other@inbox.example\n" REPLY);
    assert_request(fixture, 0, NULL);
    assert_true(receipt_says(fixture, "yes.receipt.json", "is in another inbox"));
}

TEST_WITH(a_failed_lookup_is_reported_in_the_receipt, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    emails.error = -EIO;
    send_well(fixture, "yes", REPLY);
    assert_request(fixture, 0, NULL);
    assert_true(receipt_says(fixture, "yes.receipt.json", "cannot be read"));
}

TEST_WITH(a_message_that_names_no_email_causes_no_lookup, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    send_well(fixture, "hello", MESSAGE);
    send_well(fixture, "json",
              "{\"to_addresses\":[\"a@b\"],\"existing_email_id\":\"e9\",\"message_type\":\"forward\"}");
    assert_int_equal(0, emails.questions);
    assert_request(fixture, 0, NULL);
    assert_true(sent_contains(fixture, 1, "\"existing_email_id\":\"e9\",\"message_type\":\"forward\""));
    assert_all_carried(fixture, "hello.receipt.json");
}

TEST_WITH(a_restart_keeps_the_answered_email, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(0, mail(fixture, "yes", REPLY));
    fixture_close(fixture);
    emails.dinner = NULL;
    fake_service_set_reachable(fixture->fake, true);
    fixture_open(fixture);
    await_event(fixture, EVENT_SENT, "sent/yes");
    assert_request(fixture, 0, "e1");
}

static void refuse_next(struct fixture *fixture, enum service_outcome outcome)
{
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = outcome, .http_status = 422, .error = EINVAL});
}

TEST_WITH(sending_a_sent_message_again_looks_up_the_answered_email, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    emails.dinner = NULL;
    send_well(fixture, "yes", REPLY);
    emails.dinner = "e1";
    assert_int_equal(0, move(fixture, SENT, "yes", OUT, "again"));
    assert_int_equal(0, settle(fixture));
    assert_request(fixture, 1, "e1");
    assert_all_carried(fixture, "again.receipt.json");
    /* A sent message that is handed in again is a new message. */
    assert_string_not_equal(fake_service_get(fixture->fake, FAKE_SEND, 0).key,
                            fake_service_get(fixture->fake, FAKE_SEND, 1).key);
}

TEST_WITH(the_key_does_not_depend_on_known_emails, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    emails.dinner = NULL;
    refuse_next(fixture, SERVICE_REJECTED);
    assert_int_equal(0, mail(fixture, "yes", REPLY));
    assert_int_equal(-EIO, settle(fixture));
    emails.dinner = "e1";
    assert_int_equal(0, move(fixture, FAILED, "yes", OUT, "yes"));
    assert_int_equal(0, settle(fixture));
    assert_request(fixture, 1, "e1"); /* the first request was certainly not accepted */
    assert_string_equal(fake_service_get(fixture->fake, FAKE_SEND, 0).key,
                        fake_service_get(fixture->fake, FAKE_SEND, 1).key);
}

TEST_WITH(handing_in_a_refused_message_again_looks_up_the_answered_email, set_up, fixture_teardown)
{
    static const char *const then[] = {"e2", NULL}; /* another email has the Message-ID, or none has it */
    struct fixture *fixture = *state;
    refuse_next(fixture, SERVICE_REJECTED);
    assert_int_equal(0, mail(fixture, "yes", REPLY));
    assert_int_equal(-EIO, settle(fixture));
    assert_request(fixture, 0, "e1");
    for (unsigned int i = 0; i < ARRAY_LEN(then); i++) {
        emails.dinner = then[i];
        refuse_next(fixture, SERVICE_REJECTED);
        assert_int_equal(0, move(fixture, FAILED, "yes", OUT, "yes"));
        assert_int_equal(-EIO, settle(fixture));
        assert_request(fixture, i + 1, then[i]);
    }
}

TEST_WITH(a_possible_repeat_keeps_its_thread, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    emails.dinner = NULL;
    refuse_next(fixture, SERVICE_UNKNOWN);
    assert_int_equal(0, mail(fixture, "yes", REPLY));
    assert_int_equal(-EIO, settle(fixture));
    refuse_next(fixture, SERVICE_UNKNOWN);
    assert_int_equal(0, mail(fixture, "dinner", "To: bob@x.example\nReferences: <first@x>\n\nYes.\n"));
    assert_int_equal(-EIO, settle(fixture));
    emails.dinner = "e1";
    emails.first = "e0";
    assert_int_equal(0, move(fixture, FAILED, "yes", OUT, "yes"));
    assert_int_equal(0, settle(fixture));
    assert_request(fixture, 2, NULL);
    assert_true(receipt_says(fixture, "yes.receipt.json", "as it was before"));
    assert_int_equal(0, move(fixture, FAILED, "dinner", OUT, "dinner"));
    assert_int_equal(0, settle(fixture));
    assert_request(fixture, 3, NULL);
    assert_string_equal(fake_service_get(fixture->fake, FAKE_SEND, 1).key,
                        fake_service_get(fixture->fake, FAKE_SEND, 3).key);
}

/* The email was known at the first attempt, but no longer at the second. */
TEST_WITH(a_reply_that_may_have_been_sent_stays_a_reply, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    refuse_next(fixture, SERVICE_UNKNOWN);
    assert_int_equal(0, mail(fixture, "yes", REPLY));
    assert_int_equal(-EIO, settle(fixture));
    emails.dinner = NULL;
    fixture_reopen(fixture);
    assert_int_equal(0, move(fixture, FAILED, "yes", OUT, "yes"));
    assert_int_equal(0, settle(fixture));
    assert_request(fixture, 0, "e1");
    assert_request(fixture, 1, "e1");
    assert_string_equal(fake_service_get(fixture->fake, FAKE_SEND, 0).key,
                        fake_service_get(fixture->fake, FAKE_SEND, 1).key);
}

TEST_WITH(handing_in_an_edited_message_looks_up_the_answered_email, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    refuse_next(fixture, SERVICE_UNKNOWN);
    assert_int_equal(0, mail(fixture, "yes", REPLY));
    assert_int_equal(-EIO, settle(fixture));
    assert_int_equal(
        0, outbox_take_out(fixture->outbox, OUTBOX_FOLDER_FAILED, "yes", fixture->drafts, "yes", 0));
    emails.dinner = "e2";
    send_well(fixture, "yes", REPLY "And thanks.\n");
    assert_request(fixture, 1, "e2");
}

static void refuse_next_in_words(struct fixture *fixture, const char *words)
{
    fake_service_push(
        fixture->fake, FAKE_SEND,
        (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 404, .detail = words});
}

TEST_WITH(a_reply_to_a_deleted_email_starts_a_thread, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    refuse_next_in_words(fixture, "existing_email_id: no such email");
    send_well(fixture, "yes", REPLY);
    assert_request(fixture, 0, "e1");
    assert_request(fixture, 1, NULL);
    assert_int_equal(2, sends(fixture));
    assert_true(receipt_says(fixture, "yes.receipt.json", "refused a reply"));
}

TEST_WITH(a_refusal_for_another_reason_fails_the_message, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    refuse_next_in_words(fixture, "from_address: no such inbox");
    assert_int_equal(0, mail(fixture, "yes", REPLY));
    assert_int_equal(-EIO, settle(fixture));
    assert_int_equal(1, sends(fixture));
    /* The user named the answered email in JSON, so no request without it is sent. */
    refuse_next_in_words(fixture, "existing_email_id: no such email");
    assert_int_equal(0, mail(fixture, "json",
                             "{\"to_addresses\":[\"a@b\"],\"existing_email_id\":\"e9\","
                             "\"message_type\":\"reply\"}"));
    assert_int_equal(-EIO, settle(fixture));
    assert_int_equal(2, sends(fixture));
}

TEST_WITH(an_unknown_outcome_stays_unknown_after_a_refusal, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    refuse_next(fixture, SERVICE_UNKNOWN);
    refuse_next_in_words(fixture, "existing_email_id: no such email");
    assert_int_equal(0, mail(fixture, "yes", REPLY));
    assert_int_equal(-EAGAIN, settle(fixture));
    outbox_wake(fixture->outbox);
    assert_int_equal(-EIO, settle(fixture));
    refuse_next_in_words(fixture, "existing_email_id: no such email");
    assert_int_equal(0, move(fixture, FAILED, "yes", OUT, "yes"));
    assert_int_equal(-EIO, settle(fixture));
    assert_int_equal(3, sends(fixture));
    assert_true(shown_contains(fixture, FAILED, "yes.receipt.json", "\"state\": \"unknown outcome\""));
}

TEST_WITH(without_trusted_keys_a_second_send_can_be_a_new_thread, set_up, fixture_teardown)
{
    struct fixture *fixture = *state;
    refuse_next(fixture, SERVICE_UNKNOWN);
    assert_int_equal(0, mail(fixture, "yes", REPLY));
    assert_int_equal(-EIO, settle(fixture));
    refuse_next_in_words(fixture, "existing_email_id: no such email");
    assert_int_equal(0, move(fixture, FAILED, "yes", OUT, "yes"));
    assert_int_equal(0, settle(fixture));
    assert_int_equal(3, sends(fixture));
    assert_true(receipt_says(fixture, "yes.receipt.json", "refused a reply"));
}
