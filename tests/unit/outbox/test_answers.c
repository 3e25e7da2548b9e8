/* SPDX-License-Identifier: MIT */
/*
 * Messages that answer an email: they may consist of a body alone, and keep the email that they answer.
 */
#include "outbox_world.h"

#include "support/test.h"

#define DINNER                                                                       \
    "{\"from_address\":\"" ME "\",\"to_addresses\":[{\"address\":\"ann@x.example\"," \
    "\"name\":null}],\"subject\":\"Re: Dinner\",\"existing_email_id\":\"e1\",\"message_type\":\"reply\"}"
#define LUNCH                                                            \
    "{\"to_addresses\":[{\"address\":\"ann@x.example\",\"name\":null}]," \
    "\"subject\":\"Re: Lunch\",\"existing_email_id\":\"e2\",\"message_type\":\"reply\"}"
#define NEWS "{\"subject\":\"Fwd: News\",\"existing_email_id\":\"e3\",\"message_type\":\"forward\"}"

static struct outbox_handle *begin_answer(struct world *world, const char *reply_template, const char *name)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    assert_int_equal(0, outbox_create_answer(world->outbox, reply_template, name, 0, &handle, &stat));
    assert_int_equal(OUT, stat.folder);
    return handle;
}

static void write_answer(struct world *world, const char *reply_template, const char *name, const char *text)
{
    struct outbox_handle *handle = begin_answer(world, reply_template, name);
    append(handle, text, 0);
    finish(handle);
}

static int move_answer(struct world *world, const char *draft, const char *reply_template, const char *name)
{
    return outbox_hand_in_answer(world->outbox, world->drafts, draft, draft, reply_template, name, 0);
}

static void assert_sent_request(struct world *world, unsigned int index, const char *part)
{
    struct fake_record record = fake_service_get(world->fake, FAKE_SEND, index);
    if (strstr(record.text, part) == NULL)
        fail_msg("%s is not in %s", part, record.text);
}

TEST_WITH(a_body_alone_goes_to_the_sender, world_setup, world_teardown)
{
    struct world *world = *state;
    write_answer(world, DINNER, "re-dinner.eml", "Yes.\n");
    assert_int_equal(0, settle(world));
    assert_sent_request(world, 0, "\"from_address\":\"" ME "\"");
    assert_sent_request(world, 0, "\"to_addresses\":[{\"address\":\"ann@x.example\",\"name\":null}]");
    assert_sent_request(world, 0, "\"subject\":\"Re: Dinner\"");
    assert_sent_request(world, 0, "\"plain_text\":\"Yes.\\n\"");
    assert_sent_request(world, 0, "\"existing_email_id\":\"e1\",\"message_type\":\"reply\"");
    assert_true(is_listed(world, SENT, "re-dinner.eml"));
    assert_true(shown_contains(world, SENT, "re-dinner.eml.receipt.json", "Re: Dinner"));
}

TEST_WITH(a_draft_moved_in_is_an_answer, world_setup, world_teardown)
{
    struct world *world = *state;
    put_draft(world, "answer", "Subject: Breakfast\n\nYes.\n");
    assert_int_equal(0, move_answer(world, "answer", DINNER, "re-dinner.eml"));
    assert_false(has_draft(world, "answer"));
    assert_int_equal(0, settle(world));
    assert_sent_request(world, 0, "\"subject\":\"Breakfast\"");
    assert_sent_request(world, 0, "\"existing_email_id\":\"e1\"");
    assert_true(is_listed(world, SENT, "re-dinner.eml"));
}

TEST_WITH(a_bad_answer_stays_a_draft_and_says_why, world_setup, world_teardown)
{
    struct world *world = *state;
    put_draft(world, "note", "See below.\n");
    assert_int_equal(-EDESTADDRREQ, move_answer(world, "note", NEWS, "fwd-news.eml"));
    assert_true(has_draft(world, "note"));
    assert_true(was_told(world, EVENT_REFUSED, "note"));
    put_draft(world, "note", "Attach: missing.pdf\nTo: bob@x.example\n\nSee below.\n");
    assert_int_equal(-ENODATA, move_answer(world, "note", NEWS, "fwd-news.eml"));
    put_draft(world, "note", "");
    assert_int_equal(-EBADMSG, move_answer(world, "note", DINNER, "re-dinner.eml"));
    assert_false(is_listed(world, OUT, "fwd-news.eml"));
    assert_int_equal(0, fake_service_count(world->fake, FAKE_SEND));
}

