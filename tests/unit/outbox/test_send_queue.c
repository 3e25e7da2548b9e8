/* SPDX-License-Identifier: MIT */
/*
 * The order of waiting messages, and the suspension of the queue: which requests may begin, and when.
 */
#include "outbox/send_queue.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "support/test.h"

static void add_message(struct send_queue *queue, struct item *item, const char *sequence, uint64_t order)
{
    *item = (struct item){.row = {.kind = ITEM_MESSAGE, .state = ITEM_QUEUED, .position = order}};
    snprintf(item->row.sequence, sizeof(item->row.sequence), "%s", sequence);
    send_queue_place(queue, item);
}

static void assert_order(const struct send_queue *queue, struct item *const *items, size_t len)
{
    const GList *link = queue->handed_in[ITEM_MESSAGE].head;
    for (size_t i = 0; i < len; i++, link = link->next)
        assert_ptr_equal(link->data, items[i]);
    assert_null(link);
}

/* When the outbox opens, the messages may be read from the disk in any order. */
TEST(the_queue_is_in_order_of_position)
{
    static const uint64_t came[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 1, 3, 2}, {0, 3, 1, 2}, {2, 3, 0, 1}};
    for (size_t i = 0; i < ARRAY_LEN(came); i++) {
        struct send_queue queue = {0};
        struct item items[4];
        for (size_t j = 0; j < 4; j++)
            add_message(&queue, &items[came[i][j]], "one", came[i][j]);
        assert_order(&queue, (struct item *[]){&items[0], &items[1], &items[2], &items[3]}, 4);
        items[0].row.position = 4;
        send_queue_place(&queue, &items[0]);
        assert_order(&queue, (struct item *[]){&items[1], &items[2], &items[3], &items[0]}, 4);
        for (size_t j = 0; j < 4; j++)
            send_queue_remove(&items[j]);
        assert_int_equal(queue.handed_in[ITEM_MESSAGE].length, 0);
    }
}

TEST(messages_of_a_sequence_are_sent_one_at_a_time_in_order)
{
    struct item_table table = {0};
    struct send_queue queue = {0};
    struct item items[4];
    int64_t until_ms = CLOCK_FOREVER;
    add_message(&queue, &items[0], "one", 0);
    add_message(&queue, &items[1], "one", 1);
    add_message(&queue, &items[2], "two", 2);
    add_message(&queue, &items[3], "two", 3);
    static const int turns[] = {0, 2, 1, 3};
    for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
        struct item *item = send_queue_find(&queue, &table, ITEM_MESSAGE, 0, &until_ms);
        assert_ptr_equal(item, &items[turns[i]]);
        item->claim = CLAIM_SERVICE; /* the item is being sent */
        if (i == 1) {
            assert_null(send_queue_find(&queue, &table, ITEM_MESSAGE, 0, &until_ms));
            send_queue_remove(&items[0]);
            send_queue_remove(&items[2]);
        }
    }
    assert_null(send_queue_find(&queue, &table, ITEM_MESSAGE, 0, &until_ms));
}

static bool may_enter(struct suspension *suspension, int64_t now_ms)
{
    struct suspension_try attempt;
    bool may = suspension_begin_try(suspension, now_ms, &attempt);
    suspension_end_try(suspension, attempt.probe);
    return may;
}

/* Requests that were under way at the same time fail one after the other. */
TEST(a_suspension_lasts_for_the_longest_requested_wait)
{
    struct suspension suspension;
    suspension_init(&suspension, false);
    assert_true(may_enter(&suspension, 0));
    suspension_begin(&suspension, SUSPENSION_BUSY, 1000, 60 * 1000, "busy");
    suspension_begin(&suspension, SUSPENSION_UNREACHABLE, 1500, -1, "gone");
    assert_string_equal(suspension.error, "gone");
    assert_int_equal(suspension.until_ms, 61 * 1000);
    assert_false(may_enter(&suspension, 61 * 1000 - 1));
    assert_true(may_enter(&suspension, 61 * 1000));
    suspension_begin(&suspension, SUSPENSION_BUSY, 61 * 1000, 90 * 1000, "busy");
    suspension_begin(&suspension, SUSPENSION_BUSY, 61 * 1000, 120 * 1000, "busy");
    assert_int_equal(suspension.until_ms, 181 * 1000);
}

