/* SPDX-License-Identifier: MIT */
/*
 * The thread that keeps the mirror fresh: it asks for what is new at intervals, for everything every 15
 * minutes, and at once when somebody wants to be sure. Those who wait at the same time share a run.
 */
#ifndef INBOXFS_STORE_REFRESHER_H
#define INBOXFS_STORE_REFRESHER_H

#include "base/cancel.h"
#include "base/clock.h"
#include "store/contact.h"
#include "store/contents.h"
#include "store/mirror.h"
#include "store/store.h"

#define REFRESHER_ALL UINT32_MAX /* in place of an inbox */

struct refresher;

struct refresher_config {
    struct mirror *mirror; /* all borrowed */
    struct mail_service *service;
    struct contact *contact;
    struct clock *clock;
    int64_t poll_interval_ms;  /* 0: only when asked */
    struct contents *contents; /* told when everything was brought up to date; or NULL */
    struct outbound *outbound; /* looked at as well; or NULL */
};

/* NULL without memory. */
struct refresher *refresher_new(const struct refresher_config *config);
/* After refresher_stop(). NULL-safe. */
void refresher_free(struct refresher *refresher);

/* 0 or -errno. */
int refresher_start(struct refresher *refresher);
/* Cancels the request under way, wakes who waits, and waits for the thread. */
void refresher_stop(struct refresher *refresher);

/* Contract: store_sync(). */
int refresher_sync(struct refresher *refresher, uint32_t inbox, struct cancel *cancel, char **ret_reason);

/* The same without waiting for it: as soon as may be. */
void refresher_request(struct refresher *refresher, uint32_t inbox);

/* Contract: store_note_contact(), where it is not as it was known. */
void refresher_check_contact(struct refresher *refresher);

/* Fills in has_synced, last_full_ms and next_poll_ms. */
void refresher_get_status(struct refresher *refresher, struct store_status *ret);

#endif
