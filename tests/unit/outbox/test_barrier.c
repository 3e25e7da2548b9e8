/* SPDX-License-Identifier: MIT */
/*
 * Barriers (fsync of outbox/): their waits and results; and the daily limit, the cause of the longest
 * waits.
 */
#include "outbox_fixture.h"

#include "outbox/change.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/thread.h"
#include "support/test.h"

struct waiting {
    struct fixture *fixture;
    struct cancel cancel;
    pthread_t thread;
    int result;
};

static void *wait_settled(void *argument)
{
    struct waiting *waiting = argument;
    waiting->result =
        outbox_wait_settled(waiting->fixture->outbox, OUTBOX_FOLDER_OUTBOX, 0, &waiting->cancel);
    return NULL;
}

static void begin_wait(struct waiting *waiting, struct fixture *fixture)
{
    *waiting = (struct waiting){.fixture = fixture};
    cancel_init(&waiting->cancel);
    assert_int_equal(thread_start(&waiting->thread, "barrier", wait_settled, waiting), 0);
    fake_clock_await_waiters(&fixture->clock, 1);
}

static int end_wait(struct waiting *waiting)
{
    pthread_join(waiting->thread, NULL);
    cancel_release(&waiting->cancel);
    return waiting->result;
}

FIXTURE_TEST(a_barrier_with_nothing_to_wait_for_succeeds)
{
    struct fixture *fixture = *state;
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_SENT, 0, NULL), 0);
}

FIXTURE_TEST(a_failed_message_is_reported_once)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "bad.eml", "bad");
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(settle_uploads(fixture), 0);
    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), 0);
}

FIXTURE_TEST(a_failed_upload_is_reported_once)
{
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_UPLOAD,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 413});
    copy_in(fixture, ATTACHED, "bad.txt", "bad");
    assert_int_equal(settle_uploads(fixture), -EIO);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(settle(fixture), 0);
    fixture_reopen(fixture);
    assert_int_equal(settle_uploads(fixture), 0);
}

/* The barrier and each idle worker wait on the clock. */
enum {
    IDLE_WHILE_ONE_SENDS = 3
};

FIXTURE_TEST(a_barrier_waits_at_most_ten_seconds)
{
    struct fixture *fixture = *state;
    struct waiting waiting;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, fixture);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    fake_clock_advance(&fixture->clock, 10 * 1000);
    assert_int_equal(end_wait(&waiting), -EAGAIN);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(settle(fixture), 0);
}

/* The barrier must not wait ten seconds for the second message when the first has to wait for the service. */
FIXTURE_TEST(a_barrier_reports_a_waiting_message_while_another_is_sent)
{
    struct fixture *fixture = *state;
    struct cancel cancel;
    fake_service_set(fixture->fake, FAKE_UPLOAD,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    copy_in(fixture, ATTACHED, "a.txt", "text");
    await_next_attempt(fixture);
    assert_int_equal(mail(fixture, "first.eml", "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"), 0);
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "second.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    cancel_init(&cancel);
    cancel_set(&cancel); /* interrupts the caller that waits */
    assert_int_equal(outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_OUTBOX, 0, &cancel), -EAGAIN);
    cancel_release(&cancel);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
}

/* The message was handed in after the first barrier began, and failed before that barrier ended. */
FIXTURE_TEST(a_later_failure_is_reported_by_the_next_barrier)
{
    struct fixture *fixture = *state;
    struct waiting waiting;
    const struct fake_outcome refused = {.outcome = SERVICE_REJECTED, .http_status = 422};
    assert_int_equal(mail(fixture, "first.eml", MESSAGE), 0); /* after a rest the first is sent alone */
    assert_int_equal(settle(fixture), 0);
    fake_service_set(fixture->fake, FAKE_UPLOAD, refused);
    fake_service_set(fixture->fake, FAKE_SEND, refused);
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(mail(fixture, "slow.eml",
                          "To: b@x.example\nSubject: s\nMIME-Version: 1.0\n"
                          "Content-Type: multipart/mixed; boundary=b\n\n"
                          "--b\nContent-Type: text/csv\nContent-Disposition: attachment; filename=a.csv\n\n"
                          "1,2\n--b--\n"),
                     0);
    fake_service_wait_at_gate(fixture->fake, FAKE_UPLOAD, 1);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, fixture);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    assert_int_equal(mail(fixture, "later.eml", MESSAGE), 0);
    await_event(fixture, EVENT_FAILED, "failed/later.eml");
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(end_wait(&waiting), -EIO);
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(settle(fixture), 0);
}

