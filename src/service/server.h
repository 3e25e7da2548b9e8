/* SPDX-License-Identifier: MIT */
/*
 * HTTP: a listening socket served by libmicrohttpd, with a thread for each connection and a bound on their
 * number.
 */
#ifndef INBOXFS_SERVICE_SERVER_H
#define INBOXFS_SERVICE_SERVER_H

#include "service/account.h"

struct server;

/* Takes over the listening socket, on failure too. `account` is borrowed until the server is freed. To be
 * called with all signals blocked, which its threads inherit. 0 or -errno. */
int server_start(int listen_fd, const struct account *account, struct server **ret_server);

/* Takes no more connections, finishes the requests under way (for some seconds), closes all. NULL-safe. */
void server_free(struct server *server);

#endif
