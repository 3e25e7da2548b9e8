/* SPDX-License-Identifier: MIT */
/*
 * Takes the service's webhooks: a POST with a good signature (mail/webhook.h) makes the store look at its
 * inbox at once, once for each body. Other requests are answered with 401, a body that is too long with 413,
 * a header that leaves open where the body ends with 400, and any request with 503 when out of memory.
 *
 * It stands where strangers can reach it, so all of it is bounded: a thread of its own that serves all
 * connections, their number, their bodies, and the time they may take (service/connections.h). Each carries
 * one request. No thread of the mount ever waits for any of it.
 */
#ifndef INBOXFS_WEBHOOK_SERVER_H
#define INBOXFS_WEBHOOK_SERVER_H

struct store;
struct webhook_server;

/* Reads the secret and listens at "ADDRESS:PORT" or "unix:PATH". `store` is borrowed until it is freed. To be
 * called with all signals blocked, which its threads inherit. 0 or -errno, said on the log. */
int webhook_server_start(const char *listen, const char *secret_file, struct store *store,
                         struct webhook_server **ret_server);

/* Cuts off all connections. NULL-safe. */
void webhook_server_free(struct webhook_server *server);

#endif
