/* SPDX-License-Identifier: MIT */
/*
 * sync of outbox/: what it waits for and what it returns; and the daily limit, the cause of the longest
 * waits.
 */
#include "outbox_world.h"

#include "outbox/change.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/thread.h"
#include "support/test.h"

struct waiting {
    struct world *world;
    struct cancel cancel;
    pthread_t thread;
    int result;
};

static void *wait_settled(void *argument)
{
    struct waiting *waiting = argument;
    waiting->result = outbox_wait_settled(waiting->world->outbox, OUTBOX_FOLDER_OUTBOX, 0, &waiting->cancel);
    return NULL;
}

static void begin_wait(struct waiting *waiting, struct world *world)
{
    *waiting = (struct waiting){.world = world};
    cancel_init(&waiting->cancel);
    assert_int_equal(thread_start(&waiting->thread, "barrier", wait_settled, waiting), 0);
    fake_clock_await_waiters(&world->clock, 1);
}

static int end_wait(struct waiting *waiting)
{
    pthread_join(waiting->thread, NULL);
    cancel_release(&waiting->cancel);
    return waiting->result;
}

WORLD_TEST(a_barrier_with_nothing_to_wait_for_succeeds)
{
    struct world *world = *state;
    assert_int_equal(settle(world), 0);
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(outbox_wait_settled(world->outbox, OUTBOX_FOLDER_SENT, 0, NULL), 0);
}

WORLD_TEST(a_failure_is_reported_once)
{
    struct world *world = *state;
    copy_in(world, OUT, "bad.eml", "bad");
    assert_int_equal(settle(world), -EIO);
    assert_int_equal(settle(world), 0);
    assert_int_equal(settle_uploads(world), 0);
    world_reopen(world);
    assert_int_equal(settle(world), 0);
}

WORLD_TEST(a_failed_upload_is_reported_once)
{
    struct world *world = *state;
    fake_service_push(world->fake, FAKE_UPLOAD,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 413});
    copy_in(world, ATTACHED, "bad.txt", "bad");
    assert_int_equal(settle_uploads(world), -EIO);
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(settle(world), 0);
    world_reopen(world);
    assert_int_equal(settle_uploads(world), 0);
}

/* The barrier and each idle worker wait on the clock. */
enum {
    IDLE_WHILE_ONE_SENDS = 3
};

WORLD_TEST(a_barrier_waits_at_most_ten_seconds)
{
    struct world *world = *state;
    struct waiting waiting;
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, world);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    fake_clock_advance(&world->clock, 10 * 1000);
    assert_int_equal(end_wait(&waiting), -EAGAIN);
    fake_service_open_gate(world->fake, FAKE_SEND);
    assert_int_equal(settle(world), 0);
}

/* Otherwise the caller would learn ten seconds late that the first message waits for the service, because the
 * second one is still on its way. */
