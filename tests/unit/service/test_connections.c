/* SPDX-License-Identifier: MIT */
/*
 * Who takes too long is cut off; who is in time is not.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "service/connections.h"
#include "support/fake_clock.h"

static bool is_cut_off(int fd, int timeout_ms)
{
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    return poll(&waiting, 1, timeout_ms) == 1;
}

static const struct {
    enum connection_phase phase;
    int64_t limit_ms;
} cases[] = {
    {CONNECTION_IDLE, 60 * 1000},
    {CONNECTION_RECEIVING, 300 * 1000},
    {CONNECTION_SENDING, 600 * 1000},
};

static void who_is_late_is_cut_off(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fake_clock fake;
        fake_clock_init(&fake, 0);
        struct connections *connections = NULL;
        assert_int_equal(0, connections_new(&fake.clock, &connections));
        int late[2];
        int timely[2];
        assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM, 0, late));
        assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM, 0, timely));
        struct connection *first = connections_add(connections, late[0]);
        connections_enter(connections, first, cases[i].phase);
        fake_clock_await_waiters(&fake, 1);
        fake_clock_advance(&fake, cases[i].limit_ms - 1);
        struct connection *second = connections_add(connections, timely[0]);
        assert_false(is_cut_off(late[1], 0));
        fake_clock_advance(&fake, 1);
        assert_true(is_cut_off(late[1], 10000));
        assert_false(is_cut_off(timely[1], 0));
        connections_remove(connections, first);
        connections_remove(connections, second);
        connections_free(connections);
        fake_clock_release(&fake);
        for (size_t end = 0; end < 2; end++) {
            close(late[end]);
            close(timely[end]);
        }
    }
}

static void draining_waits_for_the_busy_alone(void **state)
{
    (void)state;
    struct connections *connections = NULL;
    assert_int_equal(0, connections_new(clock_system(), &connections));
    struct connection *connection = connections_add(connections, -1);
    assert_false(connections_is_draining(connections));
    connections_drain(connections, INT32_MAX);
    assert_true(connections_is_draining(connections));
    connections_enter(connections, connection, CONNECTION_SENDING);
    connections_drain(connections, 1);
    connections_remove(connections, connection);
    connections_free(connections);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_late_is_cut_off),
        cmocka_unit_test(draining_waits_for_the_busy_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
