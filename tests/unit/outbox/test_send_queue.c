/* SPDX-License-Identifier: MIT */
/*
 * The queue: which item is tried next, and when. After a failure an item's own time and that of its kind
 * decide.
 */
#include "outbox/send_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/fake_clock.h"
#include "support/test.h"

enum {
    ITEMS = 4,
    HOUR_MS = 3600 * 1000,
    LONGEST_BACKOFF_MS = 15 * 60 * 1000,
};

struct fixture {
    struct fake_clock clock;
    struct item_table table;
    struct send_queue queue;
    struct item items[ITEMS];
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fake_clock_init(&fixture->clock, 0);
    item_table_init(&fixture->table);
    send_queue_init(&fixture->queue, &fixture->clock.clock, -1);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    send_queue_release(&fixture->queue);
    item_table_release(&fixture->table);
    fake_clock_release(&fixture->clock);
    free(fixture);
    return 0;
}

#define QUEUE_TEST(name) TEST_WITH(name, set_up, tear_down)

static void add_item(struct fixture *fixture, int index, enum item_kind kind, const char *sequence)
{
    struct item *item = &fixture->items[index];
    *item = (struct item){
        .row = {.kind = kind,
                .state = kind == ITEM_MESSAGE ? ITEM_QUEUED : ITEM_UPLOADING,
                .position = (uint64_t)index},
        .schedule.backoff = {.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS},
    };
    snprintf(item->row.sequence, sizeof(item->row.sequence), "%s", sequence);
    send_queue_place(&fixture->queue, item);
}

static void remove_item(struct fixture *fixture, struct item *item)
{
    item->row.state = ITEM_GONE;
    send_queue_place(&fixture->queue, item);
}

static void add_uploads(struct fixture *fixture)
{
    for (int i = 0; i < ITEMS; i++)
        add_item(fixture, i, ITEM_ATTACHMENT, "");
}

static void advance(struct fixture *fixture, int64_t ms)
{
    fake_clock_advance(&fixture->clock, ms);
}

/* Returns the item of the try that may begin now; NULL if none may. */
static struct item *begin(struct fixture *fixture, enum item_kind kind)
{
    int64_t until_ms = CLOCK_FOREVER;
    struct item *item = send_queue_begin_try(&fixture->queue, &fixture->table, kind, &until_ms);
    if (item != NULL)
        item->claim = CLAIM_SERVICE;
    return item;
}

static void end(struct fixture *fixture, struct item *item)
{
    item->claim = CLAIM_NONE;
    send_queue_end_try(&fixture->queue, item);
}

/* `status` 0: the service did not answer. */
static void report(struct fixture *fixture, struct item *item, int status, int64_t retry_after_ms)
{
    char detail[] = "busy";
    const struct service_result result = {
        .outcome = status == 200   ? SERVICE_OK
                   : status == 401 ? SERVICE_UNAUTHORIZED
                   : status == 500 ? SERVICE_UNKNOWN
                                   : SERVICE_RETRY,
        .http_status = status,
        .retry_after_ms = retry_after_ms,
        .detail = status == 0 ? NULL : detail,
    };
    send_queue_report(&fixture->queue, item, &result, ANSWER_TO_ITEM);
}

static void end_with(struct fixture *fixture, struct item *item, int status, int64_t retry_after_ms)
{
    report(fixture, item, status, retry_after_ms);
    end(fixture, item);
}

static int64_t wait_of_kind(const struct fixture *fixture, enum item_kind kind)
{
    return fixture->queue.suspensions[kind].until_ms - clock_monotonic_ms(fixture->queue.clock);
}

/* ================================================================ the order */

/* When the outbox opens, the messages may be read from the disk in any order. */
QUEUE_TEST(the_queue_is_in_order_of_position)
{
    static const int came[][ITEMS] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 1, 3, 2}, {0, 3, 1, 2}, {2, 3, 0, 1}};
    struct fixture *fixture = *state;
    GQueue *list = &fixture->queue.handed_in[ITEM_MESSAGE];
    for (size_t i = 0; i < ARRAY_LEN(came); i++) {
        for (int j = 0; j < ITEMS; j++)
            add_item(fixture, came[i][j], ITEM_MESSAGE, "one");
        for (guint j = 0; j < ITEMS; j++)
            assert_ptr_equal(g_queue_peek_nth(list, j), &fixture->items[j]);
        fixture->items[0].row.position = ITEMS;
        send_queue_place(&fixture->queue, &fixture->items[0]);
        for (guint j = 0; j < ITEMS; j++)
            assert_ptr_equal(g_queue_peek_nth(list, j), &fixture->items[(j + 1) % ITEMS]);
        for (int j = 0; j < ITEMS; j++)
            remove_item(fixture, &fixture->items[j]);
        assert_int_equal(list->length, 0);
    }
}

