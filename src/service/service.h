/* SPDX-License-Identifier: MIT */
/*
 * The local email inbox service: the REST contract of docs/INTERFACE.md over HTTP, its data in one directory.
 * It runs as the program inboxd, and inside inboxfs as the embedded default.
 */
#ifndef INBOXFS_SERVICE_SERVICE_H
#define INBOXFS_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/relay.h"
#include "service/tls.h"
#include "service/webhook.h"

enum service_protocol {
    SERVICE_SMTP, /* a recipient without an inbox gets one (man/inboxd.8.scd) */
    SERVICE_LMTP, /* recipients must have inboxes */
    SERVICE_HTTP,
};

/* A server of the service, with limits of its own. */
struct service_door {
    enum service_protocol protocol;
    const char *listen; /* an address (listener.h); NULL ends an array of doors */
};

struct service_config {
    const struct service_door *doors;
    const char *data_dir; /* made (0700) if it is missing, and locked for other services */
    const char *domain;   /* of all inboxes, e.g. "inbox.localhost" */
    /* Names that clients may use for the service, besides its addresses, loopback names and the domain. NULL
     * ends the array. NULL for none. */
    const char *const *hosts;
    int64_t daily_limit; /* emails sent in a UTC day; 0 for no limit */
    struct relay_config relay;
    struct webhook_config webhook;
    struct tls_config tls; /* for SMTP and LMTP */
    bool is_alone;         /* no other process opens the database: DATABASE_ALONE */
};

struct service;

/* Opens the data, makes DIR/api-key (0600) at the first start, listens, and serves from threads of its own,
 * which block all signals. `domain` and `hosts` are borrowed until the service is stopped. Return: 0, or
 * -errno with a reason (the caller frees it). */
int service_start(const struct service_config *config, struct service **ret_service, char **ret_reason);

/* Returns the address, with the real port, of the door with this index in the configuration. Borrowed until
 * the service is stopped. */
const char *service_address(const struct service *service, size_t door);

/* Waits for the messages and requests under way (10 s for each server), closes the data, and frees.
 * NULL-safe. */
void service_stop(struct service *service);

/* Reads the key in DIR/api-key. The caller wipes and frees it. Return: 0 or -errno. */
int service_read_api_key(const char *data_dir, char **ret_key);

#endif
