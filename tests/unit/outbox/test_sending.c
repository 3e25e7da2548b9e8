/* SPDX-License-Identifier: MIT */
/*
 * The consequences of the service's answers: the table of docs/FILESYSTEM.md, row by row.
 */
#include "outbox_fixture.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "support/test.h"

FIXTURE_TEST(a_message_is_sent_and_gets_a_receipt)
{
    struct fixture *fixture = *state;
    assert_int_equal(mail(fixture, "hello.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), 0);

    assert_false(has_draft(fixture, "hello.eml"));
    assert_false(is_listed(fixture, OUT, "hello.eml"));
    assert_true(is_listed(fixture, SENT, "hello.eml"));
    assert_true(is_listed(fixture, SENT, "hello.eml.receipt.json"));
    assert_true(shown_contains(fixture, SENT, "hello.eml", "How are you?"));
    assert_true(shown_contains(fixture, SENT, "hello.eml.receipt.json", "\"state\": \"sent\""));
    assert_true(shown_contains(fixture, SENT, "hello.eml.receipt.json", "\"kind\": \"message\""));
    assert_true(shown_contains(fixture, SENT, "hello.eml.receipt.json", "\"http_status\": 200"));
    assert_true(shown_contains(fixture, SENT, "hello.eml.receipt.json", "\"attempts\": 1"));
    assert_true(shown_contains(fixture, SENT, "hello.eml.receipt.json", "bob@x.example"));
    assert_int_equal(sends(fixture), 1);
    assert_true(sent_contains(fixture, 0, ME));
    assert_true(has_event(fixture, EVENT_SENT, "sent/hello.eml"));

    /* The receipt has the time of sending, the message the time of writing. */
    struct outbox_stat content;
    struct outbox_stat receipt;
    assert_true(outbox_find(fixture->outbox, OUTBOX_FOLDER_SENT, "hello.eml", &content));
    assert_true(outbox_find(fixture->outbox, OUTBOX_FOLDER_SENT, "hello.eml.receipt.json", &receipt));
    assert_int_equal(receipt.mtime.tv_sec, NOON / 1000);
    assert_int_not_equal(content.mtime.tv_sec, NOON / 1000);
    _cleanup_free_ char *id = outbox_copy_id(fixture->outbox, content.number);
    assert_non_null(id);
    assert_true(shown_contains(fixture, SENT, "hello.eml.receipt.json", id));
    assert_null(outbox_copy_id(fixture->outbox, content.number + 1000));
}

FIXTURE_TEST(a_message_has_no_receipt_before_it_is_sent)
{
    struct fixture *fixture = *state;
    struct outbox_stat stat;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "hello.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    assert_true(is_listed(fixture, OUT, "hello.eml"));
    assert_false(is_listed(fixture, OUT, "hello.eml.receipt.json"));
    assert_false(outbox_find(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "hello.eml.receipt.json", &stat));
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "hello.eml.receipt.json"));
}

/* Programs look at a folder's time to notice added and removed messages. */
FIXTURE_TEST(sending_changes_the_times_of_outbox_and_sent)
{
    struct fixture *fixture = *state;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "hello.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    assert_int_equal(outbox_folder_changed_ms(fixture->outbox, OUTBOX_FOLDER_OUTBOX), NOON);
    fake_clock_advance(&fixture->clock, 5000);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(outbox_folder_changed_ms(fixture->outbox, OUTBOX_FOLDER_OUTBOX), NOON + 5000);
    assert_int_equal(outbox_folder_changed_ms(fixture->outbox, OUTBOX_FOLDER_SENT), NOON + 5000);
}

FIXTURE_TEST(a_message_written_in_outbox_is_sent_by_a_barrier)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "hello.eml", MESSAGE);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "hello.eml"));
    assert_int_equal(sends(fixture), 1);
}