QUEUE_TEST(messages_of_a_sequence_are_sent_one_at_a_time_in_order)
{
    static const int turns[] = {0, 2, 1, 3};
    struct fixture *fixture = *state;
    for (int i = 0; i < ITEMS; i++)
        add_item(fixture, i, ITEM_MESSAGE, i < 2 ? "one" : "two");
    send_queue_end_rest(&fixture->queue);
    for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
        assert_ptr_equal(begin(fixture, ITEM_MESSAGE), &fixture->items[turns[i]]);
        if (i == 1) {
            assert_null(begin(fixture, ITEM_MESSAGE));
            remove_item(fixture, &fixture->items[0]);
            remove_item(fixture, &fixture->items[2]);
        }
    }
    assert_null(begin(fixture, ITEM_MESSAGE));
}

/* ================================================================ the time of an item */

/* The service, or a gateway, may be busy for one item each time. */
QUEUE_TEST(an_item_that_was_put_off_goes_after_the_others_and_not_before_its_time)
{
    struct fixture *fixture = *state;
    add_uploads(fixture);
    end_with(fixture, begin(fixture, ITEM_ATTACHMENT), 503, HOUR_MS);
    send_queue_wake(&fixture->queue, &fixture->items[1]);
    for (int i = 1; i < ITEMS; i++) {
        struct item *item = begin(fixture, ITEM_ATTACHMENT);
        assert_ptr_equal(item, &fixture->items[i]);
        end_with(fixture, item, 200, -1);
        remove_item(fixture, item);
    }
    advance(fixture, HOUR_MS - 1);
    assert_null(begin(fixture, ITEM_ATTACHMENT));
    assert_true(send_queue_has_to_wait(&fixture->queue, &fixture->items[0]));
    advance(fixture, 1);
    assert_ptr_equal(begin(fixture, ITEM_ATTACHMENT), &fixture->items[0]);
}

QUEUE_TEST(an_unknown_outcome_puts_off_its_item_alone)
{
    struct fixture *fixture = *state;
    add_uploads(fixture);
    end_with(fixture, begin(fixture, ITEM_ATTACHMENT), 500, -1);
    for (int i = 1; i < ITEMS; i++)
        assert_ptr_equal(begin(fixture, ITEM_ATTACHMENT), &fixture->items[i]);
    assert_null(begin(fixture, ITEM_ATTACHMENT));
    advance(fixture, BACKOFF_MIN_MS);
    assert_ptr_equal(begin(fixture, ITEM_ATTACHMENT), &fixture->items[0]);
}

QUEUE_TEST(without_an_answer_the_next_try_is_of_the_same_item)
{
    struct fixture *fixture = *state;
    add_uploads(fixture);
    for (int i = 0; i < 20; i++) {
        struct item *item = begin(fixture, ITEM_ATTACHMENT);
        assert_ptr_equal(item, &fixture->items[0]);
        end_with(fixture, item, 0, -1);
        assert_in_range(wait_of_kind(fixture, ITEM_ATTACHMENT), BACKOFF_MIN_MS / 2, LONGEST_BACKOFF_MS);
        advance(fixture, LONGEST_BACKOFF_MS);
    }
}

/* ================================================================ the time of a kind */

/* Requests that were under way at the same time fail one after the other. */
QUEUE_TEST(a_suspension_lasts_for_the_longest_requested_wait)
{
    struct fixture *fixture = *state;
    add_uploads(fixture);
    struct item *busy = begin(fixture, ITEM_ATTACHMENT);
    struct item *lost = begin(fixture, ITEM_ATTACHMENT);
    end_with(fixture, busy, 503, 60 * 1000);
    advance(fixture, 500);
    assert_string_equal(fixture->queue.suspensions[ITEM_ATTACHMENT].error, "busy");
    end_with(fixture, lost, 0, -1);
    assert_string_equal(fixture->queue.suspensions[ITEM_ATTACHMENT].error, "");
    advance(fixture, 60 * 1000 - 501);
    assert_null(begin(fixture, ITEM_ATTACHMENT));
    advance(fixture, 1);
    assert_ptr_equal(begin(fixture, ITEM_ATTACHMENT), lost);
    report(fixture, lost, 429, 90 * 1000);
    report(fixture, busy, 429, 120 * 1000);
    assert_int_equal(wait_of_kind(fixture, ITEM_ATTACHMENT), 120 * 1000);
}

QUEUE_TEST(simultaneous_failures_lengthen_the_wait_once)
{
    struct fixture *fixture = *state;
    add_item(fixture, 0, ITEM_MESSAGE, "one");
    add_item(fixture, 1, ITEM_ATTACHMENT, "");
    for (int round = 0; round < 5; round++) {
        report(fixture, &fixture->items[0], 0, -1);
        for (int i = 0; i < 20; i++)
            report(fixture, &fixture->items[1], 0, -1);
        /* Waits differ by chance, but not by a factor of 2^20. */
        assert_in_range(wait_of_kind(fixture, ITEM_MESSAGE), 500, 60 * 1000);
        assert_in_range(wait_of_kind(fixture, ITEM_ATTACHMENT), 500, 60 * 1000);
        advance(fixture, HOUR_MS);
    }
}

