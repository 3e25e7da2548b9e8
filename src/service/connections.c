/* SPDX-License-Identifier: MIT */
/*
 * The list of connections. Sockets are only shut down here; the connections' own threads then see the end and
 * close them.
 */
#include "service/connections.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

enum {
    GRACE_MS = 2000,  /* before a least pace holds */
    AHEAD_MS = 5000,  /* the most that quick bytes are worth */
    BEHIND_MS = 1000, /* the most that slow ones have to make up for */
};

/* In place of a peer's address. */
enum {
    SHARED_PEER = 0, /* many programs connect from there */
    ALL_PEERS = 1,
};

struct connection {
    LIST_ENTRY(connection) entry;
    int socket_fd;
    uint64_t peer;
    enum connection_phase phase;
    bool was_accepted; /* some request of it was */
    bool is_cut_off;   /* it is on its way out */
    int64_t since_ms;  /* when it entered its phase */
    int64_t late_ms;   /* when it falls below the least pace */
};

struct connections {
    struct clock *clock;
    size_t max_open;
    int64_t pace;
    pthread_mutex_t lock;
    pthread_cond_t changed;           /* some connection did, while all are to end */
    LIST_HEAD(list, connection) list; /* protected by lock, as below, the connections too */
    size_t busy;
    bool is_draining;
    bool is_closed; /* see connections_end() */
};

static void cut_off(struct connection *connection)
{
    shutdown(connection->socket_fd, SHUT_RDWR);
    connection->is_cut_off = true;
}

/* A socket that was shut down still gives what had arrived before. */
static void discard_received(int socket_fd)
{
    char bytes[4096];
    while (recv(socket_fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

struct connections *connections_new(struct clock *clock, size_t max_open, int64_t pace)
{
    struct connections *connections = calloc(1, sizeof(*connections));
    if (connections == NULL)
        return NULL;
    connections->clock = clock;
    connections->max_open = max_open;
    connections->pace = pace;
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

static void enter_locked(struct connections *connections, struct connection *connection,
                         enum connection_phase phase)
{
    connections->busy -= connection->phase != CONNECTION_IDLE;
    connections->busy += phase != CONNECTION_IDLE;
    if (phase == CONNECTION_RECEIVING)
        connection->was_accepted = true;
    int64_t now_ms = clock_monotonic_ms(connections->clock);
    if (connection->phase == CONNECTION_WORKING)
        connection->late_ms = now_ms + GRACE_MS;
    connection->phase = phase;
    connection->since_ms = now_ms;
    if (connections->is_draining)
        pthread_cond_broadcast(&connections->changed);
}

/* ---------------------------------------------------------------- who makes room */

static uint64_t peer_of_ipv4(struct in_addr address)
{
    uint32_t number = ntohl(address.s_addr);
    return number == INADDR_LOOPBACK ? SHARED_PEER : number;
}

static uint64_t peer_of(int socket_fd)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(address);
    if (getpeername(socket_fd, (struct sockaddr *)&address, &len) != 0)
        return SHARED_PEER;
    if (address.ss_family == AF_INET)
        return peer_of_ipv4(((const struct sockaddr_in *)&address)->sin_addr);
    if (address.ss_family != AF_INET6)
        return SHARED_PEER;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)&address)->sin6_addr;
    struct in_addr four;
    memcpy(&four, six->s6_addr + 12, sizeof(four));
    uint64_t network;
    memcpy(&network, six->s6_addr, sizeof(network));
    return IN6_IS_ADDR_V4MAPPED(six) ? peer_of_ipv4(four) : network;
}

/* Those that were cut off do not count, and those of a shared peer as one. */
static size_t count_locked(const struct connections *connections, uint64_t peer)
{
    size_t count = 0;
    const struct connection *connection;
    LIST_FOREACH (connection, &connections->list, entry)
        count += !connection->is_cut_off && (peer == ALL_PEERS || connection->peer == peer);
    return peer == SHARED_PEER ? 1 : count;
}

/* In the order in which connections make room. */
enum claim {
    CLAIM_STRANGER, /* waits for a request, and none was accepted before */
    CLAIM_IDLE,
    CLAIM_SLOW,    /* busy */
    CLAIM_CROWDED, /* its peer has more connections */
    CLAIM_ALL,     /* makes no room */
};

/* A connection as one that may make room. */
struct candidate {
    struct connection *connection;
    enum claim claim;
    size_t peers;     /* connections of its peer */
    int64_t order_ms; /* among equals the smallest goes first */
};

static enum claim claim_of(const struct connections *connections, const struct connection *connection,
                           bool is_crowded)
{
    bool has_pace = connections->pace != 0;
    bool is_idle = connection->phase == CONNECTION_IDLE;
    if (connection->phase == CONNECTION_WORKING || (!has_pace && !is_idle))
        return CLAIM_ALL;
    if (has_pace && connection->late_ms > clock_monotonic_ms(connections->clock))
        return is_crowded && connection->phase != CONNECTION_SENDING ? CLAIM_CROWDED : CLAIM_ALL;
    return !is_idle ? CLAIM_SLOW : connection->was_accepted ? CLAIM_IDLE : CLAIM_STRANGER;
}

/* Whether `one`, which came before, is to be cut off before `other`. */
static bool goes_before(const struct candidate *one, const struct candidate *other)
{
    if (one->claim != other->claim)
        return one->claim < other->claim;
    if (one->peers != other->peers)
        return one->peers > other->peers;
    return one->order_ms <= other->order_ms;
}

/* Makes room for a connection of this peer. Only claims from `first` to `last` count. */
static bool make_room_locked(struct connections *connections, uint64_t peer, enum claim first,
                             enum claim last)
{
    struct candidate chosen = {.claim = CLAIM_ALL};
    size_t peers = count_locked(connections, peer) + (peer != SHARED_PEER);
    struct connection *connection;
    LIST_FOREACH (connection, &connections->list, entry) {
        size_t others = count_locked(connections, connection->peer);
        if (connection->is_cut_off || (others < peers && connection->peer != peer))
            continue;
        const struct candidate candidate = {
            .connection = connection,
            .claim = claim_of(connections, connection, others > peers),
            .peers = others,
            .order_ms = connection->phase == CONNECTION_IDLE ? connection->since_ms : connection->late_ms,
        };
        if (candidate.claim >= first && candidate.claim <= last && goes_before(&candidate, &chosen))
            chosen = candidate;
    }
    if (chosen.connection != NULL)
        cut_off(chosen.connection);
    return chosen.connection != NULL;
}

/* Returns true if there is a place for a connection of this peer, which may have cost another one. */
static bool find_place_locked(struct connections *connections, uint64_t peer)
{
    return count_locked(connections, ALL_PEERS) < connections->max_open ||
           make_room_locked(connections, peer, CLAIM_STRANGER, CLAIM_CROWDED) || connections->pace == 0;
}

struct connection *connections_add(struct connections *connections, int socket_fd)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL)
        return NULL;
    connection->socket_fd = socket_fd;
    connection->peer = peer_of(socket_fd);
    pthread_mutex_lock(&connections->lock);
    if (!find_place_locked(connections, connection->peer)) {
        pthread_mutex_unlock(&connections->lock);
        free(connection);
        return NULL;
    }
    connection->late_ms = clock_monotonic_ms(connections->clock) + GRACE_MS;
    LIST_INSERT_HEAD(&connections->list, connection, entry);
    enter_locked(connections, connection, CONNECTION_IDLE);
    if (connections->is_closed) {
        cut_off(connection);
        discard_received(socket_fd);
    }
    pthread_mutex_unlock(&connections->lock);
    return connection;
}