FIXTURE_TEST(a_message_in_json_form_is_sent)
{
    struct fixture *fixture = *state;
    assert_int_equal(mail(fixture, "m.json",
                          "{\"to_addresses\": [\"Bob <bob@x.example>\"], \"subject\": \"s\", "
                          "\"plain_text\": \"p\"}"),
                     0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 1);
    assert_true(sent_contains(fixture, 0, "bob@x.example"));
}

/* ---------------------------------------------------------------- the table */

struct row {
    const char *what;
    struct fake_outcome answer;
    bool is_trusted;
    int settled;       /* result of the barrier */
    int folder;        /* folder of the message after the attempt */
    const char *state; /* state in its receipt; NULL without a receipt */
    bool is_paused;
};

static const struct row rows[] = {
    {"no connection", {.outcome = SERVICE_RETRY}, false, -EAGAIN, OUT, NULL, true},
    {"429", {.outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN}, false, -EAGAIN, OUT, NULL, true},
    {"503", {.outcome = SERVICE_RETRY, .http_status = 503, .error = EAGAIN}, false, -EAGAIN, OUT, NULL, true},
    {"401", {.outcome = SERVICE_UNAUTHORIZED, .http_status = 401}, false, -EAGAIN, OUT, NULL, true},
    {"403 for this message alone",
     {.outcome = SERVICE_UNAUTHORIZED, .http_status = 403},
     false,
     -EIO,
     FAILED,
     "failed",
     false},
    {"success without an id", {.without_id = true}, false, 0, SENT, "sent", false},
    {"422", {.outcome = SERVICE_REJECTED, .http_status = 422}, false, -EIO, FAILED, "failed", false},
    {"404", {.outcome = SERVICE_ABSENT, .http_status = 404}, false, -EIO, FAILED, "failed", false},
    {"500", {.outcome = SERVICE_UNKNOWN, .http_status = 500}, false, -EIO, FAILED, "unknown outcome", false},
    {"408", {.outcome = SERVICE_UNKNOWN, .http_status = 408}, false, -EIO, FAILED, "unknown outcome", false},
    {"a web page",
     {.outcome = SERVICE_UNKNOWN, .http_status = 200},
     false,
     -EIO,
     FAILED,
     "unknown outcome",
     false},
    {"500, keys trusted", {.outcome = SERVICE_UNKNOWN, .http_status = 500}, true, -EAGAIN, OUT, NULL, false},
};

static void run_row(const struct row *row)
{
    void *state;
    struct fixture *fixture = malloc(sizeof(*fixture));
    fixture_prepare(fixture);
    fixture->config.trusts_idempotency = row->is_trusted;
    fixture_open(fixture);
    state = fixture;
    print_message("# %s\n", row->what);

    fake_service_push(fixture->fake, FAKE_SEND, row->answer);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), row->settled);
    assert_true(is_listed(fixture, row->folder, "m.eml"));
    await_paused(fixture, row->is_paused);
    if (row->state != NULL) {
        char part[64];
        snprintf(part, sizeof(part), "\"state\": \"%s\"", row->state);
        assert_true(shown_contains(fixture, row->folder, "m.eml.receipt.json", part));
    }
    assert_int_equal(sends(fixture), 1);

    if (row->settled == -EAGAIN) { /* the next attempt succeeds, with the same key */
        outbox_wake(fixture->outbox);
        fake_service_wait_count(fixture->fake, FAKE_SEND, 2);
        await_event(fixture, EVENT_SENT, "sent/m.eml");
        assert_string_equal(fake_service_get(fixture->fake, FAKE_SEND, 0).key,
                            fake_service_get(fixture->fake, FAKE_SEND, 1).key);
        await_paused(fixture, false);
    }
    fixture_teardown(&state);
}

TEST(each_outcome_leads_to_its_state)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        run_row(&rows[i]);
}