/* Starts a process in a new session. It runs until the test kills it. */
static pid_t start_session(void)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        _exit(write(ready[1], &byte, 1) == 1 && pause() == 0);
    }
    assert_true(pid > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end_session(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int mail_as(struct fixture *fixture, pid_t pid, const char *name)
{
    const struct hand_in to = {.folder = OUTBOX_FOLDER_OUTBOX, .name = name};
    put_draft(fixture, name, MESSAGE);
    return outbox_hand_in(fixture->outbox, fixture->drafts, name, name, &to, pid, NULL);
}

static int settle_as(struct fixture *fixture, pid_t pid)
{
    return outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_OUTBOX, pid, NULL);
}

FIXTURE_TEST(an_earlier_failure_is_reported_to_its_session)
{
    struct fixture *fixture = *state;
    pid_t one = start_session();
    pid_t other = start_session();
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 422});
    assert_int_equal(mail_as(fixture, one, "bad.eml"), 0);
    await_event(fixture, EVENT_FAILED, "failed/bad.eml");
    assert_int_equal(settle_as(fixture, other), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(settle_as(fixture, one), -EIO);
    assert_int_equal(settle_as(fixture, one), 0);

    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    assert_int_equal(
        outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "written.eml", other, NULL, &handle, &stat), 0);
    append(handle, "bad", 0);
    finish(handle);
    fake_clock_advance(&fixture->clock, QUIET_MS);
    await_event(fixture, EVENT_FAILED, "failed/written.eml");
    assert_int_equal(settle_as(fixture, one), 0);
    assert_int_equal(settle_as(fixture, other), -EIO);
    end_session(one);
    end_session(other);
}

FIXTURE_TEST(a_failure_is_reported_to_the_waiting_barrier_and_to_its_session)
{
    struct fixture *fixture = *state;
    struct waiting waiting;
    pid_t one = start_session();
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 422});
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail_as(fixture, one, "bad.eml"), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, fixture);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(end_wait(&waiting), -EIO);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(settle_as(fixture, one), -EIO);
    assert_int_equal(settle_as(fixture, one), 0);
    end_session(one);
}

/* An empty file of a never-sent name, such as the swap file of an editor, waits for nothing. */
FIXTURE_TEST(an_empty_message_is_reported_to_its_session)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    pid_t one = start_session();
    copy_in(fixture, OUT, ".m.eml.swp", "");
    copy_in(fixture, ATTACHED, "a.txt", "");
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", one, NULL, &handle, &stat),
                     0);
    assert_int_equal(settle_as(fixture, one), 0); /* the program may still write */
    finish(handle);
    assert_int_equal(mail_as(fixture, one, "n.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(settle_as(fixture, one), -EAGAIN);
    assert_true(is_listed(fixture, SENT, "n.eml"));
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), 0);
    assert_int_equal(settle_as(fixture, one), 0);
    end_session(one);
}

FIXTURE_TEST(a_cancel_ends_the_wait_of_a_barrier)
{
    struct fixture *fixture = *state;
    struct waiting waiting;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, fixture);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    cancel_set(&waiting.cancel);
    assert_int_equal(end_wait(&waiting), -EINTR);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
}

