/* SPDX-License-Identifier: MIT */
/*
 * The list of connections, and the thread that waits for the next deadline. Sockets are only shut down here;
 * the connections' own threads then see the end and close them.
 */
#include "service/connections.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/thread.h"

struct connection {
    struct connection *previous, *next;
    int socket_fd;
    enum connection_phase phase;
    bool was_accepted; /* some request of it was */
    int64_t deadline_ms;
};

struct connections {
    struct clock *clock;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct connections_limits limits;
    struct connection *first; /* this and all below protected by lock, the connections too */
    size_t open;
    size_t busy;
    int64_t next_ms; /* when the thread wakes by itself */
    bool is_draining;
    bool is_closed; /* see connections_close() */
    bool is_ending;
};

static void cut_off(struct connection *connection)
{
    shutdown(connection->socket_fd, SHUT_RDWR);
    connection->deadline_ms = CLOCK_FOREVER;
}

/* A socket that was shut down still gives what had arrived before. */
static void discard_received(int socket_fd)
{
    char bytes[4096];
    while (recv(socket_fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

/* Shuts down what is late; the next deadline, or CLOCK_FOREVER. */
static int64_t cut_off_late_locked(struct connections *connections, int64_t now_ms)
{
    int64_t next_ms = CLOCK_FOREVER;
    for (struct connection *connection = connections->first; connection != NULL;
         connection = connection->next) {
        if (connection->deadline_ms <= now_ms)
            cut_off(connection);
        if (connection->deadline_ms < next_ms)
            next_ms = connection->deadline_ms;
    }
    return next_ms;
}

static void *watch(void *argument)
{
    struct connections *connections = argument;
    struct clock *clock = connections->clock;
    pthread_mutex_lock(&connections->lock);
    while (!connections->is_ending) {
        connections->next_ms = cut_off_late_locked(connections, clock_monotonic_ms(clock));
        clock_wait(clock, &connections->changed, &connections->lock, connections->next_ms);
    }
    pthread_mutex_unlock(&connections->lock);
    return NULL;
}

int connections_new(struct clock *clock, const struct connections_limits *limits,
                    struct connections **ret_connections)
{
    struct connections *connections = calloc(1, sizeof(*connections));
    if (connections == NULL)
        return -ENOMEM;
    connections->clock = clock;
    connections->limits = *limits;
    pthread_mutex_init(&connections->lock, NULL);
    clock_condition_init(&connections->changed);
    int error = thread_start(&connections->thread, "inboxd-watch", watch, connections);
    if (error != 0) {
        pthread_cond_destroy(&connections->changed);
        pthread_mutex_destroy(&connections->lock);
        free(connections);
        return error;
    }
    *ret_connections = connections;
    return 0;
}

void connections_free(struct connections *connections)
{
    if (connections == NULL)
        return;
    pthread_mutex_lock(&connections->lock);
    connections->is_ending = true;
    pthread_cond_broadcast(&connections->changed);
    pthread_mutex_unlock(&connections->lock);
    pthread_join(connections->thread, NULL);
    pthread_cond_destroy(&connections->changed);
    pthread_mutex_destroy(&connections->lock);
    free(connections);
}

static void enter_locked(struct connections *connections, struct connection *connection,
                         enum connection_phase phase)
{
    if (connection->phase != CONNECTION_IDLE)
        connections->busy--;
    if (phase != CONNECTION_IDLE)
        connections->busy++;
    if (phase == CONNECTION_RECEIVING)
        connection->was_accepted = true;
    connection->phase = phase;
    connection->deadline_ms = clock_monotonic_ms(connections->clock) + connections->limits.phases_ms[phase];
    /* Most deadlines move away: the thread finds out when it wakes for the one before. */
    if (connection->deadline_ms < connections->next_ms || connections->is_draining || connections->is_closed)
        pthread_cond_broadcast(&connections->changed);
}

/* Whether `one`, which came before, is to be cut off before `other`. */
static bool goes_before(const struct connection *one, const struct connection *other)
{
    if (one->was_accepted != other->was_accepted)
        return other->was_accepted;
    return one->deadline_ms <= other->deadline_ms;
}

/* Requests that were accepted are left alone, and those that were cut off before are on their way out. */
static void cut_off_one_locked(struct connections *connections)
{
    struct connection *chosen = NULL;
    for (struct connection *connection = connections->first; connection != NULL;
         connection = connection->next) {
        if (connection->phase == CONNECTION_IDLE && connection->deadline_ms != CLOCK_FOREVER &&
            (chosen == NULL || goes_before(connection, chosen)))
            chosen = connection;
    }
    if (chosen != NULL)
        cut_off(chosen);
}

struct connection *connections_add(struct connections *connections, int socket_fd)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL)
        return NULL;
    connection->socket_fd = socket_fd;
    pthread_mutex_lock(&connections->lock);
    if (++connections->open > connections->limits.max_open)
        cut_off_one_locked(connections);
    connection->next = connections->first;
    if (connection->next != NULL)
        connection->next->previous = connection;
    connections->first = connection;
    enter_locked(connections, connection, CONNECTION_IDLE);
    if (connections->is_closed) {
        cut_off(connection);
        discard_received(socket_fd);
    }
    pthread_mutex_unlock(&connections->lock);
    return connection;
}

void connections_remove(struct connections *connections, struct connection *connection)
{
    pthread_mutex_lock(&connections->lock);
    connections->open--;
    enter_locked(connections, connection, CONNECTION_IDLE);
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        connections->first = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
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

void connections_drain(struct connections *connections, int64_t timeout_ms)
{
    struct clock *clock = connections->clock;
    int64_t until_ms = clock_monotonic_ms(clock) + timeout_ms;
    pthread_mutex_lock(&connections->lock);
    connections->is_draining = true;
    while (connections->busy > 0 && clock_monotonic_ms(clock) < until_ms)
        clock_wait(clock, &connections->changed, &connections->lock, until_ms);
    pthread_mutex_unlock(&connections->lock);
}

void connections_close(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock);
    connections->is_closed = true;
    for (struct connection *connection = connections->first; connection != NULL;
         connection = connection->next)
        cut_off(connection);
    while (connections->open > 0)
        clock_wait(connections->clock, &connections->changed, &connections->lock, CLOCK_FOREVER);
    pthread_mutex_unlock(&connections->lock);
}

bool connections_is_draining(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock);
    bool is_draining = connections->is_draining;
    pthread_mutex_unlock(&connections->lock);
    return is_draining;
}
