/* SPDX-License-Identifier: MIT */
/*
 * While another server answers in place of the service (a proxy, a gateway, a sign-in page), at most one
 * message finds that out, and none is sent if a list has shown it already.
 */
#include "outbox_fixture.h"

#include <stdatomic.h>

#include "support/test.h"

enum {
    MESSAGES = 20,
    LONGEST_WAIT_MS = 20 * 60 * 1000, /* more than any backoff */
};

#define WITH_PART                                                     \
    "To: bob@x.example\nSubject: s\nMIME-Version: 1.0\n"              \
    "Content-Type: multipart/mixed; boundary=\"b\"\n\n--b\n\nHello\n" \
    "--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename=\"p.txt\"\n\np\n--b--\n"

static void mail_many(struct fixture *fixture, int count)
{
    for (int i = 0; i < count; i++) {
        char name[32];
        char content[100];
        snprintf(name, sizeof(name), "%d.eml", i);
        snprintf(content, sizeof(content), "To: bob%d@x.example\nSubject: Hello\n\nb\n", i);
        assert_int_equal(mail(fixture, name, content), 0);
    }
}

static void answer_everything_with(struct fixture *fixture, struct fake_outcome answer)
{
    struct fake_outcome of_list = answer;
    if (of_list.outcome == SERVICE_UNKNOWN)
        of_list.outcome = SERVICE_RETRY; /* as `api` reports it for GET requests */
    fake_service_set(fixture->fake, FAKE_SEND, answer);
    fake_service_set(fixture->fake, FAKE_LIST_EMAILS, of_list);
}

static void await_all_sent(struct fixture *fixture, size_t count)
{
    struct outbox_status status;
    for (int i = 0; i < 20000; i++) {
        outbox_get_status(fixture->outbox, &status);
        if (status.sent == count && status.queued == 0)
            return;
        usleep(1000);
    }
    fail_msg("%zu sent, %zu wait", status.sent, status.queued);
}

/* The result of the first attempt is saved by its own thread. */
static void await_failed(struct fixture *fixture, size_t failed, size_t queued)
{
    struct outbox_status status;
    for (int i = 0; i < 20000; i++) {
        outbox_get_status(fixture->outbox, &status);
        if (status.failed == failed && status.queued == queued)
            return;
        usleep(1000);
    }
    fail_msg("%zu failed, %zu wait", status.failed, status.queued);
}

static void one_message_pays_at_most(struct fixture *fixture, struct fake_outcome answer)
{
    size_t lost = answer.outcome == SERVICE_UNKNOWN ? 1 : 0;
    answer_everything_with(fixture, answer);
    mail_many(fixture, MESSAGES);
    struct outbox_status status = await_paused(fixture, true);
    assert_string_equal(status.error, answer.detail);
    for (unsigned int i = 0; i < 3; i++) {
        unsigned int lists = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
        fake_clock_advance(&fixture->clock, LONGEST_WAIT_MS);
        fake_service_wait_count(fixture->fake, FAKE_LIST_EMAILS, lists + 1);
        await_next_attempt(fixture);
    }
    assert_int_equal(sends(fixture), 1);
    await_failed(fixture, lost, MESSAGES - lost);

    answer_everything_with(fixture, (struct fake_outcome){0});
    fake_clock_advance(&fixture->clock, LONGEST_WAIT_MS);
    await_all_sent(fixture, MESSAGES - lost);
    assert_int_equal(sends(fixture), 1 + MESSAGES - lost);
    await_paused(fixture, false);
}

TEST(a_foreign_answer_costs_at_most_one_message_of_twenty)
{
    static const struct fake_outcome answers[] = {
        {.outcome = SERVICE_REJECTED, .http_status = 302, .detail = "a redirect"},
        {.outcome = SERVICE_RETRY,
         .http_status = 403,
         .error = EHOSTUNREACH,
         .detail = "a page that forbids"},
        {.outcome = SERVICE_REJECTED, .http_status = 404, .detail = "no such path"},
        {.outcome = SERVICE_REJECTED, .http_status = 413, .detail = "a page that finds it too large"},
        {.outcome = SERVICE_RETRY, .http_status = 407, .error = EHOSTUNREACH, .detail = "a login"},
        {.outcome = SERVICE_UNKNOWN, .http_status = 502, .detail = "a bad gateway"},
        {.outcome = SERVICE_UNKNOWN, .http_status = 504, .detail = "no answer upstream"},
        {.outcome = SERVICE_UNKNOWN, .http_status = 200, .detail = "a page"},
    };
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        void *fixture = NULL;
        struct fake_outcome answer = answers[i];
        answer.is_foreign = true;
        fixture_setup(&fixture);
        one_message_pays_at_most(fixture, answer);
        fixture_teardown(&fixture);
    }
}

static bool load_flag(void *context)
{
    return atomic_load((atomic_bool *)context);
}

FIXTURE_TEST(nothing_is_sent_while_lists_fail)
{
    struct fixture *fixture = *state;
    atomic_bool is_lost = true;
    fixture->config.contact.is_lost = load_flag;
    fixture->config.contact.context = &is_lost;
    fixture_reopen(fixture);
    answer_everything_with(
        fixture,
        (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 500, .detail = "no list to be had"});
    mail_many(fixture, MESSAGES);
    struct outbox_status status = await_paused(fixture, true);
    assert_string_equal(status.error, "no list to be had");
    assert_int_equal(settle(fixture), -EAGAIN);
    fake_clock_advance(&fixture->clock, LONGEST_WAIT_MS);
    fake_service_wait_count(fixture->fake, FAKE_LIST_EMAILS, 2);
    await_next_attempt(fixture);
    assert_int_equal(sends(fixture), 0);

    answer_everything_with(fixture, (struct fake_outcome){0});
    fake_clock_advance(&fixture->clock, LONGEST_WAIT_MS);
    await_all_sent(fixture, MESSAGES);
    fixture_close(fixture);
    fixture->config.contact.is_lost = NULL;
    fixture_open(fixture);
}

