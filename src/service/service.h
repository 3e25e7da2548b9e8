/* SPDX-License-Identifier: MIT */
/*
 * The local email inbox service: the REST contract of docs/INTERFACE.md over HTTP, its data in one directory.
 * It runs as the program inboxd, and inside inboxfs as the embedded default.
 */
#ifndef INBOXFS_SERVICE_SERVICE_H
#define INBOXFS_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "service/relay.h"
#include "service/tls.h"
#include "service/webhook.h"

enum service_tier {
    SERVICE_TIER_NONE, /* no daily limit */
    SERVICE_TIER_FREE, /* 10 emails sent a UTC day */
    SERVICE_TIER_PAID, /* 1000 */
};

/* In the order in which they are closed: mail that comes in is finished first. */
enum service_protocol {
    SERVICE_SMTP, /* mail makes inboxes (man/inboxd.8.scd) */
    SERVICE_LMTP, /* mail for inboxes that exist */
    SERVICE_HTTP,
    SERVICE_PROTOCOLS,
};

/* A place to listen at: "ADDRESS:PORT" ("127.0.0.1:0": any free port; "[::1]:80") or "unix:PATH" (made 0600).
 */
struct service_door {
    enum service_protocol protocol;
    const char *listen;
};

struct service_config {
    const struct service_door *doors; /* the last one's `listen` is NULL; each has limits of its own */
    const char *data_dir;             /* made (0700) when missing; locked: one service at a time */
    const char *domain;               /* of all inboxes, e.g. "inbox.localhost" */
    /* Further names that clients may call the service by, besides addresses, loopback names and the domain:
     * names, NULL at the end; or NULL. Borrowed until it is stopped. */
    const char *const *hosts;
    enum service_tier tier;
    struct relay_config relay;
    struct webhook_config webhook;
    struct tls_config tls; /* of SMTP and LMTP */
    bool is_alone; /* no other process opens the database meanwhile, so that no file is mapped (database.h) */
};

struct service;

/* Opens the data, creates DIR/api-key (0600) at the first start, listens, and serves from its own threads,
 * all with signals blocked. Return: 0, or -errno with a reason (the caller frees it). */
int service_start(const struct service_config *config, struct service **ret_service, char **ret_reason);

/* Returns where the door of this index in the configuration listens: "ADDRESS:PORT" with the real port, or
 * "unix:PATH". Valid until the service is stopped. */
const char *service_address(const struct service *service, size_t door);

/* Waits some seconds for the requests under way, closes the data, and frees. NULL-safe. */
void service_stop(struct service *service);

/* Reads the key in DIR/api-key. The caller wipes and frees it. Return: 0 or -errno. */
int service_read_api_key(const char *data_dir, char **ret_key);

#endif
