/* SPDX-License-Identifier: MIT */
/*
 * One run of synchronisation: the list of inboxes, and a look at the mail of each. What fails with one inbox
 * does not hold up the others, nor does one that takes long; only a service that does not answer, refuses the
 * key or asks for patience ends a run early.
 */
#ifndef INBOXFS_STORE_SYNC_RUN_H
#define INBOXFS_STORE_SYNC_RUN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"
#include "mail/mail_service.h"
#include "store/contact.h"
#include "store/look.h"
#include "store/mirror.h"

struct sync_run {
    struct mirror *mirror; /* these four borrowed */
    struct mail_service *service;
    struct contact *contact;
    struct cancel *cancel;

    pthread_mutex_t lock;   /* of what follows, while inboxes are looked at */
    int error;              /* of the first failure: result_errno_of_listing(); 0: all went well */
    char *words;            /* that go with it, or NULL. Owned: sync_run_release() */
    int64_t retry_after_ms; /* what the service asked for; -1: nothing */
    bool has_answer;        /* some request was answered as it should be, or refused for good */
    bool must_wait;         /* the run ended early, or nothing was answered: not to be asked again at once */
};

void sync_run_init(struct sync_run *run, struct mirror *mirror, struct mail_service *service,
                   struct contact *contact, struct cancel *cancel);
void sync_run_release(struct sync_run *run);

/* Everything (waits for the network). */
void sync_run_all(struct sync_run *run, enum look_depth depth);
/* One inbox, completely. */
void sync_run_inbox(struct sync_run *run, uint32_t inbox);

#endif
