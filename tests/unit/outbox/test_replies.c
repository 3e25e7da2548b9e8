/* SPDX-License-Identifier: MIT */
/*
 * Messages that answer an email: they may consist of a body alone, and keep the email that they answer.
 */
#include "outbox_fixture.h"

#include "support/test.h"

#define DINNER                                                                       \
    "{\"from_address\":\"" ME "\",\"to_addresses\":[{\"address\":\"ann@x.example\"," \
    "\"name\":null}],\"subject\":\"Re: Dinner\",\"existing_email_id\":\"e1\",\"message_type\":\"reply\"}"
#define LUNCH                                                            \
    "{\"to_addresses\":[{\"address\":\"ann@x.example\",\"name\":null}]," \
    "\"subject\":\"Re: Lunch\",\"existing_email_id\":\"e2\",\"message_type\":\"reply\"}"
#define NEWS "{\"subject\":\"Fwd: News\",\"existing_email_id\":\"e3\",\"message_type\":\"forward\"}"

static struct outbox_handle *begin_answer(struct fixture *fixture, const char *reply_template,
                                          const char *name)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    assert_int_equal(
        outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, 0, reply_template, &handle, &stat), 0);
    assert_int_equal(OUT, stat.folder);
    return handle;
}

static void write_answer(struct fixture *fixture, const char *reply_template, const char *name,
                         const char *text)
{
    struct outbox_handle *handle = begin_answer(fixture, reply_template, name);
    append(handle, text, 0);
    finish(handle);
}

static int move_answer(struct fixture *fixture, const char *draft, const char *reply_template,
                       const char *name)
{
    const struct hand_in to = {
        .folder = OUTBOX_FOLDER_OUTBOX, .name = name, .reply_template = reply_template};
    return outbox_hand_in(fixture->outbox, fixture->drafts, draft, draft, &to, 0, NULL);
}

static void assert_sent_request(struct fixture *fixture, unsigned int index, const char *part)
{
    struct fake_record record = fake_service_get(fixture->fake, FAKE_SEND, index);
    if (strstr(record.text, part) == NULL)
        fail_msg("%s is not in %s", part, record.text);
}

FIXTURE_TEST(a_reply_of_a_body_alone_goes_to_the_sender)
{
    struct fixture *fixture = *state;
    write_answer(fixture, DINNER, "re-dinner.eml", "Yes.\n");
    assert_int_equal(0, settle(fixture));
    assert_sent_request(fixture, 0, "\"from_address\":\"" ME "\"");
    assert_sent_request(fixture, 0, "\"to_addresses\":[{\"address\":\"ann@x.example\",\"name\":null}]");
    assert_sent_request(fixture, 0, "\"subject\":\"Re: Dinner\"");
    assert_sent_request(fixture, 0, "\"plain_text\":\"Yes.\\n\"");
    assert_sent_request(fixture, 0, "\"existing_email_id\":\"e1\",\"message_type\":\"reply\"");
    assert_true(is_listed(fixture, SENT, "re-dinner.eml"));
    assert_true(shown_contains(fixture, SENT, "re-dinner.eml.receipt.json", "Re: Dinner"));
}

FIXTURE_TEST(a_draft_moved_in_is_sent_as_a_reply)
{
    struct fixture *fixture = *state;
    put_draft(fixture, "answer", "Subject: Breakfast\n\nYes.\n");
    assert_int_equal(0, move_answer(fixture, "answer", DINNER, "re-dinner.eml"));
    assert_false(has_draft(fixture, "answer"));
    assert_int_equal(0, settle(fixture));
    assert_sent_request(fixture, 0, "\"subject\":\"Breakfast\"");
    assert_sent_request(fixture, 0, "\"existing_email_id\":\"e1\"");
    assert_true(is_listed(fixture, SENT, "re-dinner.eml"));
}

FIXTURE_TEST(a_refused_reply_stays_a_draft_and_its_event_has_the_reason)
{
    struct fixture *fixture = *state;
    put_draft(fixture, "note", "See below.\n");
    assert_int_equal(-EDESTADDRREQ, move_answer(fixture, "note", NEWS, "fwd-news.eml"));
    assert_true(has_draft(fixture, "note"));
    assert_true(has_event(fixture, EVENT_REFUSED, "note"));
    put_draft(fixture, "note", "Attach: missing.pdf\nTo: bob@x.example\n\nSee below.\n");
    assert_int_equal(-ENODATA, move_answer(fixture, "note", NEWS, "fwd-news.eml"));
    put_draft(fixture, "note", "");
    assert_int_equal(-EBADMSG, move_answer(fixture, "note", DINNER, "re-dinner.eml"));
    assert_false(is_listed(fixture, OUT, "fwd-news.eml"));
    assert_int_equal(0, fake_service_count(fixture->fake, FAKE_SEND));
}

