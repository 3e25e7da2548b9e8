/* SPDX-License-Identifier: MIT */
/*
 * When the service is asked, who shares an answer, and what is told when it stops answering.
 */
#include "base/thread.h"
#include "unit/store/store_world.h"

enum {
    POLL_MS = 30 * 1000,
    POLL_MOST_MS = POLL_MS + POLL_MS / 10, /* with jitter */
    POLL_LEAST_MS = POLL_MS - POLL_MS / 10,
    BACKOFF_MOST_MS = 5 * 60 * 1000,
};

static void start_polling(struct store_world *world)
{
    world->poll_interval_ms = POLL_MS;
    world_start(world);
    fake_clock_await_waiters(&world->clock, 1);
}

/* Lets the time pass and waits until the sync's thread waits again. */
static void pass(struct store_world *world, int64_t ms)
{
    unsigned int before = fake_service_count(world->fake, FAKE_LIST_INBOXES);
    fake_clock_advance(&world->clock, ms);
    fake_service_wait_count(world->fake, FAKE_LIST_INBOXES, before + 1);
    fake_clock_await_waiters(&world->clock, 1);
}

static int64_t next_poll_in_ms(struct store_world *world)
{
    struct store_status status;
    store_get_status(world->store, &status);
    return status.next_poll_ms - clock_realtime_ms(&world->clock.clock);
}

static unsigned int lists(struct store_world *world)
{
    return fake_service_count(world->fake, FAKE_LIST_EMAILS);
}

/* ---------------------------------------------------------------- when */

static void it_looks_at_once_and_then_at_intervals(void **state)
{
    (void)state;
    struct store_world world;
    struct store_status status;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 3);
    start_polling(&world);
    assert_int_equal(world_count(&world), 3);
    store_get_status(world.store, &status);
    assert_true(status.is_online && status.has_synced);
    assert_int_equal(status.last_sync_ms, WORLD_START_MS);
    assert_int_equal(status.last_full_ms, WORLD_START_MS);
    assert_in_range(next_poll_in_ms(&world), POLL_LEAST_MS, POLL_MOST_MS);
    world_add_emails(&world, "in-1", 3, 4);
    pass(&world, POLL_MOST_MS);
    assert_int_equal(world_count(&world), 4);
    world_release(&world);
}

static void intervals_differ_so_that_many_do_not_ask_at_once(void **state)
{
    enum {
        POLLS = 20
    };
    (void)state;
    struct store_world world;
    int64_t least = INT64_MAX;
    int64_t most = 0;
    world_init_with_alice(&world);
    start_polling(&world);
    for (int i = 0; i < POLLS; i++) {
        int64_t interval_ms = next_poll_in_ms(&world);
        assert_in_range(interval_ms, POLL_LEAST_MS, POLL_MOST_MS);
        least = interval_ms < least ? interval_ms : least;
        most = interval_ms > most ? interval_ms : most;
        pass(&world, POLL_MOST_MS);
    }
    /* By chance all would be as near to each other as good as never. */
    assert_true(most - least > POLL_MS / 100);
    world_release(&world);
}

static void without_an_interval_it_looks_only_when_asked(void **state)
{
    (void)state;
    struct store_world world;
    struct store_status status;
    world_init_with_alice(&world);
    world_start(&world);
    fake_clock_await_waiters(&world.clock, 1);
    fake_clock_advance(&world.clock, 3600 * 1000);
    assert_int_equal(lists(&world), 0);
    store_get_status(world.store, &status);
    assert_int_equal(status.next_poll_ms, 0);
    assert_false(status.has_synced);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(lists(&world), 1);
    store_get_status(world.store, &status);
    assert_int_equal(status.next_poll_ms, 0);
    assert_true(status.has_synced);
    world_release(&world);
}