FIXTURE_TEST(a_403_with_a_refused_key_stops_the_queue)
{
    struct fixture *fixture = *state;
    struct fake_outcome refused = {.outcome = SERVICE_UNAUTHORIZED, .http_status = 403};
    fake_service_set(fixture->fake, FAKE_SEND, refused);
    fake_service_set(fixture->fake, FAKE_LIST_EMAILS, refused);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_paused(fixture, true);
    assert_true(is_listed(fixture, OUT, "m.eml"));
    assert_int_equal(fake_service_get(fixture->fake, FAKE_LIST_EMAILS, 0).limit, 1);

    fake_service_set(fixture->fake, FAKE_SEND, (struct fake_outcome){0});
    fake_clock_advance(&fixture->clock, 60 * 1000);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
}

FIXTURE_TEST(an_outage_pauses_the_queue_and_one_message_is_tried)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "0.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_paused(fixture, true);
    for (int i = 1; i < 20; i++) {
        char name[16];
        char content[128];
        snprintf(name, sizeof(name), "%d.eml", i);
        snprintf(content, sizeof(content), "To: r%d@x.example\nSubject: s\n\nb\n", i);
        assert_int_equal(mail(fixture, name, content), 0);
    }
    unsigned int before = sends(fixture);
    fake_clock_advance(&fixture->clock, 1000);
    fake_service_wait_count(fixture->fake, FAKE_SEND, before + 1);
    struct outbox_status status = await_next_attempt(fixture);
    assert_int_equal(status.queued, 20);
    assert_int_equal(sends(fixture), before + 1);

    before = sends(fixture);
    fake_service_set_reachable(fixture->fake, true);
    outbox_wake(fixture->outbox);
    fake_service_wait_count(fixture->fake, FAKE_SEND, before + 20);
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 20);
}

FIXTURE_TEST(a_retry_after_delays_the_next_attempt)
{
    struct fixture *fixture = *state;
    fake_service_push(
        fixture->fake, FAKE_SEND,
        (struct fake_outcome){
            .outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN, .retry_after_ms = HOUR_MS});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    struct outbox_status status = await_paused(fixture, true);
    assert_true(status.next_attempt_ms >= NOON + HOUR_MS);
    fake_clock_advance(&fixture->clock, HOUR_MS - 1000);
    assert_int_equal(settle(fixture), -EAGAIN);
    assert_int_equal(sends(fixture), 1);
    fake_clock_advance(&fixture->clock, 1000);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
}

FIXTURE_TEST(files_are_uploaded_while_sending_is_suspended)
{
    struct fixture *fixture = *state;
    fake_service_push(
        fixture->fake, FAKE_SEND,
        (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 429, .retry_after_ms = 12 * HOUR_MS});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    copy_in(fixture, ATTACHED, "a.txt", "text");
    assert_int_equal(settle_uploads(fixture), 0);
    assert_true(await_paused(fixture, true).error[0] != '\0');
}

FIXTURE_TEST(a_message_of_unknown_outcome_is_sent_again_only_by_the_user)
{
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EIO);
    outbox_wake(fixture->outbox);
    fake_clock_advance(&fixture->clock, 24 * HOUR_MS);
    assert_int_equal(mail(fixture, "other.eml", "To: o@x.example\nSubject: s\n\nb\n"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 2);
    assert_true(is_listed(fixture, FAILED, "m.eml"));
}

/* The message arrived, but the answer was lost. A user who reads `failed` would send it again. */
FIXTURE_TEST(a_message_that_may_have_arrived_is_never_reported_as_failed)
{
    struct fixture *fixture = *state;
    const struct fake_outcome refused = {.outcome = SERVICE_REJECTED, .http_status = 422};
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    fake_service_set(fixture->fake, FAKE_SEND, refused);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    outbox_wake(fixture->outbox); /* the outbox repeats the request */
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(sends(fixture), 2);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"unknown outcome\""));

    assert_int_equal(outbox_retry(fixture->outbox, "m.eml"), 0); /* the user sends it again */
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(sends(fixture), 3);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"unknown outcome\""));

    assert_int_equal(/* an edited text is a new message, which certainly did not arrive */
                     outbox_take_out(fixture->outbox, OUTBOX_FOLDER_FAILED, "m.eml", fixture->drafts, "m.eml",
                                     0),
                     0);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE "and more\n"), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"failed\""));
    assert_string_equal(fake_service_get(fixture->fake, FAKE_SEND, 0).key,
                        fake_service_get(fixture->fake, FAKE_SEND, 2).key);
    assert_string_not_equal(fake_service_get(fixture->fake, FAKE_SEND, 0).key,
                            fake_service_get(fixture->fake, FAKE_SEND, 3).key);
}

