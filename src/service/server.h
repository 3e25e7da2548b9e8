/* SPDX-License-Identifier: MIT */
/*
 * An HTTP server of the service, from its listening socket to the calls of endpoints (endpoints.h).
 *
 * libmicrohttpd accepts connections, gives each a thread, and parses requests. For each request this unit
 * checks the head and the API key, finds the route, collects the body within the route's limit, calls the
 * endpoint, and sends its reply. A client without a valid key learns nothing more. Connections
 * (connections.h), parameters, bytes and time are bounded.
 */
#ifndef INBOXFS_SERVICE_SERVER_H
#define INBOXFS_SERVICE_SERVER_H

#include "service/request.h"

struct server;

/* Serves the clients of a listening socket. Both arguments are borrowed until the server is freed. The caller
 * has blocked all signals, so that the threads block them. Return: 0 or -EIO. */
int server_start(int listen_fd, const struct service_context *context, struct server **ret_server);

/* Accepts no more connections, waits up to 10 seconds for the requests under way, closes all connections, and
 * frees. NULL-safe. */
void server_free(struct server *server);

#endif
