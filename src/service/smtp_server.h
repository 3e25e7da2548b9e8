/* SPDX-License-Identifier: MIT */
/*
 * The SMTP or LMTP server of the service: a listening socket, and a thread for each connection, which hands
 * bytes to its session (mail/smtp_session.h) and sends what that answers. Connections are bounded in
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
    const char *listen; /* as listener.h has it */
    enum smtp_dialect dialect;
    const char *domain;        /* what the service calls itself; borrowed until the server is freed */
    struct database *database; /* borrowed as well */
    const char *new_inboxes;   /* as struct delivery (delivery.h) has it; borrowed as well */
    size_t connections_max;    /* with more, each new one takes the place of another (connections.h) */
    SSL_CTX *tls;              /* for STARTTLS; NULL: it is not offered. Borrowed as well */
    int64_t idle_ms;           /* how long a client may send nothing */
};

/* 0, -EINVAL (not such a text), -EADDRINUSE or -errno. */
int smtp_server_start(const struct smtp_server_config *config, struct smtp_server **ret_server);

/* Returns the address where it listens: the same text with the real port. */
const char *smtp_server_address(const struct smtp_server *server);

/* The answer to a message whose delivery came to this: 0 or -errno. */
const char *smtp_server_describe(int error);

/* Takes no more connections, lets messages under way come to their end (for some seconds), closes all.
 * NULL-safe. */
void smtp_server_free(struct smtp_server *server);

#endif