/* The service may have accepted the first attempt, and the message waits for its next one. */
FIXTURE_TEST(a_message_moved_to_drafts_between_attempts_gets_a_new_key)
{
    struct fixture *fixture = *state;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    assert_int_equal(
        outbox_take_out(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", fixture->drafts, "m.eml", 0), 0);
    assert_true(has_event(fixture, EVENT_FAILED, "outbox/m.eml"));
    fixture_reopen(fixture);
    assert_int_equal(move_in(fixture, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_string_not_equal(fake_service_get(fixture->fake, FAKE_SEND, 0).key,
                            fake_service_get(fixture->fake, FAKE_SEND, 1).key);
}

FIXTURE_TEST(an_attempt_after_an_unknown_outcome_is_marked_as_a_repeat)
{
    struct fixture *fixture = *state;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    fixture_reopen(fixture);
    outbox_wake(fixture->outbox);
    assert_int_equal(settle(fixture), 0);
    assert_false(fake_service_get(fixture->fake, FAKE_SEND, 0).is_repeat);
    assert_true(fake_service_get(fixture->fake, FAKE_SEND, 1).is_repeat);
    assert_int_equal(mail(fixture, "other.eml", MESSAGE "And you?\n"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_false(fake_service_get(fixture->fake, FAKE_SEND, 2).is_repeat);
}

FIXTURE_TEST(a_receipt_keeps_the_http_status_when_keys_are_no_longer_trusted)
{
    struct fixture *fixture = *state;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    fixture->config.trusts_idempotency = false;
    fixture_reopen(fixture);
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_FAILED, "failed/m.eml");
    assert_int_equal(sends(fixture), 1);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"http_status\": 502"));
}

FIXTURE_TEST(the_receipt_of_an_unknown_outcome_quotes_the_service)
{
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){
                          .outcome = SERVICE_UNKNOWN, .http_status = 502, .detail = "no answer upstream"});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "or not: no answer upstream"));
}

enum {
    CONTACT_UNTOLD,
    CONTACT_LOST,
    CONTACT_MADE,
};

static void note_contact(void *context, bool is_reached)
{
    atomic_int *contact = context;
    *contact = is_reached ? CONTACT_MADE : CONTACT_LOST;
}

FIXTURE_TEST(a_refused_api_key_is_reported_as_lost_contact)
{
    struct fixture *fixture = *state;
    atomic_int contact = CONTACT_UNTOLD;
    fixture->config.contact.asked = note_contact;
    fixture->config.contact.context = &contact;
    fixture_reopen(fixture);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNAUTHORIZED, .http_status = 401});
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    await_paused(fixture, true);
    fixture_close(fixture); /* ends the threads that call the listener */
    assert_int_equal(contact, CONTACT_LOST);
    fixture_open(fixture);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    fixture_reopen(fixture);
    assert_int_equal(contact, CONTACT_MADE);
    fixture_close(fixture);
    fixture->config.contact.asked = NULL;
    fixture_open(fixture);
}

/* A message must not be repeated without its key after the service refused keys. */
FIXTURE_TEST(an_unknown_outcome_is_not_repeated_if_the_service_refuses_idempotency_keys)
{
    struct fixture *fixture = *state;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    fake_service_set_capabilities(fixture->fake,
                                  &(struct service_capabilities){.idempotency_key = CAPABILITY_ABSENT});
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 500});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"unknown outcome\""));
}

