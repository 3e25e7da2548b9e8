/* SPDX-License-Identifier: MIT */
/*
 * With too many connections, the one that deserves its place least makes room.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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

enum {
    MAX_OPEN = 4,
};

/* A connection of which the other end is held. */
struct pair {
    int ends[2];
    struct connection *connection;
};

static void pair_add(struct pair *pair, struct connections *connections)
{
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair->ends));
    pair->connection = connections_add(connections, pair->ends[0]);
}

static void pair_release(struct pair *pair, struct connections *connections)
{
    connections_remove(connections, pair->connection);
    close(pair->ends[0]);
    close(pair->ends[1]);
}

static void *end(void *connections)
{
    connections_end(connections, INT32_MAX);
    return NULL;
}

static void the_end_waits_for_the_busy_alone(void **state)
{
    (void)state;
    struct connections *connections = connections_new(clock_system(), MAX_OPEN, 0);
    struct pair idle, busy;
    pthread_t thread;
    pair_add(&idle, connections);
    pair_add(&busy, connections);
    connections_enter(connections, busy.connection, CONNECTION_SENDING);
    assert_false(connections_is_draining(connections));
    assert_int_equal(0, pthread_create(&thread, NULL, end, connections));
    while (!connections_is_draining(connections))
        sched_yield();
    assert_false(is_cut_off(busy.ends[1], 0));
    connections_enter(connections, busy.connection, CONNECTION_IDLE);
    assert_true(is_cut_off(busy.ends[1], 10000));
    assert_true(is_cut_off(idle.ends[1], 10000));
    pair_release(&idle, connections);
    pair_release(&busy, connections);
    pthread_join(thread, NULL);
    connections_free(connections);
}

/* Four connections, in the order they came: B is busy, K was served before, S is a stranger, R one who
 * was refused. */
static const struct {
    const char *before;
    size_t leaves; /* which of them the fifth takes the place of; 9: none */
} rooms[] = {
    {"SSSS", 0}, {"KRKK", 1}, {"KSSS", 1}, {"SSSK", 0}, {"BKSK", 2},
    {"BKKS", 3}, {"SKKB", 0}, {"BKBK", 1}, {"BBBK", 3}, {"BBBB", 9},
};

static void strangers_make_room_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
        struct fake_clock fake;
        fake_clock_init(&fake, 0);
        struct connections *connections = connections_new(&fake.clock, MAX_OPEN, 0);
        struct pair pairs[6];
        for (size_t at = 0; at < 4; at++) {
            pair_add(&pairs[at], connections);
            if (strchr("BK", rooms[i].before[at]) != NULL)
                connections_enter(connections, pairs[at].connection, CONNECTION_RECEIVING);
            if (rooms[i].before[at] == 'R')
                connections_enter(connections, pairs[at].connection, CONNECTION_SENDING);
            if (strchr("KR", rooms[i].before[at]) != NULL)
                connections_enter(connections, pairs[at].connection, CONNECTION_IDLE);
            fake_clock_advance(&fake, 1);
        }
        for (size_t at = 0; at < 4; at++)
            assert_false(is_cut_off(pairs[at].ends[1], 0));
        pair_add(&pairs[4], connections);
        for (size_t at = 0; at < 5; at++)
            assert_int_equal(at == rooms[i].leaves, is_cut_off(pairs[at].ends[1], 0));
        /* With two less there is room for one more. */
        pair_release(&pairs[0], connections);
        pair_release(&pairs[1], connections);
        pair_add(&pairs[5], connections);
        for (size_t at = 2; at < 6; at++)
            assert_int_equal(at == rooms[i].leaves, is_cut_off(pairs[at].ends[1], 0));
        for (size_t at = 2; at < 6; at++)
            pair_release(&pairs[at], connections);
        connections_free(connections);
        fake_clock_release(&fake);
    }
}

/* ---------------------------------------------------------------- with a least pace */

enum {
    PACED_MAX_OPEN = 3,
    PACE = 1000,
};

static void receive(struct pair *pair, struct connections *connections)
{
    pair_add(pair, connections);
    assert_non_null(pair->connection);
    connections_enter(connections, pair->connection, CONNECTION_RECEIVING);
}