FIXTURE_TEST(attachments_wait_while_answers_are_foreign)
{
    struct fixture *fixture = *state;
    const struct fake_outcome page = {
        .outcome = SERVICE_REJECTED, .http_status = 404, .is_foreign = true, .detail = "a page"};
    answer_everything_with(fixture, page);
    fake_service_set(fixture->fake, FAKE_UPLOAD, page);
    copy_in(fixture, ATTACHED, "a.txt", "text");
    assert_int_equal(mail(fixture, "m.eml", "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"), 0);
    assert_int_equal(settle_uploads(fixture), -EAGAIN);
    assert_true(is_listed(fixture, ATTACHED, "a.txt"));
    assert_true(is_listed(fixture, OUT, "m.eml"));
    answer_everything_with(fixture, (struct fake_outcome){0});
    fake_service_set(fixture->fake, FAKE_UPLOAD, (struct fake_outcome){0});
    fake_clock_advance(&fixture->clock, LONGEST_WAIT_MS);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
}

/* A message that a gateway never lets through must not block all others. */
FIXTURE_TEST(a_foreign_refusal_of_one_message_alone_fails_it)
{
    static const struct fake_outcome refusals[] = {
        {.outcome = SERVICE_REJECTED, .http_status = 413, .is_foreign = true},
        {.outcome = SERVICE_RETRY, .http_status = 403, .error = EHOSTUNREACH, .is_foreign = true},
        {.outcome = SERVICE_REJECTED, .http_status = 404},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        char name[32];
        char path[48];
        snprintf(name, sizeof(name), "bad%zu.eml", i);
        snprintf(path, sizeof(path), "failed/bad%zu.eml", i);
        fake_service_push(fixture->fake, FAKE_SEND, refusals[i]);
        assert_int_equal(mail(fixture, name, MESSAGE), 0);
        await_event(fixture, EVENT_FAILED, path);
        snprintf(name, sizeof(name), "good%zu.eml", i);
        snprintf(path, sizeof(path), "sent/good%zu.eml", i);
        assert_int_equal(mail(fixture, name, MESSAGE), 0);
        fake_clock_advance(&fixture->clock, LONGEST_WAIT_MS);
        await_event(fixture, EVENT_SENT, path);
    }
}

/* A gateway may refuse the uploads of one item alone, by 429 or 503: that item waits for its own time. */
FIXTURE_TEST(a_foreign_busy_answer_to_one_upload_delays_no_other)
{
    const struct fake_outcome busy = {.outcome = SERVICE_RETRY, .http_status = 503, .is_foreign = true};
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_UPLOAD, busy);
    copy_in(fixture, ATTACHED, "a.txt", "text");
    fake_service_wait_count(fixture->fake, FAKE_UPLOAD, 1);
    copy_in(fixture, ATTACHED, "b.txt", "text");
    assert_int_equal(settle_uploads(fixture), -EAGAIN);
    fake_clock_advance(&fixture->clock, 1000);
    fake_service_wait_count(fixture->fake, FAKE_UPLOAD, 2);
    assert_string_equal(fake_service_get(fixture->fake, FAKE_UPLOAD, 1).text, "b.txt");
}

FIXTURE_TEST(a_foreign_busy_answer_to_the_parts_of_one_message_delays_no_other)
{
    struct fixture *fixture = *state;
    fake_service_set(fixture->fake, FAKE_UPLOAD,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 429, .is_foreign = true});
    assert_int_equal(mail(fixture, "parts.eml", WITH_PART), 0);
    await_paused(fixture, true);
    assert_int_equal(mail(fixture, "other.eml", "To: carol@x.example\nSubject: s\n\nb\n"), 0);
    fake_clock_advance(&fixture->clock, 1000);
    await_event(fixture, EVENT_SENT, "sent/other.eml");
}

FIXTURE_TEST(after_an_outage_one_long_upload_delays_no_other_message)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "long.eml", WITH_PART), 0);
    await_paused(fixture, true);
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    fake_service_set_reachable(fixture->fake, true);
    fake_clock_advance(&fixture->clock, LONGEST_WAIT_MS);
    fake_service_wait_at_gate(fixture->fake, FAKE_UPLOAD, 1);
    assert_int_equal(mail(fixture, "short.eml", "To: carol@x.example\nSubject: s\n\nb\n"), 0);
    fake_clock_advance(&fixture->clock, 60 * 1000);
    await_event(fixture, EVENT_SENT, "sent/short.eml");
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    await_event(fixture, EVENT_SENT, "sent/long.eml");
}

/* A gateway gives up after a minute. Meanwhile a list, not a second message, shows that it is foreign. */
FIXTURE_TEST(a_slow_send_causes_a_list_and_no_second_send)
{
    struct fixture *fixture = *state;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    fake_service_set(fixture->fake, FAKE_LIST_EMAILS,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 504, .is_foreign = true});
    mail_many(fixture, 3);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    fake_clock_advance(&fixture->clock, 2000);
    await_paused(fixture, true);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_LIST_EMAILS), 1);
    assert_int_equal(sends(fixture), 0);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    await_all_sent(fixture, 3);
    assert_int_equal(fake_service_most_at_once(fixture->fake, FAKE_SEND), 1);
}