FIXTURE_TEST(messages_to_the_same_recipients_are_sent_in_order)
{
    struct fixture *fixture = *state;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    for (int i = 0; i < 10; i++) {
        char name[16];
        char content[160];
        snprintf(name, sizeof(name), "%d.eml", i);
        snprintf(content, sizeof(content), "To: %s\nSubject: number %d\n\nb\n",
                 i % 2 == 0 ? "bob@x.example, Ann <ann@x.example>" : "ANN@x.example, bob@x.example", i);
        assert_int_equal(mail(fixture, name, content), 0);
    }
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(settle(fixture), 0);
    for (unsigned int i = 0; i < 10; i++) {
        char part[32];
        snprintf(part, sizeof(part), "number %u", i);
        assert_true(sent_contains(fixture, i, part));
    }
    assert_int_equal(fake_service_most_at_once(fixture->fake, FAKE_SEND), 1);
}

FIXTURE_TEST(many_slow_messages_do_not_block_others)
{
    enum {
        SLOW = 15
    };
    struct fixture *fixture = *state;
    assert_int_equal(mail(fixture, "first.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), 0);
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    for (unsigned int i = 0; i < SLOW; i++) {
        char name[32];
        char content[80];
        snprintf(name, sizeof(name), "slow%u.eml", i);
        snprintf(content, sizeof(content), "To: slow%u@x.example\nSubject: s\n\nb\n", i);
        assert_int_equal(mail(fixture, name, content), 0);
        fake_service_wait_at_gate(fixture->fake, FAKE_SEND, i + 1);
    }
    assert_int_equal(mail(fixture, "quick.eml", MESSAGE), 0);
    /* The request for the quick message begins nevertheless. */
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, SLOW + 1);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), SLOW + 2);
}

/* The removal of an attachment hands in the messages that bind it, and must not wait for the service. */
FIXTURE_TEST(waiting_files_are_handed_in_while_all_workers_are_busy)
{
    enum {
        AT_ONCE = 16
    };
    struct fixture *fixture = *state;
    assert_int_equal(mail(fixture, "first.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), 0);
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    for (unsigned int i = 0; i < AT_ONCE; i++) {
        char name[32];
        char content[80];
        snprintf(name, sizeof(name), "slow%u", i);
        snprintf(content, sizeof(content), "To: slow%u@x.example\nSubject: s\n\nb\n", i);
        assert_int_equal(mail(fixture, name, content), 0);
        copy_in(fixture, ATTACHED, name, "slow");
    }
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, AT_ONCE);
    fake_service_wait_at_gate(fixture->fake, FAKE_UPLOAD, AT_ONCE);
    copy_in(fixture, OUT, "bad.eml", "bad");
    fake_clock_advance(&fixture->clock, 2000);
    await_event(fixture, EVENT_FAILED, "failed/bad.eml");
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(settle(fixture), -EIO);
}

FIXTURE_TEST(many_slow_uploads_leave_room_for_messages)
{
    enum {
        SLOW = 40,
        AT_ONCE = 16
    };
    struct fixture *fixture = *state;
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    for (unsigned int i = 0; i < SLOW; i++) {
        char name[32];
        snprintf(name, sizeof(name), "slow%u.txt", i);
        copy_in(fixture, ATTACHED, name, "slow");
    }
    fake_service_wait_at_gate(fixture->fake, FAKE_UPLOAD, AT_ONCE);
    assert_int_equal(mail(fixture, "quick.eml", MESSAGE), 0);
    await_event(fixture, EVENT_SENT, "sent/quick.eml");
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(fake_service_most_at_once(fixture->fake, FAKE_UPLOAD), AT_ONCE);
}

/* After a rest the first message is sent alone, but only until a list shows that the service answers. */
FIXTURE_TEST(a_slow_message_blocks_no_other)
{
    struct fixture *fixture = *state;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "slow.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    assert_int_equal(mail(fixture, "other.eml", "To: o@x.example\nSubject: s\n\nb\n"), 0);
    fake_clock_advance(&fixture->clock, 2000);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 2);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(settle(fixture), 0);
}

