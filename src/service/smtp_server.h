/* SPDX-License-Identifier: MIT */
/*
 * The SMTP or LMTP server of the service: a listening socket, and a thread for each connection, which passes
 * bytes to its session (mail/smtp_session.h) and sends the session's answers. Connections are bounded in
 * number (connections.h). A message is acknowledged when it is on the disk.
 */
#ifndef INBOXFS_SERVICE_SMTP_SERVER_H
#define INBOXFS_SERVICE_SMTP_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "mail/smtp_session.h"
#include "service/tables.h"
#include "service/tls.h"

struct smtp_server;

struct smtp_server_config {
    const char *listen; /* an address (listener.h) */
    enum smtp_dialect dialect;
    const char *domain;        /* what the service calls itself; borrowed until the server is freed */
    struct database *database; /* borrowed as well */
    const char *new_inboxes;   /* see struct delivery; borrowed as well */
    size_t connections_max;    /* see connections.h */
    SSL_CTX *tls;              /* for STARTTLS; NULL: it is not offered. Borrowed as well */
    int64_t idle_ms;           /* how long a client may send nothing */
};

/* Return: 0; -EINVAL if `listen` is no address; -EADDRINUSE; another -errno. */
int smtp_server_start(const struct smtp_server_config *config, struct smtp_server **ret_server);

/* Returns the address where it listens: the same text with the real port. */
const char *smtp_server_address(const struct smtp_server *server);

/* Returns the answer to a message, by the result of delivery_receive(). */
const char *smtp_server_describe(int error);

/* Accepts no more connections, waits some seconds for the messages under way, and closes all. NULL-safe. */
void smtp_server_free(struct smtp_server *server);

#endif