static void the_slowest_makes_room_first(void **state)
{
    (void)state;
    struct fake_clock fake;
    fake_clock_init(&fake, 0);
    struct connections *connections = connections_new(&fake.clock, PACED_MAX_OPEN, PACE);
    struct pair dripping, steady, working, refused, first, second;
    receive(&steady, connections);
    receive(&dripping, connections);
    receive(&working, connections);
    connections_enter(connections, working.connection, CONNECTION_WORKING);
    pair_add(&refused, connections); /* nobody was slow yet */
    assert_null(refused.connection);
    for (size_t i = 0; i < 30; i++) {
        fake_clock_advance(&fake, 1000);
        connections_progress(connections, dripping.connection, 900);
        connections_progress(connections, steady.connection, 1000);
    }
    pair_add(&first, connections);
    assert_true(is_cut_off(dripping.ends[1], 0));
    connections_cut_off_slowest(connections); /* nobody else is slow */
    assert_false(is_cut_off(steady.ends[1], 0));
    connections_enter(connections, first.connection, CONNECTION_WORKING);
    fake_clock_advance(&fake, 2000);
    pair_add(&second, connections);
    assert_true(is_cut_off(steady.ends[1], 0));
    assert_false(is_cut_off(working.ends[1], 0));
    struct pair *const all[] = {&dripping, &steady, &working, &first, &second};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        pair_release(all[i], connections);
    close(refused.ends[0]);
    close(refused.ends[1]);
    connections_free(connections);
    fake_clock_release(&fake);
}

/* A connection from an address of this machine. */
static void pair_add_from(struct pair *pair, struct connections *connections, const char *from)
{
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in client = {.sin_family = AF_INET};
    socklen_t len = sizeof(server);
    assert_int_equal(1, inet_pton(AF_INET, from, &client.sin_addr));
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(0, bind(listening, (struct sockaddr *)&server, sizeof(server)));
    assert_int_equal(0, listen(listening, 1));
    assert_int_equal(0, getsockname(listening, (struct sockaddr *)&server, &len));
    pair->ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(0, bind(pair->ends[1], (struct sockaddr *)&client, sizeof(client)));
    assert_int_equal(0, connect(pair->ends[1], (struct sockaddr *)&server, sizeof(server)));
    pair->ends[0] = accept(listening, NULL, NULL);
    close(listening);
    pair->connection = connections_add(connections, pair->ends[0]);
    if (pair->connection != NULL)
        connections_enter(connections, pair->connection, CONNECTION_RECEIVING);
}

/* Three connections that are quick, and then one more: the last digits of their peers' addresses. All
 * programs of the machine share 127.0.0.1. */
static const struct {
    const char *before;
    char next;
    size_t leaves; /* 3: the new one is refused */
} shares[] = {
    {"222", '3', 0}, {"232", '3', 3}, {"223", '2', 3}, {"322", '4', 1},
    {"111", '1', 3}, {"111", '2', 3}, {"122", '1', 1}, {"234", '5', 3},
};

static void a_peer_with_many_connections_makes_room(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
        struct fake_clock fake;
        fake_clock_init(&fake, 0);
        struct connections *connections = connections_new(&fake.clock, PACED_MAX_OPEN, PACE);
        struct pair pairs[4];
        for (size_t at = 0; at < 4; at++) {
            char from[] = "127.0.0.x";
            from[8] = at < 3 ? shares[i].before[at] : shares[i].next;
            pair_add_from(&pairs[at], connections, from);
            fake_clock_advance(&fake, 1);
        }
        for (size_t at = 0; at < 3; at++)
            assert_int_equal(at == shares[i].leaves, is_cut_off(pairs[at].ends[1], 0));
        assert_int_equal(shares[i].leaves == 3, pairs[3].connection == NULL);
        for (size_t at = 0; at < 4; at++) {
            if (pairs[at].connection != NULL)
                connections_remove(connections, pairs[at].connection);
            close(pairs[at].ends[0]);
            close(pairs[at].ends[1]);
        }
        connections_free(connections);
        fake_clock_release(&fake);
    }
}

/* Without a least pace no connection is refused: a peer that made no room for itself would have all places.
 */
static void a_peer_makes_room_for_itself(void **state)
{
    (void)state;
    struct fake_clock fake;
    fake_clock_init(&fake, 0);
    struct connections *connections = connections_new(&fake.clock, MAX_OPEN, 0);
    static const char *const peers[] = {"127.0.0.3", "127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.2"};
    struct pair pairs[ARRAY_LEN(peers)];
    for (size_t at = 0; at < ARRAY_LEN(peers); at++) {
        pair_add_from(&pairs[at], connections, peers[at]);
        connections_enter(connections, pairs[at].connection, CONNECTION_IDLE);
        fake_clock_advance(&fake, 1);
    }
    for (size_t at = 0; at < ARRAY_LEN(peers); at++)
        assert_int_equal(at == 1, is_cut_off(pairs[at].ends[1], 0));
    for (size_t at = 0; at < ARRAY_LEN(peers); at++)
        pair_release(&pairs[at], connections);
    connections_free(connections);
    fake_clock_release(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_make_room_first),
        cmocka_unit_test(the_end_waits_for_the_busy_alone),
        cmocka_unit_test(the_slowest_makes_room_first),
        cmocka_unit_test(a_peer_with_many_connections_makes_room),
        cmocka_unit_test(a_peer_makes_room_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