/* However often a message is tried, it counts as one message of the day. */
FIXTURE_TEST(a_repeated_message_counts_once_towards_the_daily_limit)
{
    struct fixture *fixture = *state;
    struct outbox_status status;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    for (int i = 0; i < 3; i++)
        fake_service_push(fixture->fake, FAKE_SEND,
                          (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(settle(fixture), -EAGAIN);
        outbox_wake(fixture->outbox);
    }
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 4);
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.sent_today, 1);
}

FIXTURE_TEST(the_removal_of_a_message_lets_the_next_one_to_its_recipients_go)
{
    struct fixture *fixture = *state;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    assert_int_equal(mail(fixture, "n.eml", MESSAGE "and more\n"), 0);
    fake_clock_await_waiters(&fixture->clock, 4); /* all workers */
    assert_int_equal(sends(fixture), 1);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), 0);
    await_event(fixture, EVENT_SENT, "sent/n.eml");
}

FIXTURE_TEST(a_second_hand_in_begins_with_the_shortest_backoff)
{
    struct fixture *fixture = *state;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    for (int i = 0; i < 6; i++)
        fake_service_push(fixture->fake, FAKE_SEND,
                          (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502});
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 422});
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(settle(fixture), -EAGAIN);
        outbox_wake(fixture->outbox);
    }
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    struct outbox_status status = await_next_attempt(fixture);
    assert_in_range(status.next_attempt_ms, NOON, NOON + 1000);
    fake_clock_advance(&fixture->clock, 1000);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
}

#define MESSAGE_WITH_PART                                                              \
    "To: bob@x.example\nSubject: s\nMIME-Version: 1.0\n"                               \
    "Content-Type: multipart/mixed; boundary=b\n\n"                                    \
    "--b\nContent-Type: text/plain\n\nhello\n"                                         \
    "--b\nContent-Type: text/csv\nContent-Disposition: attachment; filename=a.csv\n\n" \
    "1,2\n--b--\n"

FIXTURE_TEST(a_message_whose_part_gets_no_id_fails)
{
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_UPLOAD, (struct fake_outcome){.without_id = true});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE_WITH_PART), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(sends(fixture), 0);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "gave it no id"));
}

FIXTURE_TEST(mime_parts_are_uploaded_once_before_the_message)
{
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_RETRY});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE_WITH_PART), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 1);
    assert_string_equal(fake_service_get(fixture->fake, FAKE_UPLOAD, 0).text, "a.csv");
    assert_true(sent_contains(fixture, 1, "attachment_ids"));
}

/* The service would refuse a different request under the same key. */
FIXTURE_TEST(a_message_with_a_part_is_repeated_with_its_pool_ids)
{
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE_WITH_PART), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "m.eml"), 0); /* unedited */
    assert_int_equal(settle(fixture), -EIO);
    fixture_reopen(fixture);
    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    const char *first = fake_service_get(fixture->fake, FAKE_SEND, 0).text;
    assert_string_equal(fake_service_get(fixture->fake, FAKE_SEND, 1).text, first);
    assert_string_equal(fake_service_get(fixture->fake, FAKE_SEND, 2).text, first);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 1);
}

FIXTURE_TEST(an_edited_message_uploads_its_part_again)
{
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE_WITH_PART), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(
        outbox_take_out(fixture->outbox, OUTBOX_FOLDER_FAILED, "m.eml", fixture->drafts, "m.eml", 0), 0);
    assert_int_equal(
        mail(fixture, "m.eml", MESSAGE_WITH_PART "An epilogue, which makes it another message.\n"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 2);
    assert_string_not_equal(fake_service_get(fixture->fake, FAKE_SEND, 0).text,
                            fake_service_get(fixture->fake, FAKE_SEND, 1).text);
}

