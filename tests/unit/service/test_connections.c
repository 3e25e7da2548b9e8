/* SPDX-License-Identifier: MIT */
/*
 * A server with too many connections shuts one of them down, and waits for busy ones when it ends.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"

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

/* Both ends of a connection. */
struct pair {
    int ends[2];
    struct open_connection *connection;
};

static void pair_add(struct pair *pair, struct connections *connections)
{
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair->ends));
    pair->connection = connections_add(connections, pair->ends[0]);
}

static void pair_release(struct pair *pair, struct connections *connections)
{
    if (pair->connection != NULL)
        connections_remove(connections, pair->connection);
    close(pair->ends[0]);
    close(pair->ends[1]);
}

static void *end_connections(void *connections)
{
    connections_end(connections, INT32_MAX);
    return NULL;
}

TEST(ending_waits_only_for_busy_connections)
{
    struct connections *connections = connections_new(clock_system(), MAX_OPEN);
    struct pair idle, busy;
    pthread_t thread;
    pair_add(&idle, connections);
    pair_add(&busy, connections);
    connections_set_phase(connections, busy.connection, CONNECTION_SENDING);
    assert_false(connections_is_draining(connections));
    assert_int_equal(0, pthread_create(&thread, NULL, end_connections, connections));
    while (!connections_is_draining(connections))
        sched_yield();
    assert_false(is_cut_off(busy.ends[1], 0));
    connections_set_phase(connections, busy.connection, CONNECTION_IDLE);
    assert_true(is_cut_off(busy.ends[1], 10000));
    assert_true(is_cut_off(idle.ends[1], 10000));
    pair_release(&idle, connections);
    pair_release(&busy, connections);
    pthread_join(thread, NULL);
    connections_free(connections);
}

/* Four connections, in order of arrival. B is busy, W's request is carried out, K was served before, no
 * request of S was accepted, and a request of R was refused. */
static const struct {
    const char *before;
    int64_t seconds; /* time until the fifth connection arrives */
    size_t leaves;   /* index of the connection that the fifth replaces; 4 if the fifth is refused */
} rooms[] = {
    {"SSSS", 0, 0},  {"KRKK", 0, 1},  {"KSSS", 0, 1},  {"SSSK", 0, 0},  {"BKSK", 0, 2},
    {"BKKS", 0, 3},  {"SKKB", 0, 0},  {"BKBK", 0, 1},  {"BBBK", 0, 3},  {"BBBB", 59, 4},
    {"BBBB", 60, 0}, {"WBWB", 60, 1}, {"BBKB", 60, 2}, {"WWWW", 60, 4},
};

static void add_in_phase(struct pair *pair, struct connections *connections, char phase)
{
    pair_add(pair, connections);
    if (strchr("BKW", phase) != NULL)
        connections_set_phase(connections, pair->connection, CONNECTION_RECEIVING);
    if (phase == 'W')
        connections_set_phase(connections, pair->connection, CONNECTION_WORKING);
    if (phase == 'R')
        connections_set_phase(connections, pair->connection, CONNECTION_SENDING);
    if (strchr("KR", phase) != NULL)
        connections_set_phase(connections, pair->connection, CONNECTION_IDLE);
}

TEST(the_longest_waiting_connection_makes_room_for_a_further_connection)
{
    for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
        struct fake_clock fake;
        fake_clock_init(&fake, 0);
        struct connections *connections = connections_new(&fake.clock, MAX_OPEN);
        struct pair pairs[5];
        for (size_t at = 0; at < 4; at++) {
            add_in_phase(&pairs[at], connections, rooms[i].before[at]);
            fake_clock_advance(&fake, at < 3 ? 1 : rooms[i].seconds * 1000);
        }
        for (size_t at = 0; at < 4; at++)
            assert_false(is_cut_off(pairs[at].ends[1], 0));
        pair_add(&pairs[4], connections);
        for (size_t at = 0; at < 4; at++)
            assert_int_equal(at == rooms[i].leaves, is_cut_off(pairs[at].ends[1], 0));
        assert_int_equal(rooms[i].leaves == 4, pairs[4].connection == NULL);
        for (size_t at = 0; at < 5; at++)
            pair_release(&pairs[at], connections);
        connections_free(connections);
        fake_clock_release(&fake);
    }
}

/* Adds a connection from a loopback address. */
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
}

/* Each digit is an idle connection, in order of arrival: the end of its peer's address. All programs of the
 * machine share 127.0.0.1. */
static const struct {
    const char *peers;
    size_t leaves; /* index of the connection that is shut down; 9 if none is */
} shares[] = {
    {"222", 0}, {"223", 9}, {"3222", 1}, {"22332", 0}, {"1111", 9}, {"11111", 0}, {"11122", 9}, {"111223", 0},
};

TEST(a_peer_has_at_most_half_of_the_connections)
{
    for (size_t i = 0; i < ARRAY_LEN(shares); i++) {
        struct fake_clock fake;
        fake_clock_init(&fake, 0);
        struct connections *connections = connections_new(&fake.clock, MAX_OPEN);
        size_t len = strlen(shares[i].peers);
        struct pair pairs[8];
        for (size_t at = 0; at < len; at++) {
            char from[] = "127.0.0.x";
            from[8] = shares[i].peers[at];
            pair_add_from(&pairs[at], connections, from);
            assert_non_null(pairs[at].connection);
            fake_clock_advance(&fake, 1);
        }
        if (shares[i].leaves != 9)
            assert_true(is_cut_off(pairs[shares[i].leaves].ends[1], 0));
        for (size_t at = 0; at < len; at++)
            pair_release(&pairs[at], connections);
        connections_free(connections);
        fake_clock_release(&fake);
    }
}

TEST(a_peer_whose_connections_are_all_busy_gets_no_further_connection)
{
    struct connections *connections = connections_new(clock_system(), MAX_OPEN);
    struct pair pairs[4];
    for (size_t at = 0; at < 4; at++) {
        pair_add_from(&pairs[at], connections, at < 3 ? "127.0.0.2" : "127.0.0.3");
        assert_int_equal(at == 2, pairs[at].connection == NULL);
        if (pairs[at].connection != NULL)
            connections_set_phase(connections, pairs[at].connection, CONNECTION_RECEIVING);
    }
    for (size_t at = 0; at < 4; at++)
        pair_release(&pairs[at], connections);
    connections_free(connections);
}