WORLD_TEST(a_waiting_message_is_reported_while_another_is_sent)
{
    struct world *world = *state;
    struct cancel cancel;
    fake_service_set(world->fake, FAKE_UPLOAD,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    copy_in(world, ATTACHED, "a.txt", "text");
    await_next_attempt(world);
    assert_int_equal(mail(world, "first.eml", "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"), 0);
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, "second.eml", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    cancel_init(&cancel);
    cancel_set(&cancel); /* interrupts the caller that waits */
    assert_int_equal(outbox_wait_settled(world->outbox, OUTBOX_FOLDER_OUTBOX, 0, &cancel), -EAGAIN);
    cancel_release(&cancel);
    fake_service_open_gate(world->fake, FAKE_SEND);
}

/* The message was handed in after the first sync began, and failed before that sync ended. */
WORLD_TEST(a_later_failure_is_reported_by_the_next_barrier)
{
    struct world *world = *state;
    struct waiting waiting;
    const struct fake_outcome refused = {.outcome = SERVICE_REJECTED, .http_status = 422};
    assert_int_equal(mail(world, "first.eml", MESSAGE), 0); /* after a pause the first is sent alone */
    assert_int_equal(settle(world), 0);
    fake_service_set(world->fake, FAKE_UPLOAD, refused);
    fake_service_set(world->fake, FAKE_SEND, refused);
    fake_service_close_gate(world->fake, FAKE_UPLOAD);
    assert_int_equal(mail(world, "slow.eml",
                          "To: b@x.example\nSubject: s\nMIME-Version: 1.0\n"
                          "Content-Type: multipart/mixed; boundary=b\n\n"
                          "--b\nContent-Type: text/csv\nContent-Disposition: attachment; filename=a.csv\n\n"
                          "1,2\n--b--\n"),
                     0);
    fake_service_wait_at_gate(world->fake, FAKE_UPLOAD, 1);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, world);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    assert_int_equal(mail(world, "later.eml", MESSAGE), 0);
    await_news(world, EVENT_FAILED, "failed/later.eml");
    fake_service_open_gate(world->fake, FAKE_UPLOAD);
    assert_int_equal(end_wait(&waiting), -EIO);
    assert_int_equal(settle(world), -EIO);
    assert_int_equal(settle(world), 0);
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

static int mail_as(struct world *world, pid_t pid, const char *name)
{
    put_draft(world, name, MESSAGE);
    return outbox_hand_in(world->outbox, world->drafts, name, name, OUTBOX_FOLDER_OUTBOX, name, 0, pid, NULL);
}

static int settle_as(struct world *world, pid_t pid)
{
    return outbox_wait_settled(world->outbox, OUTBOX_FOLDER_OUTBOX, pid, NULL);
}

WORLD_TEST(an_earlier_failure_is_reported_to_its_session)
{
    struct world *world = *state;
    pid_t one = start_session();
    pid_t other = start_session();
    fake_service_push(world->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 422});
    assert_int_equal(mail_as(world, one, "bad.eml"), 0);
    await_news(world, EVENT_FAILED, "failed/bad.eml");
    assert_int_equal(settle_as(world, other), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(settle_as(world, one), -EIO);
    assert_int_equal(settle_as(world, one), 0);

    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    assert_int_equal(outbox_create(world->outbox, OUTBOX_FOLDER_OUTBOX, "written.eml", other, &handle, &stat),
                     0);
    append(handle, "bad", 0);
    finish(handle);
    fake_clock_advance(&world->clock, QUIET_MS);
    await_news(world, EVENT_FAILED, "failed/written.eml");
    assert_int_equal(settle_as(world, one), 0);
    assert_int_equal(settle_as(world, other), -EIO);
    end_session(one);
    end_session(other);
}

WORLD_TEST(an_awaited_failure_is_reported_to_waiter_and_session)
{
    struct world *world = *state;
    struct waiting waiting;
    pid_t one = start_session();
    fake_service_push(world->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 422});
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail_as(world, one, "bad.eml"), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, world);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    fake_service_open_gate(world->fake, FAKE_SEND);
    assert_int_equal(end_wait(&waiting), -EIO);
    assert_int_equal(settle(world), 0);
    assert_int_equal(settle_as(world, one), -EIO);
    assert_int_equal(settle_as(world, one), 0);
    end_session(one);
}

WORLD_TEST(a_wait_can_be_interrupted)
{
    struct world *world = *state;
    struct waiting waiting;
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, world);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    cancel_set(&waiting.cancel);
    assert_int_equal(end_wait(&waiting), -EINTR);
    fake_service_open_gate(world->fake, FAKE_SEND);
}

WORLD_TEST(a_barrier_ignores_later_messages)
{
    struct world *world = *state;
    struct waiting waiting;
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, world);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    assert_int_equal(mail(world, "n.eml", MESSAGE), 0);
    copy_in(world, OUT, "bad.eml", "bad");
    fake_service_let_pass(world->fake, FAKE_SEND, 1);
    assert_int_equal(end_wait(&waiting), 0);
    fake_service_open_gate(world->fake, FAKE_SEND);
    assert_int_equal(settle(world), -EIO);
}

WORLD_TEST(handles_that_are_flushed_are_waited_for)
{
    struct world *world = *state;
    struct waiting waiting;
    struct outbox_handle *handle = create(world, OUT, "m.eml");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_flush(handle, 0), 0);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    begin_wait(&waiting, world); /* the kernel has not sent RELEASE yet */
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 2);
    outbox_release(handle);
    assert_int_equal(end_wait(&waiting), 0);
    assert_true(is_listed(world, SENT, "m.eml"));

    handle = create(world, OUT, "x.tmp");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_flush(handle, 0), 0); /* a shell keeps a duplicate: the wait has a limit */
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    begin_wait(&waiting, world);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 2);
    fake_clock_advance(&world->clock, 2000);
    assert_int_equal(end_wait(&waiting), 0);
    outbox_release(handle);
}

static void *take_out(void *argument)
{
    struct waiting *waiting = argument;
    struct world *world = waiting->world;
    waiting->result =
        outbox_take_out(world->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", world->drafts, "m.eml", 0);
    return NULL;
}

WORLD_TEST(a_file_that_was_just_closed_can_be_moved_to_drafts)
{
    struct world *world = *state;
    struct waiting waiting = {.world = world};
    struct outbox_handle *handle = create(world, OUT, "m.eml");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_flush(handle, 0), 0);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    assert_int_equal(thread_start(&waiting.thread, "mv", take_out, &waiting), 0);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 2);
    outbox_release(handle);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.result, 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 0);
}

