/* SPDX-License-Identifier: MIT */
/*
 * The contact knows whether the service can be reached, for status.json, events, search and content.
 *
 * Each part of the store reports the outcomes of its requests by contact_report(). An answer that shows that
 * the service works and takes the key makes the contact online; a failed connection, or a refusal of the key,
 * makes it offline. Each change is an `online` or `offline` event; the first event is an `offline` event. If
 * outcomes of the outbox contradict the contact, the sync thread calls contact_check().
 *
 * For some seconds the contact also remembers that no connection could be made, so that readers get the error
 * without another attempt; and that the service was busy, so that nothing is fetched ahead of readers.
 */
#ifndef INBOXFS_STORE_CONTACT_H
#define INBOXFS_STORE_CONTACT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"
#include "mail/mail_service.h"
#include "store/index.h"
#include "store/store.h"

enum contact_state {
    CONTACT_UNKNOWN, /* no request has ended yet */
    CONTACT_ONLINE,
    CONTACT_OFFLINE,
};

struct contact {
    const struct index *index;    /* borrowed, for its clock and its listeners */
    pthread_mutex_t lock;         /* a leaf: no lock is taken while it is held */
    enum contact_state state;     /* protected by lock, like all below */
    int64_t last_answer_ms;       /* realtime of the last answer; 0 if there was none */
    int64_t unreachable_until_ms; /* monotonic, like busy_until_ms */
    int64_t busy_until_ms;
    char error[256];      /* reason of the last failure, "" while online */
    char sync_error[256]; /* why the last complete sync lacks something; "" if it is complete */
};

void contact_init(struct contact *contact, const struct index *index);
void contact_release(struct contact *contact);

/* Reports the outcome of a request. A server's error, a time-out or a cancel does not change the state. */
void contact_report(struct contact *contact, const struct service_result *result);
/* Makes the contact offline. `reason` is truncated if it is too long. */
void contact_report_offline(struct contact *contact, const char *reason);
/* Reports the end of a sync of everything. `reason`: why the sync lacks something, for status.json; NULL if
 * the sync is complete. */
void contact_report_sync(struct contact *contact, const char *reason);

/* Lists one email, and reports the outcome (waits for the network). */
void contact_check(struct contact *contact, struct mail_service *service, struct cancel *cancel);

bool contact_is_online(struct contact *contact);
/* Returns true for a short time after a connection failed, unless another outcome was reported since. */
bool contact_is_unreachable(struct contact *contact);
/* Returns true for a short time after the service asked for fewer requests (429, 503). */
bool contact_is_busy(struct contact *contact);

/* Fills in is_online, last_sync_ms, error and sync_error. */
void contact_get_status(struct contact *contact, struct store_status *ret);

#endif
