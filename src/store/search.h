/* SPDX-License-Identifier: MIT */
/*
 * A search (store_search(), store.h) joins the hits of the service with the hits of the local index. The
 * service also searches bodies and attachments that were never fetched. The store makes one request for each
 * word or phrase and intersects the answers, so that a query means the same to the service and to the index.
 * While the service does not answer, or cannot search, the hits of the index are the whole result.
 */
#ifndef INBOXFS_STORE_SEARCH_H
#define INBOXFS_STORE_SEARCH_H

#include <pthread.h>
#include <stdint.h>

enum search_ability {
    SEARCH_ABILITY_UNKNOWN,
    SEARCH_ABILITY_PRESENT, /* the service filters by search_term */
    SEARCH_ABILITY_ABSENT,  /* the service ignores or refuses search_term */
};

/* State that lasts from one search to the next. */
struct searcher {
    pthread_mutex_t lock;
    enum search_ability ability; /* protected by lock, like all below */
    int64_t ability_ms;          /* monotonic time of the last test of the ability */
    int64_t synced_ms;           /* monotonic time when a search last started a sync for an unknown email */
};

void searcher_init(struct searcher *searcher);
void searcher_release(struct searcher *searcher);

#endif
