/* SPDX-License-Identifier: MIT */
/*
 * The connections that are open, and how long each may still take.
 *
 * Each has a deadline for what it is waited for (its phase): a client that sends or reads a byte now and then
 * is cut off at it, so that nobody can keep a connection for ever. The time between two bytes is bounded by
 * those who read (libmicrohttpd, which knows no other limit; smtp_server.c). Above `max_open` connections,
 * each new one has another cut off that waits for a request: one of which no request was accepted yet, before
 * the others; among these the one that waited longest. A request is accepted when its head was checked and
 * its key is in force.
 */
#ifndef INBOXFS_SERVICE_CONNECTIONS_H
#define INBOXFS_SERVICE_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct connections;
struct connection;

/* What a connection is waited for. */
enum connection_phase {
    CONNECTION_IDLE,      /* its next request, or the rest of one that was not accepted, or not yet */
    CONNECTION_RECEIVING, /* the rest of a request that was accepted */
    CONNECTION_SENDING,   /* that the answer is taken */
};

struct connections_limits {
    size_t max_open;
    int64_t phases_ms[CONNECTION_SENDING + 1]; /* how long each phase may take */
};

/* Starts the thread that cuts off. `clock` is borrowed. 0 or -errno. */
int connections_new(struct clock *clock, const struct connections_limits *limits,
                    struct connections **ret_connections);

/* All connections must be removed. NULL-safe. */
void connections_free(struct connections *connections);

/* `socket_fd` is borrowed until the removal. NULL without memory. */
struct connection *connections_add(struct connections *connections, int socket_fd);
void connections_remove(struct connections *connections, struct connection *connection);

/* Sets the phase, and with it the time limit. A connection that is not idle is busy. */
void connections_enter(struct connections *connections, struct connection *connection,
                       enum connection_phase phase);

/* From now on connections are to end with their answer. Waits until none is busy, at most `timeout_ms`. */
void connections_drain(struct connections *connections, int64_t timeout_ms);
bool connections_is_draining(struct connections *connections);

/* Cuts off all connections, and waits until each is removed. One that is added later reads nothing but the
 * end. To be called before the HTTP library is stopped: while that happens, version 0.9.75 of it reads a NULL
 * pointer where a thread answers a request that cannot be parsed. */
void connections_close(struct connections *connections);

#endif