static void polls_ask_for_little_and_for_more_while_unknown_mail_comes(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 500);
    start_polling(&world);
    assert_int_equal(world_count(&world), 500);

    unsigned int before = lists(&world);
    pass(&world, POLL_MOST_MS);
    assert_int_equal(lists(&world), before + 1);
    assert_int_equal(fake_service_get(world.fake, FAKE_LIST_EMAILS, before).limit, 100);

    before = lists(&world);
    world_add_emails(&world, "in-1", 500, 950);
    pass(&world, POLL_MOST_MS);
    assert_int_equal(world_count(&world), 950);
    assert_int_equal(lists(&world), before + 3);
    for (unsigned int i = 0, limit = 100; i < 3; i++, limit *= 4)
        assert_int_equal(fake_service_get(world.fake, FAKE_LIST_EMAILS, before + i).limit, limit);

    /* The ladder has no upper end that mail could reach. */
    before = lists(&world);
    world_add_emails(&world, "in-1", 950, 9000);
    pass(&world, POLL_MOST_MS);
    assert_int_equal(world_count(&world), 9000);
    assert_int_equal(lists(&world), before + 5);
    world_release(&world);
}

static void a_poll_of_some_removes_nothing_and_the_complete_one_does(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 150);
    start_polling(&world);
    fake_service_remove_email(world.fake, "00000149-in-1");
    fake_service_remove_email(world.fake, "00000003-in-1");
    pass(&world, POLL_MOST_MS);
    assert_int_equal(world_count(&world), 150);
    pass(&world, 15 * 60 * 1000);
    assert_int_equal(world_count(&world), 148);
    world_release(&world);
}

/* ---------------------------------------------------------------- outages */

static void an_outage_is_told_once_and_so_is_its_end(void **state)
{
    (void)state;
    struct store_world world;
    struct store_status status;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 2);
    start_polling(&world);
    fake_service_set_reachable(world.fake, false);
    for (int i = 0; i < 4; i++)
        pass(&world, BACKOFF_MOST_MS);
    assert_events(&world, "offline - - the service cannot be reached;");
    store_get_status(world.store, &status);
    assert_false(status.is_online);
    assert_string_equal(status.error, "the service cannot be reached");
    assert_int_equal(status.emails, 2);
    fake_service_set_reachable(world.fake, true);
    world_forget(&world);
    pass(&world, BACKOFF_MOST_MS);
    pass(&world, POLL_MOST_MS);
    assert_events(&world, "online - - -;");
    store_get_status(world.store, &status);
    assert_true(status.is_online);
    assert_string_equal(status.error, "");
    world_release(&world);
}