TEST(simultaneous_failures_lengthen_the_wait_once)
{
    struct suspension one;
    struct suspension many;
    suspension_init(&one, false);
    suspension_init(&many, false);
    int64_t now_ms = 0;
    for (int round = 0; round < 5; round++) {
        suspension_begin(&one, SUSPENSION_UNREACHABLE, now_ms, -1, "");
        for (int i = 0; i < 20; i++)
            suspension_begin(&many, SUSPENSION_UNREACHABLE, now_ms, -1, "");
        /* Waits differ by chance, but not by a factor of 2^20. */
        assert_in_range(one.until_ms - now_ms, 500, 60 * 1000);
        assert_in_range(many.until_ms - now_ms, 500, 60 * 1000);
        now_ms += 3600 * 1000;
    }
}

TEST(after_a_suspension_other_requests_wait_for_one_try)
{
    struct suspension suspension;
    struct suspension_try first;
    struct suspension_try second;
    suspension_init(&suspension, false);
    suspension_begin(&suspension, SUSPENSION_BUSY, 0, 10 * 1000, "busy");
    assert_true(suspension_begin_try(&suspension, 10 * 1000, &first));
    assert_true(first.probe != 0);
    assert_false(suspension_begin_try(&suspension, 20 * 1000, &second));
    /* The first try takes so long, like an upload on a slow line, that a second one is allowed. */
    int64_t until_ms = suspension.until_ms;
    assert_in_range(until_ms, 41 * 1000, 60 * 1000);
    assert_true(suspension_begin_try(&suspension, until_ms, &second));
    assert_true(second.must_ask_list);
    assert_false(suspension_begin_try(&suspension, until_ms, &first));
    suspension_begin(&suspension, SUSPENSION_BUSY, until_ms, 10 * 1000, "busy");
    suspension_end_try(&suspension, second.probe);
    assert_int_equal(suspension.until_ms, until_ms + 10 * 1000);
    assert_true(suspension_begin_try(&suspension, until_ms + 10 * 1000, &first));
    /* The try ended without an answer, so another one is allowed. */
    suspension_end_try(&suspension, first.probe);
    assert_true(suspension_begin_try(&suspension, until_ms, &second));
    assert_true(second.probe != first.probe);
    suspension_end_try(&suspension, first.probe); /* late: another try has replaced it */
    assert_false(suspension_begin_try(&suspension, 20 * 1000, &first));
    suspension_end(&suspension, 20 * 1000);
    assert_true(suspension_begin_try(&suspension, 20 * 1000, &first));
    assert_int_equal(first.probe, 0);
    assert_string_equal(suspension.error, "");
}

/* A sent message cannot be taken back. */
TEST(after_a_rest_other_requests_wait_for_one_try)
{
    struct suspension suspension;
    struct suspension_try first;
    struct suspension_try second;
    suspension_init(&suspension, true);
    assert_true(suspension_begin_try(&suspension, 1000, &first));
    assert_true(first.probe != 0 && !first.must_ask_list);
    assert_false(suspension_begin_try(&suspension, 1000, &second));
    int64_t until_ms = suspension.until_ms;
    assert_in_range(until_ms, 1001, 60 * 1000);
    assert_true(suspension_begin_try(&suspension, until_ms, &second));
    assert_true(second.must_ask_list);
    suspension_end_try(&suspension, first.probe);
    assert_false(suspension_begin_try(&suspension, until_ms, &first));
    suspension_end(&suspension, until_ms);
    assert_true(suspension_begin_try(&suspension, until_ms + 1, &first));
    assert_true(suspension_begin_try(&suspension, until_ms + 1, &second));
    assert_true(first.probe == 0 && second.probe == 0);
    assert_true(suspension_begin_try(&suspension, until_ms + 3600 * 1000, &first));
    assert_true(first.probe != 0);
}

TEST(waking_allows_one_try_at_once)
{
    struct suspension suspension;
    suspension_init(&suspension, false);
    suspension_begin(&suspension, SUSPENSION_UNAUTHORIZED, 1000, -1, "key");
    assert_false(may_enter(&suspension, 60 * 1000));
    suspension_wake(&suspension);
    assert_true(may_enter(&suspension, 1001));
}