QUEUE_TEST(after_a_suspension_other_items_wait_for_one_try)
{
    struct fixture *fixture = *state;
    add_uploads(fixture);
    report(fixture, &fixture->items[0], 0, 10 * 1000);
    advance(fixture, 10 * 1000);
    struct item *first = begin(fixture, ITEM_ATTACHMENT);
    assert_ptr_equal(first, &fixture->items[0]);
    assert_false(first->schedule.must_ask_list);
    advance(fixture, 30 * 1000);
    assert_null(begin(fixture, ITEM_ATTACHMENT));
    /* The first try takes so long, like an upload on a slow line, that a second one is allowed. */
    advance(fixture, 10 * 1000);
    struct item *second = begin(fixture, ITEM_ATTACHMENT);
    assert_ptr_equal(second, &fixture->items[1]);
    assert_true(second->schedule.must_ask_list);
    assert_null(begin(fixture, ITEM_ATTACHMENT));
    end_with(fixture, second, 0, 10 * 1000);
    advance(fixture, 10 * 1000);
    second = begin(fixture, ITEM_ATTACHMENT);
    assert_non_null(second);
    end(fixture, second); /* without an answer: another try is allowed */
    second = begin(fixture, ITEM_ATTACHMENT);
    assert_non_null(second);
    end(fixture, first); /* late: another try has replaced it */
    assert_null(begin(fixture, ITEM_ATTACHMENT));
    report(fixture, second, 200, -1);
    assert_non_null(begin(fixture, ITEM_ATTACHMENT));
    assert_non_null(begin(fixture, ITEM_ATTACHMENT));
}

/* A sent message cannot be taken back. */
QUEUE_TEST(after_a_rest_other_messages_wait_for_one_try)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < ITEMS; i++)
        add_item(fixture, i, ITEM_MESSAGE, i == 0 ? "zero" : i == 1 ? "one" : i == 2 ? "two" : "three");
    struct item *first = begin(fixture, ITEM_MESSAGE);
    assert_non_null(first);
    assert_false(first->schedule.must_ask_list);
    assert_null(begin(fixture, ITEM_MESSAGE));
    advance(fixture, 2000);
    struct item *second = begin(fixture, ITEM_MESSAGE);
    assert_non_null(second);
    assert_true(second->schedule.must_ask_list);
    end(fixture, first);
    assert_null(begin(fixture, ITEM_MESSAGE));
    end_with(fixture, second, 200, -1);
    first = begin(fixture, ITEM_MESSAGE);
    second = begin(fixture, ITEM_MESSAGE);
    assert_true(first != NULL && second != NULL);
    end_with(fixture, first, 200, -1);
    end_with(fixture, second, 200, -1);
    advance(fixture, HOUR_MS);
    assert_non_null(begin(fixture, ITEM_MESSAGE));
    assert_null(begin(fixture, ITEM_MESSAGE));
}

/* ================================================================ waking */

QUEUE_TEST(waking_allows_one_try_at_once)
{
    struct fixture *fixture = *state;
    add_uploads(fixture);
    end_with(fixture, begin(fixture, ITEM_ATTACHMENT), 401, -1);
    advance(fixture, 60 * 1000 - 1);
    assert_null(begin(fixture, ITEM_ATTACHMENT));
    send_queue_wake_all(&fixture->queue);
    assert_non_null(begin(fixture, ITEM_ATTACHMENT));
    assert_null(begin(fixture, ITEM_ATTACHMENT));
}

/* The network may be back while the last try fails. */
QUEUE_TEST(a_try_that_fails_after_a_wake_waits_for_the_shortest_backoff)
{
    struct fixture *fixture = *state;
    add_uploads(fixture);
    for (int i = 0; i < 12; i++) {
        end_with(fixture, begin(fixture, ITEM_ATTACHMENT), i == 0 ? 503 : 0, -1);
        advance(fixture, LONGEST_BACKOFF_MS);
    }
    struct item *item = begin(fixture, ITEM_ATTACHMENT);
    send_queue_wake_all(&fixture->queue);
    end_with(fixture, item, 503, -1);
    advance(fixture, BACKOFF_MIN_MS);
    assert_non_null(begin(fixture, ITEM_ATTACHMENT));
}

QUEUE_TEST(waking_ends_the_suspension_of_a_kind_without_items)
{
    struct fixture *fixture = *state;
    add_item(fixture, 0, ITEM_ATTACHMENT, "");
    end_with(fixture, begin(fixture, ITEM_ATTACHMENT), 503, HOUR_MS);
    remove_item(fixture, &fixture->items[0]);
    send_queue_wake_all(&fixture->queue);
    add_item(fixture, 1, ITEM_ATTACHMENT, "");
    assert_ptr_equal(begin(fixture, ITEM_ATTACHMENT), &fixture->items[1]);
}
