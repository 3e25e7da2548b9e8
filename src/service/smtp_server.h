/* SPDX-License-Identifier: MIT */
/*
 * An SMTP or LMTP server: a thread for each connection passes bytes to its session (mail/smtp_session.h) and
 * sends the session's answers. The number of connections is bounded (connections.h). A message is
 * acknowledged when it is on the disk.
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
    int listen_fd; /* a listening socket */
    enum smtp_dialect dialect;
    const char *domain; /* name of the service in its greeting */
    struct database *database;
    const char *new_inboxes; /* see delivery_makes_inbox() */
    size_t connections_max;  /* see connections.h */
    SSL_CTX *tls;            /* for STARTTLS, or NULL */
    int64_t idle_ms;         /* after this time, a client that sends nothing is disconnected */
};

/* Serves. The socket and all pointers of `config` are borrowed until the server is freed. Return: 0 or
 * -errno. */
int smtp_server_start(const struct smtp_server_config *config, struct smtp_server **ret_server);

/* Returns the answer to a message, by the result of delivery_receive(). */
const char *smtp_server_answer(int error);

/* Accepts no more connections, waits up to 10 seconds for the messages under way, closes all connections, and
 * frees. NULL-safe. */
void smtp_server_free(struct smtp_server *server);

#endif
