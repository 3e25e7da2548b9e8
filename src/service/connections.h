/* SPDX-License-Identifier: MIT */
/*
 * The open connections of a server, at most `max_open`. To make room for a further connection, another one
 * is shut down:
 * - the connection that has waited longest for a request. Connections without any accepted request are
 *   chosen first. A request is accepted when its head was checked and its key is valid;
 * - if none waits for a request, the connection that has been receiving a request or sending an answer for
 *   longest, if that is at least a minute.
 * If neither exists, the further connection is refused.
 *
 * A peer is an IPv4 address or an IPv6 network (/64), and has at most half of the places: a further
 * connection replaces another one of the same peer. 127.0.0.1, ::1 and a Unix socket may have all places,
 * because many programs share them.
 *
 * The caller (libmicrohttpd or smtp_server.c) bounds the time between two bytes of a client.
 */
#ifndef INBOXFS_SERVICE_CONNECTIONS_H
#define INBOXFS_SERVICE_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct connections;
struct open_connection;

enum connection_phase {
    CONNECTION_IDLE,      /* no request was accepted since the last answer */
    CONNECTION_RECEIVING, /* receives the rest of an accepted request */
    CONNECTION_SENDING,   /* sends the answer to an accepted request */
    CONNECTION_WORKING,   /* an endpoint carries out the request */
};

/* `clock` is borrowed. */
struct connections *connections_new(struct clock *clock, size_t max_open);

/* The caller must have removed all connections. NULL-safe. */
void connections_free(struct connections *connections);

/* Adds an idle connection. `socket_fd` is borrowed until connections_remove(). Returns NULL if there is no
 * place for it. */
struct open_connection *connections_add(struct connections *connections, int socket_fd);
void connections_remove(struct connections *connections, struct open_connection *connection);

/* Sets the phase. A connection that is not idle is busy. */
void connections_set_phase(struct connections *connections, struct open_connection *connection,
                           enum connection_phase phase);

/* Ends all connections: waits until none is busy, at most `timeout_ms`, then shuts down their sockets, and
 * waits until each was removed. A connection that is added later is shut down at once. The caller must stop
 * libmicrohttpd afterwards: version 0.9.75 reads a NULL pointer if it is stopped while a thread answers a
 * request that cannot be parsed. */
void connections_end(struct connections *connections, int64_t timeout_ms);

/* Returns true once connections_end() was called: a connection should then be closed after its answer. */
bool connections_is_draining(struct connections *connections);

#endif