bool connections_may_wait(struct connections *connections, int socket_fd)
{
    uint64_t peer = peer_of(socket_fd);
    pthread_mutex_lock(&connections->lock);
    bool may_wait = peer == SHARED_PEER || count_locked(connections, peer) == 0;
    pthread_mutex_unlock(&connections->lock);
    return may_wait;
}

void connections_cut_off_slowest(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock);
    make_room_locked(connections, 0, CLAIM_SLOW, CLAIM_SLOW);
    pthread_mutex_unlock(&connections->lock);
}

/* Neither a quick beginning nor a long silence is remembered for ever. */
void connections_progress(struct connections *connections, struct connection *connection, size_t bytes)
{
    if (connections->pace == 0 || connection->phase != CONNECTION_RECEIVING)
        return;
    pthread_mutex_lock(&connections->lock);
    int64_t now_ms = clock_monotonic_ms(connections->clock);
    if (connection->late_ms < now_ms - BEHIND_MS)
        connection->late_ms = now_ms - BEHIND_MS;
    connection->late_ms += (int64_t)bytes * 1000 / connections->pace;
    if (connection->late_ms > now_ms + AHEAD_MS)
        connection->late_ms = now_ms + AHEAD_MS;
    pthread_mutex_unlock(&connections->lock);
}

/* ---------------------------------------------------------------- the phases, and the end */

void connections_remove(struct connections *connections, struct connection *connection)
{
    pthread_mutex_lock(&connections->lock);
    enter_locked(connections, connection, CONNECTION_IDLE);
    LIST_REMOVE(connection, entry);
    pthread_mutex_unlock(&connections->lock);
    free(connection);
}

void connections_enter(struct connections *connections, struct connection *connection,
                       enum connection_phase phase)
{
    pthread_mutex_lock(&connections->lock);
    enter_locked(connections, connection, phase);
    pthread_mutex_unlock(&connections->lock);
}

void connections_end(struct connections *connections, int64_t timeout_ms)
{
    struct clock *clock = connections->clock;
    int64_t until_ms = clock_monotonic_ms(clock) + timeout_ms;
    pthread_mutex_lock(&connections->lock);
    connections->is_draining = true;
    while (connections->busy > 0 && clock_monotonic_ms(clock) < until_ms)
        clock_wait(clock, &connections->changed, &connections->lock, until_ms);
    connections->is_closed = true;
    struct connection *connection;
    LIST_FOREACH (connection, &connections->list, entry)
        cut_off(connection);
    while (!LIST_EMPTY(&connections->list))
        clock_wait(clock, &connections->changed, &connections->lock, CLOCK_FOREVER);
    pthread_mutex_unlock(&connections->lock);
}

bool connections_is_draining(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock);
    bool is_draining = connections->is_draining;
    pthread_mutex_unlock(&connections->lock);
    return is_draining;
}
