/* SPDX-License-Identifier: MIT */
/*
 * The connections that are open, and which of them makes room for another one.
 *
 * The time between two bytes is bounded by those who read (libmicrohttpd; smtp_server.c). A client that sends
 * or takes a byte now and then keeps its connection until there are more than `max_open`: then each new one
 * has another cut off. Which one:
 * - one that waits for a request: those of which no request was accepted yet, before the others; among these
 *   the one that waited longest. A request is accepted when its head was checked and its key is in force;
 * - where there is a least pace: one that is busy, the slowest first;
 * - where there is a least pace: one that is in time and still sends, if its peer has more connections than
 *   the new one's.
 * With a least pace, the first two are those below it, and a connection whose request is carried out is left
 * alone.
 *
 * Only its own connections make room for a peer that has more connections than others, so that each gets a
 * share of the places. A peer is an IPv4 address or an IPv6 network (/64). Many programs share the addresses
 * 127.0.0.1 and ::1 and a Unix socket: there each connection counts as a peer of its own.
 *
 * The pace counts the bytes of requests that were accepted, and all time since the connection began or its
 * last request was carried out; the first two seconds are free.
 */
#ifndef INBOXFS_SERVICE_CONNECTIONS_H
#define INBOXFS_SERVICE_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct connections;
struct connection;

/* What a connection waits for. */
enum connection_phase {
    CONNECTION_IDLE,      /* its next request, or the rest of one that was not accepted, or not yet */
    CONNECTION_RECEIVING, /* the rest of a request that was accepted */
    CONNECTION_SENDING,   /* that the answer to a request that was accepted is taken */
    CONNECTION_WORKING,   /* nothing: its request is carried out */
};

/* `pace`: the least, in bytes a second; 0: none is asked for. `clock` is borrowed. NULL without memory. */
struct connections *connections_new(struct clock *clock, size_t max_open, int64_t pace);

/* All connections must be removed. NULL-safe. */
void connections_free(struct connections *connections);

/* `socket_fd` is borrowed until the removal. NULL without memory, and with a least pace where no other
 * connection has to make room now. */
struct connection *connections_add(struct connections *connections, int socket_fd);
void connections_remove(struct connections *connections, struct connection *connection);

/* Sets the phase. A connection that is not idle is busy. */
void connections_enter(struct connections *connections, struct connection *connection,
                       enum connection_phase phase);

/* Returns true if a connection that was not added may wait for a place: its peer has no other yet. */
bool connections_may_wait(struct connections *connections, int socket_fd);

/* Counts bytes of a request, which came just now. */
void connections_progress(struct connections *connections, struct connection *connection, size_t bytes);

/* Cuts off the slowest of the busy connections that are below the least pace, if there is one: for want of
 * something else than places. */
void connections_cut_off_slowest(struct connections *connections);

/* From now on connections are to end with their answer. Waits until none is busy, at most `timeout_ms`; then
 * cuts off all, and waits until each is removed. One that is added later reads nothing but the end. To be
 * called before the HTTP library is stopped: while that happens, version 0.9.75 of it reads a NULL pointer
 * where a thread answers a request that cannot be parsed. */
void connections_end(struct connections *connections, int64_t timeout_ms);
bool connections_is_draining(struct connections *connections);

#endif