/* A program that has waited reads `events` next. A set cancel shows that the barrier would wait. */
FIXTURE_TEST(a_barrier_waits_until_events_are_published)
{
    struct fixture *fixture = *state;
    struct cancel cancel;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    cancel_init(&cancel);
    cancel_set(&cancel);
    pthread_mutex_lock(&fixture->lock); /* holds up the listeners */
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    for (int i = 0; i < 20000 && !is_listed(fixture, SENT, "m.eml"); i++)
        usleep(1000);
    int result = outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_OUTBOX, 0, &cancel);
    pthread_mutex_unlock(&fixture->lock);
    cancel_release(&cancel);
    assert_int_equal(result, -EINTR);
    assert_true(is_listed(fixture, SENT, "m.eml"));
    assert_int_equal(settle(fixture), 0);
    assert_true(has_event(fixture, EVENT_SENT, "sent/m.eml"));
}

FIXTURE_TEST(a_barrier_ignores_later_messages)
{
    struct fixture *fixture = *state;
    struct waiting waiting;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, fixture);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    assert_int_equal(mail(fixture, "n.eml", MESSAGE), 0);
    copy_in(fixture, OUT, "bad.eml", "bad");
    fake_service_let_pass(fixture->fake, FAKE_SEND, 1);
    assert_int_equal(end_wait(&waiting), 0);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(settle(fixture), -EIO);
}

FIXTURE_TEST(a_barrier_waits_for_the_release_of_closed_files)
{
    struct fixture *fixture = *state;
    struct waiting waiting;
    struct outbox_handle *handle = create(fixture, OUT, "m.eml");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_flush(handle, 0), 0);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    begin_wait(&waiting, fixture); /* the kernel has not sent RELEASE yet */
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 2);
    outbox_release(handle);
    assert_int_equal(end_wait(&waiting), 0);
    assert_true(is_listed(fixture, SENT, "m.eml"));

    handle = create(fixture, OUT, "x.tmp");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_flush(handle, 0), 0); /* a shell keeps a duplicate: the wait has a limit */
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    begin_wait(&waiting, fixture);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 2);
    fake_clock_advance(&fixture->clock, 2000);
    assert_int_equal(end_wait(&waiting), 0);
    outbox_release(handle);
}

static void *take_out(void *argument)
{
    struct waiting *waiting = argument;
    struct fixture *fixture = waiting->fixture;
    waiting->result =
        outbox_take_out(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", fixture->drafts, "m.eml", 0);
    return NULL;
}

static void *rename_edited(void *argument)
{
    struct waiting *waiting = argument;
    struct outbox *outbox = waiting->fixture->outbox;
    waiting->result =
        outbox_rename(outbox, OUTBOX_FOLDER_OUTBOX, "edited", OUTBOX_FOLDER_OUTBOX, "m.eml", 0, 0);
    return NULL;
}

/* Writes and closes the file. Its release comes while another thread is in `call`, which must succeed. */
static void call_before_release(struct fixture *fixture, const char *name, void *(*call)(void *argument))
{
    struct waiting waiting = {.fixture = fixture};
    struct outbox_handle *handle = create(fixture, OUT, name);
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_flush(handle, 0), 0);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    assert_int_equal(thread_start(&waiting.thread, "mv", call, &waiting), 0);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 2);
    outbox_release(handle);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.result, 0);
    assert_int_equal(settle(fixture), 0);
}

FIXTURE_TEST(a_file_that_was_just_closed_can_be_moved_to_drafts)
{
    struct fixture *fixture = *state;
    call_before_release(fixture, "m.eml", take_out);
    assert_int_equal(sends(fixture), 0);
}

FIXTURE_TEST(a_file_that_was_just_closed_can_replace_a_message)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "m.eml", MESSAGE);
    call_before_release(fixture, "edited", rename_edited);
    assert_int_equal(sends(fixture), 1);
}

/* Each program that a shell starts with its output redirected to the file closes the file. */
FIXTURE_TEST(repeated_closes_of_a_file_do_not_prolong_the_wait)
{
    struct fixture *fixture = *state;
    struct waiting waiting;
    struct outbox_handle *handle = create(fixture, OUT, "log");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_flush(handle, 0), 0);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    begin_wait(&waiting, fixture);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 2);
    fake_clock_advance(&fixture->clock, 1500);
    assert_int_equal(outbox_flush(handle, 0), 0);
    fake_clock_advance(&fixture->clock, 500);
    assert_int_equal(end_wait(&waiting), 0);
    outbox_release(handle);
}