TEST_WITH(names_that_are_taken_get_numbers, world_setup, world_teardown)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    for (unsigned int i = 0; i < 3; i++)
        write_answer(world, DINNER, "re-dinner.eml", "Yes.\n");
    put_draft(world, "answer", "Yes.\n");
    assert_int_equal(0, move_answer(world, "answer", DINNER, "re-dinner.eml"));
    assert_true(is_listed(world, OUT, "re-dinner.eml"));
    assert_true(is_listed(world, OUT, "re-dinner-2.eml"));
    assert_true(is_listed(world, OUT, "re-dinner-3.eml"));
    assert_true(is_listed(world, OUT, "re-dinner-4.eml"));
}

TEST_WITH(answers_to_two_emails_in_the_same_words_are_two_messages, world_setup, world_teardown)
{
    struct world *world = *state;
    write_answer(world, DINNER, "re-dinner.eml", "Yes.\n");
    write_answer(world, LUNCH, "re-lunch.eml", "Yes.\n");
    assert_int_equal(0, settle(world));
    assert_int_equal(2, fake_service_count_sent(world->fake, true));

    /* Nor does one of them take over the other's key by way of drafts/. */
    fake_service_push(
        world->fake, FAKE_SEND,
        (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 422, .error = EINVAL});
    write_answer(world, DINNER, "re-dinner.eml", "No.\n");
    assert_int_equal(-EIO, settle(world));
    struct fake_record refused = fake_service_get(world->fake, FAKE_SEND, 2);
    assert_int_equal(
        0, outbox_take_out(world->outbox, OUTBOX_FOLDER_FAILED, "re-dinner.eml", world->drafts, "answer", 0));
    assert_int_equal(0, move_answer(world, "answer", LUNCH, "re-lunch.eml"));
    assert_int_equal(0, settle(world));
    struct fake_record other = fake_service_get(world->fake, FAKE_SEND, 3);
    assert_string_not_equal(refused.key, other.key);
}

TEST_WITH(the_answered_email_survives_failures_and_restarts, world_setup, world_teardown)
{
    struct world *world = *state;
    fake_service_push(
        world->fake, FAKE_SEND,
        (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 422, .error = EINVAL});
    write_answer(world, DINNER, "re-dinner.eml", "Yes.\n");
    assert_int_equal(-EIO, settle(world));
    world_reopen(world);
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(0, move(world, FAILED, "re-dinner.eml", OUT, "later.eml"));
    world_reopen(world);
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/later.eml");
    assert_true(shown_contains(world, SENT, "later.eml.receipt.json", "existing_email_id"));

    assert_int_equal(0, move(world, SENT, "later.eml", OUT, "again.eml"));
    await_news(world, EVENT_SENT, "sent/again.eml");
    assert_true(shown_contains(world, SENT, "again.eml.receipt.json", "existing_email_id"));
}

TEST_WITH(an_interrupted_answer_can_be_finished, world_setup, world_teardown)
{
    struct world *world = *state;
    struct outbox_handle *handle = begin_answer(world, DINNER, "re-dinner.eml");
    append(handle, "Yes.\n", 0);
    assert_int_equal(0, outbox_flush(handle, 0));
    outbox_stop(world->outbox);
    outbox_abandon(handle);
    outbox_free(world->outbox);
    world_open(world);
    assert_true(is_listed(world, FAILED, "re-dinner.eml"));
    assert_int_equal(0, fake_service_count(world->fake, FAKE_SEND));
    assert_int_equal(0, move(world, FAILED, "re-dinner.eml", OUT, "re-dinner.eml"));
    assert_int_equal(0, settle(world));
    assert_sent_request(world, 0, "\"existing_email_id\":\"e1\"");
}
