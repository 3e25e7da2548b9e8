/* SPDX-License-Identifier: MIT */
/*
 * Turns to make large replies: so many at a time, and none while too many bytes wait for their clients.
 */
#include "service/reply_budget.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void so_many_make_replies_at_a_time(void **state)
{
    struct reply_budget budget;
    (void)state;
    reply_budget_init(&budget, 2, 100, 0);
    assert_int_equal(0, reply_budget_begin(&budget));
    assert_int_equal(0, reply_budget_begin(&budget));
    assert_int_equal(-EBUSY, reply_budget_begin(&budget));
    reply_budget_end(&budget, 0);
    assert_int_equal(0, reply_budget_begin(&budget));
    reply_budget_end(&budget, 0);
    reply_budget_end(&budget, 0);
    reply_budget_release(&budget);
}

static void replies_that_wait_for_their_clients_are_bounded(void **state)
{
    struct reply_budget budget;
    (void)state;
    reply_budget_init(&budget, 2, 100, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(0, reply_budget_begin(&budget));
        reply_budget_end(&budget, 60);
    }
    assert_int_equal(-EBUSY, reply_budget_begin(&budget));
    reply_budget_return(&budget, 60);
    assert_int_equal(0, reply_budget_begin(&budget));
    reply_budget_end(&budget, 0);
    reply_budget_return(&budget, 60);
    reply_budget_release(&budget);
}

static void *return_some(void *budget)
{
    reply_budget_return(budget, 100);
    return NULL;
}

static void a_request_waits_for_its_turn(void **state)
{
    struct reply_budget budget;
    pthread_t thread;
    (void)state;
    reply_budget_init(&budget, 1, 100, 60 * 1000);
    assert_int_equal(0, reply_budget_begin(&budget));
    reply_budget_end(&budget, 100);
    assert_int_equal(0, pthread_create(&thread, NULL, return_some, &budget));
    assert_int_equal(0, reply_budget_begin(&budget));
    pthread_join(thread, NULL);
    reply_budget_end(&budget, 0);
    reply_budget_close(&budget);
    assert_int_equal(-EBUSY, reply_budget_begin(&budget));
    reply_budget_release(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_make_replies_at_a_time),
        cmocka_unit_test(replies_that_wait_for_their_clients_are_bounded),
        cmocka_unit_test(a_request_waits_for_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