FIXTURE_TEST(stopping_the_outbox_ends_barriers)
{
    struct fixture *fixture = *state;
    struct waiting waiting;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, fixture);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    outbox_stop(fixture->outbox);
    assert_int_equal(end_wait(&waiting), -EAGAIN);
    outbox_free(fixture->outbox);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    fixture_open(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 1);
}

/* ---------------------------------------------------------------- the daily limit */

FIXTURE_TEST(messages_over_the_daily_limit_wait_for_midnight)
{
    struct fixture *fixture = *state;
    struct outbox_status status;
    fixture_close(fixture);
    fixture->config.daily_limit = 3;
    fixture_open(fixture);
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d.eml", i);
        assert_int_equal(mail(fixture, name, MESSAGE), 0);
    }
    fake_service_wait_count(fixture->fake, FAKE_SEND, 3);
    await_event(fixture, EVENT_SENT, "sent/2.eml");
    assert_int_equal(settle(fixture), -EAGAIN);
    status = await_next_attempt(fixture);
    assert_int_equal(status.next_attempt_ms, NOON + 12 * HOUR_MS);
    assert_int_equal(status.sent_today, 3);
    assert_int_equal(status.queued, 2);

    fixture_reopen(fixture); /* a restart keeps the count */
    assert_int_equal(settle(fixture), -EAGAIN);
    assert_int_equal(sends(fixture), 3);
    fake_clock_advance(&fixture->clock, 12 * HOUR_MS - 1);
    assert_int_equal(settle(fixture), -EAGAIN);
    assert_int_equal(sends(fixture), 3);
    fake_clock_advance(&fixture->clock, 1);
    await_event(fixture, EVENT_SENT, "sent/4.eml");
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.sent_today, 2);
}

/* Messages to different recipients do not wait for each other. */
FIXTURE_TEST(messages_under_way_count_towards_the_daily_limit)
{
    struct fixture *fixture = *state;
    fixture_close(fixture);
    fixture->config.daily_limit = 2;
    fixture_open(fixture);
    assert_int_equal(mail(fixture, "zero.eml", MESSAGE), 0); /* after a rest the first is sent alone */
    assert_int_equal(settle(fixture), 0);
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "one.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    assert_int_equal(mail(fixture, "two.eml", "To: ann@x.example\nSubject: s\n\nb\n"), 0);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    await_event(fixture, EVENT_SENT, "sent/one.eml");
    assert_int_equal(settle(fixture), -EAGAIN);
    assert_int_equal(sends(fixture), 2);
    assert_true(is_listed(fixture, OUT, "two.eml"));
}

FIXTURE_TEST(unsent_messages_do_not_count_towards_the_daily_limit)
{
    struct fixture *fixture = *state;
    struct outbox_status status;
    fixture_close(fixture);
    fixture->config.daily_limit = 1;
    fixture_open(fixture);
    fake_service_push(fixture->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    assert_int_equal(mail(fixture, "bad.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EIO);
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.sent_today, 0);
    fake_service_push(fixture->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_UNKNOWN});
    assert_int_equal(mail(fixture, "unknown.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EIO);
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.sent_today, 1); /* the message may have been sent */
}

/* An attempt under way may be refused, so only sent messages use up the daily limit. */
FIXTURE_TEST(a_barrier_waits_for_the_attempt_that_decides_about_the_daily_limit)
{
    struct fixture *fixture = *state;
    struct waiting waiting;
    fixture_close(fixture);
    fixture->config.daily_limit = 1;
    fixture_open(fixture);
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    fake_service_push(fixture->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    assert_int_equal(mail(fixture, "bad.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    assert_int_equal(mail(fixture, "good.eml", MESSAGE), 0);
    begin_wait(&waiting, fixture);
    fake_clock_await_waiters(&fixture->clock, IDLE_WHILE_ONE_SENDS + 1);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(end_wait(&waiting), -EIO);
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 1);
    assert_int_equal(mail(fixture, "more.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
}
