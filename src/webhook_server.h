/* SPDX-License-Identifier: MIT */
/*
 * Receives the service's webhooks: a POST with a valid signature (mail/webhook.h) makes the store sync the
 * inbox that it names, unless the server has received the same signature before. Other requests are answered
 * with 401, a body that is too long with 413, and a header that does not say where the body ends with 400.
 *
 * Strangers can reach the server, so its resources are bounded: one thread serves all connections, each of
 * which carries one request; their number, bodies and time have limits (service/connections.h). No thread of
 * the mount ever waits for the server.
 */
#ifndef INBOXFS_WEBHOOK_SERVER_H
#define INBOXFS_WEBHOOK_SERVER_H

struct store;
struct webhook_server;

/* Reads the secret and listens at "ADDRESS:PORT" or "unix:PATH". `store` is borrowed until the server is
 * freed. The caller has blocked all signals, and the server's threads inherit this. Returns 0 or -errno,
 * which is logged. */
int webhook_server_start(const char *listen, const char *secret_file, struct store *store,
                         struct webhook_server **ret_server);

/* Closes all connections, and frees the server. NULL-safe. */
void webhook_server_free(struct webhook_server *server);

#endif
