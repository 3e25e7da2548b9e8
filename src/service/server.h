/* SPDX-License-Identifier: MIT */
/*
 * The HTTP server of the service, from its listening socket to the calls of endpoints (endpoints.h).
 *
 * libmicrohttpd accepts connections, gives each a thread, and parses requests. For each request this unit
 * checks the head (it says in one way where the request ends, and Host is a name of this service), then the
 * API key, then finds the route, collects the body within the route's limit, calls the endpoint, and sends
 * its reply. A client without a valid key learns nothing else. Connections, parameters, bytes and time are
 * bounded (connections.h).
 */
#ifndef INBOXFS_SERVICE_SERVER_H
#define INBOXFS_SERVICE_SERVER_H

#include "service/request.h"

struct server;

/* Listens at "ADDRESS:PORT", "[ADDRESS]:PORT" (port 0: any that is free) or "unix:PATH", and serves.
 * `context` is borrowed until the server is freed. The caller has blocked all signals, which the threads
 * inherit. Return: 0; -EINVAL if the text has none of the three forms; -EADDRINUSE; another -errno. */
int server_start(const char *listen_text, const struct service_context *context, struct server **ret_server);

/* Returns the address where it listens: the same text with the real port. */
const char *server_address(const struct server *server);

/* Accepts no more connections, waits some seconds for the requests under way, and closes all. NULL-safe. */
void server_free(struct server *server);

#endif
