/* SPDX-License-Identifier: MIT */
/*
 * Whether the service answers: known by what became of the last requests, told once when it changes.
 */
#ifndef INBOXFS_STORE_CONTACT_H
#define INBOXFS_STORE_CONTACT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/mirror.h"
#include "store/store.h"

struct contact {
    const struct mirror *mirror; /* borrowed: its clock, and who is told */
    pthread_mutex_t lock;
    bool is_online;         /* protected by lock, like all below */
    bool is_told_offline;   /* an `offline` event stands without its `online` */
    int64_t last_answer_ms; /* realtime; 0: never */
    char error[256];        /* words of the last failure, "" when online */
    char sync_error[256];   /* of the last look at everything, "" when it brought all */
};

void contact_init(struct contact *contact, const struct mirror *mirror);
void contact_release(struct contact *contact);

/* The service was asked, and answered. */
void contact_note_online(struct contact *contact);
/* It did not, or refuses the key. Words are cut to what fits. */
void contact_note_offline(struct contact *contact, const char *words);
/* A single request: a success shows that it answers; a failure to reach it, or to be let in, that it does
 * not. Other outcomes say nothing. */
void contact_note(struct contact *contact, const struct service_result *result);

/* A look at everything has ended; NULL: it brought all. An answer that makes no sense is no outage, but has
 * to be told. */
void contact_note_sync(struct contact *contact, const char *words);

/* Fills in is_online, last_sync_ms, error and sync_error. */
void contact_get_status(struct contact *contact, struct store_status *ret);

#endif