FIXTURE_TEST(names_that_are_taken_get_numbers)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    for (unsigned int i = 0; i < 3; i++)
        write_answer(fixture, DINNER, "re-dinner.eml", "Yes.\n");
    put_draft(fixture, "answer", "Yes.\n");
    assert_int_equal(0, move_answer(fixture, "answer", DINNER, "re-dinner.eml"));
    assert_true(is_listed(fixture, OUT, "re-dinner.eml"));
    assert_true(is_listed(fixture, OUT, "re-dinner-2.eml"));
    assert_true(is_listed(fixture, OUT, "re-dinner-3.eml"));
    assert_true(is_listed(fixture, OUT, "re-dinner-4.eml"));
}

FIXTURE_TEST(equal_replies_to_two_emails_are_two_messages)
{
    struct fixture *fixture = *state;
    write_answer(fixture, DINNER, "re-dinner.eml", "Yes.\n");
    write_answer(fixture, LUNCH, "re-lunch.eml", "Yes.\n");
    assert_int_equal(0, settle(fixture));
    assert_int_equal(2, fake_service_count_sent(fixture->fake, true));

    /* Nor does a move through drafts/ give one reply the key of the other reply. */
    fake_service_push(
        fixture->fake, FAKE_SEND,
        (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 422, .error = EINVAL});
    write_answer(fixture, DINNER, "re-dinner.eml", "No.\n");
    assert_int_equal(-EIO, settle(fixture));
    struct fake_record refused = fake_service_get(fixture->fake, FAKE_SEND, 2);
    assert_int_equal(0, outbox_take_out(fixture->outbox, OUTBOX_FOLDER_FAILED, "re-dinner.eml",
                                        fixture->drafts, "answer", 0));
    assert_int_equal(0, move_answer(fixture, "answer", LUNCH, "re-lunch.eml"));
    assert_int_equal(0, settle(fixture));
    struct fake_record other = fake_service_get(fixture->fake, FAKE_SEND, 3);
    assert_string_not_equal(refused.key, other.key);
}

FIXTURE_TEST(the_answered_email_survives_failures_and_restarts)
{
    struct fixture *fixture = *state;
    fake_service_push(
        fixture->fake, FAKE_SEND,
        (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 422, .error = EINVAL});
    write_answer(fixture, DINNER, "re-dinner.eml", "Yes.\n");
    assert_int_equal(-EIO, settle(fixture));
    fixture_reopen(fixture);
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(0, move(fixture, FAILED, "re-dinner.eml", OUT, "later.eml"));
    fixture_reopen(fixture);
    fake_service_set_reachable(fixture->fake, true);
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_SENT, "sent/later.eml");
    assert_true(shown_contains(fixture, SENT, "later.eml.receipt.json", "existing_email_id"));

    assert_int_equal(0, move(fixture, SENT, "later.eml", OUT, "again.eml"));
    await_event(fixture, EVENT_SENT, "sent/again.eml");
    assert_true(shown_contains(fixture, SENT, "again.eml.receipt.json", "existing_email_id"));
}

FIXTURE_TEST(a_text_that_replaces_a_waiting_reply_is_sent_as_that_reply)
{
    struct fixture *fixture = *state;
    write_answer(fixture, DINNER, "re-dinner.eml", "Yes.\n");
    copy_in(fixture, OUT, "sedXXXXXX", "No.\n");
    assert_int_equal(0, move(fixture, OUT, "sedXXXXXX", OUT, "re-dinner.eml"));
    assert_int_equal(0, settle(fixture));
    assert_int_equal(1, fake_service_count(fixture->fake, FAKE_SEND));
    assert_sent_request(fixture, 0, "\"plain_text\":\"No.\\n\"");
    assert_sent_request(fixture, 0, "\"existing_email_id\":\"e1\",\"message_type\":\"reply\"");
}

FIXTURE_TEST(an_interrupted_reply_can_be_finished)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = begin_answer(fixture, DINNER, "re-dinner.eml");
    append(handle, "Yes.\n", 0);
    assert_int_equal(0, outbox_flush(handle, 0));
    outbox_stop(fixture->outbox);
    outbox_abandon(handle);
    outbox_free(fixture->outbox);
    fixture_open(fixture);
    assert_true(is_listed(fixture, FAILED, "re-dinner.eml"));
    assert_int_equal(0, fake_service_count(fixture->fake, FAKE_SEND));
    assert_int_equal(0, move(fixture, FAILED, "re-dinner.eml", OUT, "re-dinner.eml"));
    assert_int_equal(0, settle(fixture));
    assert_sent_request(fixture, 0, "\"existing_email_id\":\"e1\"");
}
