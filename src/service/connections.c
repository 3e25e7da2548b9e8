/* SPDX-License-Identifier: MIT */
/*
 * This unit only shuts sockets down. The connections' threads then read an end of file and close the sockets.
 */
#include "service/connections.h"

#include <arpa/inet.h>
#include <glib.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/lock.h"

enum {
    BUSY_MS = 60 * 1000, /* after this time a busy connection may be shut down to make room */
};

/* Numbers of peers that stand for more than one address. */
enum {
    SHARED_PEER = 0, /* an address from which many programs connect */
    ALL_PEERS = 1,
};

struct open_connection {
    LIST_ENTRY(open_connection) entry;
    int socket_fd;
    uint64_t peer;
    enum connection_phase phase;
    bool was_accepted; /* a request of the connection was accepted */
    bool is_cut_off;   /* the socket was shut down */
    int64_t since_ms;  /* monotonic time at which the phase began */
};

struct connections {
    struct clock *clock;
    size_t max_open;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a connection changed its phase or was removed, while draining */
    /* Protected by `lock`, as are the members below and the connections. */
    LIST_HEAD(list, open_connection)
    list;
    size_t busy;
    bool is_draining;
    bool is_closed; /* connections_end() has shut down the sockets */
};

static void cut_off(struct open_connection *connection)
{
    shutdown(connection->socket_fd, SHUT_RDWR);
    connection->is_cut_off = true;
}

struct connections *connections_new(struct clock *clock, size_t max_open)
{
    struct connections *connections = g_new0(struct connections, 1);
    connections->clock = clock;
    connections->max_open = max_open;
    pthread_mutex_init(&connections->lock, NULL);
    clock_condition_init(&connections->changed);
    return connections;
}

void connections_free(struct connections *connections)
{
    if (connections == NULL)
        return;
    pthread_cond_destroy(&connections->changed);
    pthread_mutex_destroy(&connections->lock);
    free(connections);
}

static void set_phase_locked(struct connections *connections, struct open_connection *connection,
                             enum connection_phase phase)
{
    connections->busy -= connection->phase != CONNECTION_IDLE;
    connections->busy += phase != CONNECTION_IDLE;
    if (phase == CONNECTION_RECEIVING)
        connection->was_accepted = true;
    connection->phase = phase;
    connection->since_ms = clock_monotonic_ms(connections->clock);
    if (connections->is_draining)
        pthread_cond_broadcast(&connections->changed);
}

/* ---------------------------------------------------------------- making room */

static uint64_t ipv4_peer(struct in_addr address)
{
    uint32_t number = ntohl(address.s_addr);
    return number == INADDR_LOOPBACK ? SHARED_PEER : number;
}

static uint64_t find_peer(int socket_fd)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(address);
    if (getpeername(socket_fd, (struct sockaddr *)&address, &len) != 0)
        return SHARED_PEER;
    if (address.ss_family == AF_INET)
        return ipv4_peer(((const struct sockaddr_in *)&address)->sin_addr);
    if (address.ss_family != AF_INET6)
        return SHARED_PEER;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)&address)->sin6_addr;
    struct in_addr four;
    memcpy(&four, six->s6_addr + 12, sizeof(four));
    uint64_t network;
    memcpy(&network, six->s6_addr, sizeof(network));
    return IN6_IS_ADDR_V4MAPPED(six) ? ipv4_peer(four) : network;
}

/* To make room, connections are cut off in this order. */
enum cut_order {
    CUT_STRANGER, /* idle, and without any accepted request */
    CUT_IDLE,
    CUT_SLOW,  /* has been receiving or sending for BUSY_MS or longer */
    CUT_NEVER, /* works, or has been receiving or sending for a shorter time */
};