/* After a restart, a part whose id is not on the disk would be uploaded again. So the message waits. */
FIXTURE_TEST(a_full_disk_between_upload_and_send_only_delays_the_message)
{
    struct fixture *fixture = *state;
    const char *message = "To: bob@x.example\nSubject: s\nMIME-Version: 1.0\n"
                          "Content-Type: multipart/mixed; boundary=b\n\n"
                          "--b\nContent-Type: text/csv\nContent-Disposition: attachment; filename=a.csv\n\n"
                          "1,2\n--b--\n";
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(mail(fixture, "m.eml", message), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_UPLOAD, 1);
    const struct rlimit full = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    await_next_attempt(fixture);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(sends(fixture), 0);
    assert_true(is_listed(fixture, OUT, "m.eml"));
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 1);
}

FIXTURE_TEST(a_full_disk_at_the_hand_in_only_delays_the_message)
{
    struct fixture *fixture = *state;
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    copy_in(fixture, OUT, "m.eml", MESSAGE);
    const struct rlimit full = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(is_listed(fixture, OUT, "m.eml"));
    assert_int_equal(sends(fixture), 0);
    fake_clock_advance(&fixture->clock, 10 * 1000);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 1);
}

FIXTURE_TEST(a_refused_pool_id_is_uploaded_again_once)
{
    struct fixture *fixture = *state;
    struct fake_outcome refused = {
        .outcome = SERVICE_REJECTED, .http_status = 422, .detail = "attachment_ids: unknown id"};
    copy_in(fixture, ATTACHED, "a.txt", "text");
    assert_int_equal(settle_uploads(fixture), 0);
    fake_service_push(fixture->fake, FAKE_SEND, refused);
    assert_int_equal(mail(fixture, "m.eml", "To: b@x.example\nAttach: a.txt\nSubject: s\n\nb\n"), 0);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 2);
    assert_int_equal(sends(fixture), 2);

    fake_service_set(fixture->fake, FAKE_SEND, refused);
    assert_int_equal(mail(fixture, "n.eml", "To: b@x.example\nAttach: a.txt\nSubject: s\n\nb\n"), 0);
    await_event(fixture, EVENT_FAILED, "failed/n.eml");
    assert_int_equal(sends(fixture), 4);
}

/* The service may have accepted an earlier request with these ids. */
FIXTURE_TEST(refused_pool_ids_of_a_possible_repeat_are_kept)
{
    struct fixture *fixture = *state;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    copy_in(fixture, ATTACHED, "a.txt", "text");
    assert_int_equal(settle_uploads(fixture), 0);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED,
                                            .http_status = 422,
                                            .detail = "attachment_ids: unknown id"});
    assert_int_equal(mail(fixture, "m.eml", "To: b@x.example\nAttach: a.txt\nSubject: s\n\nb\n"), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_next_attempt(fixture);
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_FAILED, "failed/m.eml");
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 1);
    assert_int_equal(sends(fixture), 2);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "unknown outcome"));
}

/* If keys are not trusted, a user who hands a message in again wants it sent again, with new ids. */
FIXTURE_TEST(refused_pool_ids_are_replaced_when_a_user_sends_again)
{
    struct fixture *fixture = *state;
    copy_in(fixture, ATTACHED, "a.txt", "text");
    assert_int_equal(settle_uploads(fixture), 0);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502});
    assert_int_equal(mail(fixture, "m.eml", "To: b@x.example\nAttach: a.txt\nSubject: s\n\nb\n"), 0);
    assert_int_equal(settle(fixture), -EIO);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED,
                                            .http_status = 422,
                                            .detail = "attachment_ids: unknown id"});
    assert_int_equal(outbox_retry(fixture->outbox, "m.eml"), 0);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 2);
    assert_int_equal(sends(fixture), 3);
}

FIXTURE_TEST(a_queue_survives_a_restart)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    copy_in(fixture, OUT, "n.eml", "To: c@x.example\nSubject: s\n\nb\n");
    assert_int_equal(settle(fixture), -EAGAIN);
    fixture_close(fixture);
    fake_service_set_reachable(fixture->fake, true);
    fixture_open(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "m.eml"));
    assert_true(is_listed(fixture, SENT, "n.eml"));
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 2);

    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 2);
    assert_true(shown_contains(fixture, SENT, "m.eml.receipt.json", "bob@x.example"));
}
