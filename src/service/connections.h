/* SPDX-License-Identifier: MIT */
/*
 * The connections that are open, at most `max_open`. When all places are taken, a new connection takes the
 * place of another one:
 * - of a connection that waits for a request. Those come first of which no request was accepted yet, and
 * among them the one that has waited longest. A request is accepted when its head was checked and its key is
 * valid;
 * - else of the connection that has been receiving a request or sending an answer for longest, if that has
 *   lasted for over a minute.
 * A connection whose request is being carried out keeps its place. If all do, the new one is refused.
 *
 * A peer, which is an IPv4 address or an IPv6 network (/64), has at most half of the places; its next
 * connection takes the place of one of its own. Many programs share 127.0.0.1, ::1 and a Unix socket, so each
 * of these may have all places.
 *
 * The caller bounds the time between two bytes (libmicrohttpd; smtp_server.c).
 */
#ifndef INBOXFS_SERVICE_CONNECTIONS_H
#define INBOXFS_SERVICE_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct connections;
struct connection;

/* The phase of a connection, by what it waits for. */
enum connection_phase {
    CONNECTION_IDLE,      /* its next request, or the rest of one that was not accepted, or not yet */
    CONNECTION_RECEIVING, /* the rest of a request that was accepted */
    CONNECTION_SENDING,   /* that the answer to a request that was accepted is taken */
    CONNECTION_WORKING,   /* nothing: its request is carried out */
};

/* `clock` is borrowed. Return: NULL without memory. */
struct connections *connections_new(struct clock *clock, size_t max_open);

/* The caller must have removed all connections. NULL-safe. */
void connections_free(struct connections *connections);

/* Adds an idle connection. `socket_fd` is borrowed until connections_remove(). Return: NULL if no place is
 * free, or without memory. */
struct connection *connections_add(struct connections *connections, int socket_fd);
void connections_remove(struct connections *connections, struct connection *connection);

/* Sets the phase. A connection that is not idle is busy. */
void connections_enter(struct connections *connections, struct connection *connection,
                       enum connection_phase phase);

/* Ends all connections: waits until none is busy, at most `timeout_ms`, then shuts down their sockets, and
 * waits until each was removed. A connection that is added later gets end-of-file at once. The caller stops
 * libmicrohttpd afterwards: version 0.9.75 reads a NULL pointer if it is stopped while a thread answers a
 * request that cannot be parsed. */
void connections_end(struct connections *connections, int64_t timeout_ms);
/* Returns true once connections_end() was called: a connection should close after its answer. */
bool connections_is_draining(struct connections *connections);

#endif
