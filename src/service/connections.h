/* SPDX-License-Identifier: MIT */
/*
 * The connections that are open. There are at most `max_open`. With more, a new one takes the place of
 * another:
 * - of one that waits for a request. First come those of which no request was accepted yet, and among these
 * the one that waited longest. A request is accepted when its head was checked and its key is in force;
 * - else of the one that has been receiving a request or sending an answer for longest, if for over a minute.
 * A connection whose request is carried out makes no room. Without any that does, the new one is refused.
 *
 * A peer, which is an IPv4 address or an IPv6 network (/64), has at most half of the places: then one of its
 * own makes room. Many programs share the addresses 127.0.0.1 and ::1 and a Unix socket, so these may have
 * all places.
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

/* A connection waits for this. */
enum connection_phase {
    CONNECTION_IDLE,      /* its next request, or the rest of one that was not accepted, or not yet */
    CONNECTION_RECEIVING, /* the rest of a request that was accepted */
    CONNECTION_SENDING,   /* that the answer to a request that was accepted is taken */
    CONNECTION_WORKING,   /* nothing: its request is carried out */
};

/* `clock` is borrowed. NULL without memory. */
struct connections *connections_new(struct clock *clock, size_t max_open);

/* All connections must be removed. NULL-safe. */
void connections_free(struct connections *connections);

/* `socket_fd` is borrowed until the removal. NULL: it is refused, or there is no memory. */
struct connection *connections_add(struct connections *connections, int socket_fd);
void connections_remove(struct connections *connections, struct connection *connection);

/* Sets the phase. A connection that is not idle is busy. */
void connections_enter(struct connections *connections, struct connection *connection,
                       enum connection_phase phase);

/* From now on connections are to end with their answer. Waits until none is busy, at most `timeout_ms`; then
 * cuts off all, and waits until each is removed. One that is added later reads nothing but the end. To be
 * called before the HTTP library is stopped: while that happens, version 0.9.75 of it reads a NULL pointer
 * where a thread answers a request that cannot be parsed. */
void connections_end(struct connections *connections, int64_t timeout_ms);
bool connections_is_draining(struct connections *connections);

#endif