/* Each program that a shell starts with its output redirected to the file closes the file. */
WORLD_TEST(repeated_closes_of_a_file_do_not_prolong_the_wait)
{
    struct world *world = *state;
    struct waiting waiting;
    struct outbox_handle *handle = create(world, OUT, "log");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_flush(handle, 0), 0);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    begin_wait(&waiting, world);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 2);
    fake_clock_advance(&world->clock, 1500);
    assert_int_equal(outbox_flush(handle, 0), 0);
    fake_clock_advance(&world->clock, 500);
    assert_int_equal(end_wait(&waiting), 0);
    outbox_release(handle);
}

WORLD_TEST(stopping_wakes_waiters)
{
    struct world *world = *state;
    struct waiting waiting;
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS);
    begin_wait(&waiting, world);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    outbox_stop(world->outbox);
    assert_int_equal(end_wait(&waiting), -EAGAIN);
    outbox_free(world->outbox);
    fake_service_open_gate(world->fake, FAKE_SEND);
    world_open(world);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
}

/* ---------------------------------------------------------------- the daily limit */

WORLD_TEST(the_daily_limit_waits_for_midnight)
{
    struct world *world = *state;
    struct outbox_status status;
    world_close(world);
    world->config.daily_limit = 3;
    world_open(world);
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d.eml", i);
        assert_int_equal(mail(world, name, MESSAGE), 0);
    }
    fake_service_wait_count(world->fake, FAKE_SEND, 3);
    await_news(world, EVENT_SENT, "sent/2.eml");
    assert_int_equal(settle(world), -EAGAIN);
    status = await_next_attempt(world);
    assert_int_equal(status.next_attempt_ms, NOON + 12 * HOUR_MS);
    assert_int_equal(status.sent_today, 3);
    assert_int_equal(status.queued, 2);

    world_reopen(world); /* the count survives */
    assert_int_equal(settle(world), -EAGAIN);
    assert_int_equal(sends(world), 3);
    fake_clock_advance(&world->clock, 12 * HOUR_MS - 1);
    assert_int_equal(settle(world), -EAGAIN);
    assert_int_equal(sends(world), 3);
    fake_clock_advance(&world->clock, 1);
    await_news(world, EVENT_SENT, "sent/4.eml");
    outbox_get_status(world->outbox, &status);
    assert_int_equal(status.sent_today, 2);
}

/* Messages to different recipients do not wait for each other. */
WORLD_TEST(messages_under_way_count_for_the_day)
{
    struct world *world = *state;
    world_close(world);
    world->config.daily_limit = 2;
    world_open(world);
    assert_int_equal(mail(world, "zero.eml", MESSAGE), 0); /* after a pause the first is sent alone */
    assert_int_equal(settle(world), 0);
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, "one.eml", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    assert_int_equal(mail(world, "two.eml", "To: ann@x.example\nSubject: s\n\nb\n"), 0);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS);
    fake_service_open_gate(world->fake, FAKE_SEND);
    await_news(world, EVENT_SENT, "sent/one.eml");
    assert_int_equal(settle(world), -EAGAIN);
    assert_int_equal(sends(world), 2);
    assert_true(is_listed(world, OUT, "two.eml"));
}

WORLD_TEST(unsent_messages_do_not_count)
{
    struct world *world = *state;
    struct outbox_status status;
    world_close(world);
    world->config.daily_limit = 1;
    world_open(world);
    fake_service_push(world->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    assert_int_equal(mail(world, "bad.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EIO);
    outbox_get_status(world->outbox, &status);
    assert_int_equal(status.sent_today, 0);
    fake_service_push(world->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_UNKNOWN});
    assert_int_equal(mail(world, "unknown.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EIO);
    outbox_get_status(world->outbox, &status);
    assert_int_equal(status.sent_today, 1); /* it may have been sent */
}

/* An attempt under way may be refused, so only sent messages use up the daily limit. */
WORLD_TEST(a_barrier_waits_for_the_attempt_that_may_leave_the_day_to_the_next)
{
    struct world *world = *state;
    struct waiting waiting;
    world_close(world);
    world->config.daily_limit = 1;
    world_open(world);
    fake_service_close_gate(world->fake, FAKE_SEND);
    fake_service_push(world->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    assert_int_equal(mail(world, "bad.eml", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    assert_int_equal(mail(world, "good.eml", MESSAGE), 0);
    begin_wait(&waiting, world);
    fake_clock_await_waiters(&world->clock, IDLE_WHILE_ONE_SENDS + 1);
    fake_service_open_gate(world->fake, FAKE_SEND);
    assert_int_equal(end_wait(&waiting), -EIO);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
    assert_int_equal(mail(world, "more.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
}