static enum cut_order find_cut_order(const struct open_connection *connection, int64_t now)
{
    if (connection->phase == CONNECTION_IDLE)
        return connection->was_accepted ? CUT_IDLE : CUT_STRANGER;
    bool is_slow = connection->phase != CONNECTION_WORKING && now - connection->since_ms >= BUSY_MS;
    return is_slow ? CUT_SLOW : CUT_NEVER;
}

/* Returns the number of the peer's connections that were not cut off. *ret_first is the one that is first in
 * the order or, of several, longest in its phase; NULL if none may be cut off. The oldest connection is at
 * the end of the list. */
static size_t examine_locked(const struct connections *connections, uint64_t peer,
                             struct open_connection **ret_first)
{
    int64_t now = clock_monotonic_ms(connections->clock);
    size_t count = 0;
    enum cut_order least = CUT_NEVER;
    *ret_first = NULL;
    struct open_connection *connection;
    LIST_FOREACH (connection, &connections->list, entry) {
        if (connection->is_cut_off || (peer != ALL_PEERS && connection->peer != peer))
            continue;
        count++;
        enum cut_order order = find_cut_order(connection, now);
        bool is_longest =
            order == least && *ret_first != NULL && connection->since_ms <= (*ret_first)->since_ms;
        if (order < least || is_longest) {
            *ret_first = connection;
            least = order;
        }
    }
    return count;
}

/* Finds a place for a connection of this peer, or makes one. Returns false if there is none. */
static bool find_place_locked(struct connections *connections, uint64_t peer)
{
    struct open_connection *first = NULL;
    size_t peer_max = (connections->max_open + 1) / 2;
    bool has_place = (peer == SHARED_PEER || examine_locked(connections, peer, &first) < peer_max) &&
                     examine_locked(connections, ALL_PEERS, &first) < connections->max_open;
    if (!has_place && first != NULL)
        cut_off(first);
    return has_place || first != NULL;
}

struct open_connection *connections_add(struct connections *connections, int socket_fd)
{
    uint64_t peer = find_peer(socket_fd);
    LOCK_GUARD(&connections->lock);
    if (!find_place_locked(connections, peer))
        return NULL;
    struct open_connection *connection = g_new0(struct open_connection, 1);
    connection->socket_fd = socket_fd;
    connection->peer = peer;
    LIST_INSERT_HEAD(&connections->list, connection, entry);
    set_phase_locked(connections, connection, CONNECTION_IDLE);
    if (connections->is_closed) {
        cut_off(connection);
        /* Bytes that arrived before the shutdown could still be read, as a request. */
        char bytes[4096];
        while (recv(socket_fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            ;
    }
    return connection;
}

/* ---------------------------------------------------------------- the phases, and the end */

void connections_remove(struct connections *connections, struct open_connection *connection)
{
    pthread_mutex_lock(&connections->lock);
    set_phase_locked(connections, connection, CONNECTION_IDLE);
    LIST_REMOVE(connection, entry);
    pthread_mutex_unlock(&connections->lock);
    free(connection);
}

void connections_set_phase(struct connections *connections, struct open_connection *connection,
                           enum connection_phase phase)
{
    LOCK_GUARD(&connections->lock);
    set_phase_locked(connections, connection, phase);
}

void connections_end(struct connections *connections, int64_t timeout_ms)
{
    struct clock *clock = connections->clock;
    int64_t until_ms = clock_monotonic_ms(clock) + timeout_ms;
    LOCK_GUARD(&connections->lock);
    connections->is_draining = true;
    while (connections->busy > 0 && clock_monotonic_ms(clock) < until_ms)
        clock_wait(clock, &connections->changed, &connections->lock, until_ms);
    connections->is_closed = true;
    struct open_connection *connection;
    LIST_FOREACH (connection, &connections->list, entry)
        cut_off(connection);
    while (!LIST_EMPTY(&connections->list))
        clock_wait(clock, &connections->changed, &connections->lock, CLOCK_FOREVER);
}

bool connections_is_draining(struct connections *connections)
{
    LOCK_GUARD(&connections->lock);
    return connections->is_draining;
}
