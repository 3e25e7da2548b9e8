/* SPDX-License-Identifier: MIT */
/*
 * One object knows whether the service can be reached, for status.json, the events, search and content.
 *
 * Each part of the store reports the outcomes of its requests (contact_report()). An answer that shows that
 * the service works and takes the key makes it online; a failed connection, or a refusal of the key, makes it
 * offline. A change is reported as one event: `online` only after an `offline`. The outbox makes requests of
 * its own; where their outcomes say otherwise, the sync's thread checks (contact_check()).
 *
 * Two more things are known for a while: that no connection could be made a moment ago (readers then get the
 * error without another attempt), and that the service has more to do than it likes (nothing is then fetched
 * ahead of readers).
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
    CONTACT_UNKNOWN, /* nothing was asked yet */
    CONTACT_ONLINE,
    CONTACT_OFFLINE,
};

struct contact {
    const struct index *index; /* borrowed: its clock, and its listeners */
    pthread_mutex_t lock;      /* a leaf */
    enum contact_state state;  /* protected by lock, like all below */
    int64_t last_answer_ms;    /* realtime; 0: never */
    int64_t unreachable_until_ms;
    int64_t busy_until_ms;
    char error[256];      /* words of the last failure, "" when online */
    char sync_error[256]; /* of the last sync of everything, "" when it brought all */
};

void contact_init(struct contact *contact, const struct index *index);
void contact_release(struct contact *contact);

/* A request has ended. Most failures of one request say nothing. */
void contact_report(struct contact *contact, const struct service_result *result);
/* The service is as good as away, whatever single requests showed. Words are cut to what fits. */
void contact_report_offline(struct contact *contact, const char *words);
/* A sync of everything has ended; NULL: it brought all. An answer that makes no sense is no outage, but
 * status.json shows it. */
void contact_report_sync(struct contact *contact, const char *words);

/* Lists one email, which decides (waits for the network). */
void contact_check(struct contact *contact, struct mail_service *service, struct cancel *cancel);

bool contact_is_online(struct contact *contact);
/* No connection could be made a moment ago. */
bool contact_is_unreachable(struct contact *contact);
/* A moment ago the service asked for patience (429, 503). */
bool contact_is_busy(struct contact *contact);

/* Fills in is_online, last_sync_ms, error and sync_error. */
void contact_get_status(struct contact *contact, struct store_status *ret);

#endif
