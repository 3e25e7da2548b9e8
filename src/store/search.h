/* SPDX-License-Identifier: MIT */
/*
 * One search: what the service finds and what the local index finds, together. The service is asked for each
 * word and phrase by itself, and what it has for all of them counts, so that words mean the same wherever
 * they are looked for; it knows bodies and attachments that were never fetched. Hits of the index are
 * certain, too, and are all there is while the service does not answer or does not search.
 */
#ifndef INBOXFS_STORE_SEARCH_H
#define INBOXFS_STORE_SEARCH_H

#include <pthread.h>
#include <stdint.h>

enum search_ability {
    SEARCH_ABILITY_UNKNOWN,
    SEARCH_ABILITY_PRESENT, /* a search_term makes a difference */
    SEARCH_ABILITY_ABSENT,  /* it is passed over, or refused */
};

/* What is remembered from one search to the next. */
struct searcher {
    pthread_mutex_t lock;
    enum search_ability ability; /* protected by lock, like all below */
    int64_t ability_ms;          /* when that was found out, monotonic */
    int64_t synced_ms;           /* when mail that a search showed was fetched last, monotonic */
};

void searcher_init(struct searcher *searcher);
void searcher_release(struct searcher *searcher);

#endif