/* Too many requests is the service's own answer; a proxy before it may say 503. */
static void a_service_that_has_too_much_to_do_is_there(void **state)
{
    static const struct {
        int http_status;
        bool is_online;
    } cases[] = {{429, true}, {503, false}, {200, true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct fake_outcome busy = {
            .outcome = SERVICE_RETRY, .http_status = cases[i].http_status, .error = EAGAIN};
        struct store_world world;
        struct store_status status;
        world_init_with_alice(&world);
        start_polling(&world);
        fake_service_set_reachable(world.fake, false);
        pass(&world, BACKOFF_MOST_MS);
        store_get_status(world.store, &status);
        assert_false(status.is_online);
        fake_service_set_reachable(world.fake, true);
        fake_service_set(world.fake, FAKE_LIST_INBOXES, busy);
        fake_service_set(world.fake, FAKE_LIST_EMAILS, busy);
        pass(&world, BACKOFF_MOST_MS);
        store_get_status(world.store, &status);
        assert_int_equal(status.is_online, cases[i].is_online);
        world_release(&world);
    }
}

static void what_others_find_out_is_looked_into_where_it_is_news(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_add_emails(&world, "in-1", 0, 2);
    unsigned int before = lists(&world);
    store_note_contact(world.store, true);
    store_note_contact(world.store, false); /* of one request; others are answered */
    fake_service_wait_count(world.fake, FAKE_LIST_EMAILS, before + 1);
    fake_clock_await_waiters(&world.clock, 1);
    assert_events(&world, "");

    fake_service_set_reachable(world.fake, false);
    store_note_contact(world.store, false);
    fake_service_wait_count(world.fake, FAKE_LIST_EMAILS, before + 2);
    fake_clock_await_waiters(&world.clock, 1);
    store_note_contact(world.store, false);
    assert_events(&world, "offline - - the service cannot be reached;");

    world_forget(&world);
    fake_service_set_reachable(world.fake, true);
    store_note_contact(world.store, true);
    fake_service_wait_count(world.fake, FAKE_LIST_EMAILS, before + 3);
    fake_clock_await_waiters(&world.clock, 1);
    assert_events(&world, "online - - -;");
    assert_int_equal(world_count(&world), 0);
    assert_int_equal(lists(&world), before + 3);
    world_release(&world);
}

static void a_refused_key_is_an_outage(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    start_polling(&world);
    fake_service_set(world.fake, FAKE_LIST_INBOXES, (struct fake_outcome){.outcome = SERVICE_UNAUTHORIZED});
    pass(&world, POLL_MOST_MS);
    pass(&world, BACKOFF_MOST_MS);
    assert_events(&world, "offline - - the key is not valid;");
    assert_int_equal(lists(&world), 1);
    world_release(&world);
}

static void a_service_in_trouble_all_over_is_away_and_in_part_it_is_not(void **state)
{
    (void)state;
    struct store_world world;
    const struct fake_outcome trouble = {.outcome = SERVICE_UNKNOWN, .detail = "internal error"};
    const struct fake_outcome stall = {.outcome = SERVICE_RETRY, .error = ETIMEDOUT, .detail = "too slow"};
    struct fake_outcome of_one = trouble;
    of_one.of = "in-1";
    world_init_with_alice(&world);
    fake_service_add_inbox(world.fake, "{\"id\": \"in-2\"}");
    start_polling(&world);
    fake_service_push(world.fake, FAKE_LIST_EMAILS, of_one);
    world_add_emails(&world, "in-2", 0, 1);
    pass(&world, POLL_MOST_MS);
    of_one = stall;
    of_one.of = "in-1";
    fake_service_push(world.fake, FAKE_LIST_EMAILS, of_one);
    world_add_emails(&world, "in-2", 1, 2);
    pass(&world, POLL_MOST_MS);
    assert_int_equal(world_count(&world), 2);
    assert_in_range(next_poll_in_ms(&world), POLL_LEAST_MS, POLL_MOST_MS);
    assert_null(strstr(strbuf_str(&world.events), "offline"));

    world_forget(&world);
    fake_service_set(world.fake, FAKE_LIST_INBOXES, trouble);
    fake_service_set(world.fake, FAKE_LIST_EMAILS, trouble);
    pass(&world, POLL_MOST_MS);
    pass(&world, BACKOFF_MOST_MS);
    assert_events(&world, "offline - - internal error;");
    fake_service_set(world.fake, FAKE_LIST_INBOXES, stall);
    pass(&world, BACKOFF_MOST_MS);
    assert_events(&world, "offline - - internal error;");
    world_release(&world);
}

static void after_failures_it_waits_longer_and_as_long_as_it_is_told(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    start_polling(&world);
    fake_service_set_reachable(world.fake, false);
    pass(&world, POLL_MOST_MS);
    assert_in_range(next_poll_in_ms(&world), 500, 1000);
    pass(&world, 1000);
    assert_in_range(next_poll_in_ms(&world), 1000, 2000);
    pass(&world, 2000);
    assert_in_range(next_poll_in_ms(&world), 2000, 4000);
    fake_service_set_reachable(world.fake, true);
    fake_service_push(
        world.fake, FAKE_LIST_INBOXES,
        (struct fake_outcome){
            .outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN, .retry_after_ms = 77000});
    pass(&world, 4000);
    assert_int_equal(next_poll_in_ms(&world), 77000);
    pass(&world, 77000);
    assert_in_range(next_poll_in_ms(&world), POLL_LEAST_MS, POLL_MOST_MS);
    world_release(&world);
}

/* ---------------------------------------------------------------- who waits */

struct waiting {
    struct store_world *world;
    struct cancel cancel;
    int result;
    pthread_t thread;
};

static void *wait_for_sync(void *argument)
{
    struct waiting *waiting = argument;
    char *reason = NULL;
    waiting->result = store_sync(waiting->world->store, NULL, &waiting->cancel, &reason);
    free(reason);
    return NULL;
}

static void begin_waiting(struct waiting *waiting, struct store_world *world)
{
    waiting->world = world;
    cancel_init(&waiting->cancel);
    assert_int_equal(thread_start(&waiting->thread, "waiting", wait_for_sync, waiting), 0);
}

static int end_waiting(struct waiting *waiting)
{
    pthread_join(waiting->thread, NULL);
    cancel_release(&waiting->cancel);
    return waiting->result;
}

static void who_comes_during_a_run_shares_the_next_one(void **state)
{
    (void)state;
    struct store_world world;
    struct waiting first;
    struct waiting others[5];
    world_init_with_alice(&world);
    fake_service_close_gate(world.fake, FAKE_LIST_EMAILS);
    world_start(&world);
    begin_waiting(&first, &world);
    fake_service_wait_at_gate(world.fake, FAKE_LIST_EMAILS, 1);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        begin_waiting(&others[i], &world);
    fake_clock_await_waiters(&world.clock, 6);
    fake_service_open_gate(world.fake, FAKE_LIST_EMAILS);
    assert_int_equal(end_waiting(&first), 0);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_int_equal(end_waiting(&others[i]), 0);
    assert_int_equal(lists(&world), 2);
    world_release(&world);
}

static void a_cancelled_wait_ends_and_the_run_goes_on(void **state)
{
    (void)state;
    struct store_world world;
    struct waiting waiting[2];
    world_init_with_alice(&world);
    fake_service_close_gate(world.fake, FAKE_LIST_EMAILS);
    world_start(&world);
    begin_waiting(&waiting[0], &world);
    fake_service_wait_at_gate(world.fake, FAKE_LIST_EMAILS, 1);
    begin_waiting(&waiting[1], &world);
    fake_clock_await_waiters(&world.clock, 2);
    cancel_set(&waiting[1].cancel);
    assert_int_equal(end_waiting(&waiting[1]), -EINTR);
    cancel_set(&waiting[0].cancel);
    assert_int_equal(end_waiting(&waiting[0]), -EINTR);
    assert_int_equal(lists(&world), 0);
    fake_service_open_gate(world.fake, FAKE_LIST_EMAILS);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(lists(&world), 2);
    world_release(&world);
}

static void stopping_cancels_the_request_and_wakes_who_waits(void **state)
{
    (void)state;
    struct store_world world;
    struct waiting waiting[2];
    _cleanup_free_ char *reason = NULL;
    world_init_with_alice(&world);
    fake_service_close_gate(world.fake, FAKE_LIST_EMAILS);
    world_start(&world);
    begin_waiting(&waiting[0], &world);
    fake_service_wait_at_gate(world.fake, FAKE_LIST_EMAILS, 1);
    begin_waiting(&waiting[1], &world);
    fake_clock_await_waiters(&world.clock, 2);
    store_stop(world.store);
    assert_int_equal(end_waiting(&waiting[0]), -EINTR);
    assert_int_equal(end_waiting(&waiting[1]), -EINTR);
    assert_true(fake_service_get(world.fake, FAKE_LIST_EMAILS, 0).was_cancelled);
    assert_int_equal(store_sync(world.store, NULL, NULL, &reason), -EINTR);
    assert_events(&world, "");
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_looks_at_once_and_then_at_intervals),
        cmocka_unit_test(intervals_differ_so_that_many_do_not_ask_at_once),
        cmocka_unit_test(without_an_interval_it_looks_only_when_asked),
        cmocka_unit_test(polls_ask_for_little_and_for_more_while_unknown_mail_comes),
        cmocka_unit_test(a_poll_of_some_removes_nothing_and_the_complete_one_does),
        cmocka_unit_test(an_outage_is_told_once_and_so_is_its_end),
        cmocka_unit_test(a_service_that_has_too_much_to_do_is_there),
        cmocka_unit_test(what_others_find_out_is_looked_into_where_it_is_news),
        cmocka_unit_test(a_refused_key_is_an_outage),
        cmocka_unit_test(a_service_in_trouble_all_over_is_away_and_in_part_it_is_not),
        cmocka_unit_test(after_failures_it_waits_longer_and_as_long_as_it_is_told),
        cmocka_unit_test(who_comes_during_a_run_shares_the_next_one),
        cmocka_unit_test(a_cancelled_wait_ends_and_the_run_goes_on),
        cmocka_unit_test(stopping_cancels_the_request_and_wakes_who_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
