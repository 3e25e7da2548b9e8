/* SPDX-License-Identifier: MIT */
/*
 * The parts of a store. Only units of this folder include this header. Each unit implements the functions of
 * store.h and store_content.h that concern its part. store.c opens and frees the parts; the other units do
 * not call it.
 */
#ifndef INBOXFS_STORE_STORE_PRIVATE_H
#define INBOXFS_STORE_STORE_PRIVATE_H

#include "store/cache.h"
#include "store/contact.h"
#include "store/index.h"
#include "store/store.h"

/* State that lasts from one search to the next (search.c). */
struct searcher {
    atomic_llong can_until_ms;    /* monotonic; until then the service is known to filter by search_term */
    atomic_llong cannot_until_ms; /* monotonic; until then the service is known not to */
    atomic_llong sync_due_ms;     /* monotonic; a search may start a sync for an unknown email from then on */
};

struct store {
    struct mail_service *service; /* borrowed */
    int64_t poll_interval_ms;     /* 0 for no polls */
    bool adopt_state;             /* as in struct store_config */
    struct cache cache;           /* shared by the parts */
    struct index index;
    struct contact contact;
    struct contents *contents; /* NULL if content is turned off */
    struct sync *sync;
    pthread_mutex_t inbox_list_lock; /* held while find_new_inboxes() lists the inboxes (edit.c) */
    atomic_uint inbox_lists;         /* number of lists that find_new_inboxes() has requested */
    int64_t inbox_list_due_ms; /* monotonic; the earliest next such list; protected by inbox_list_lock */
    struct searcher searcher;
};

/* Imports and removes the files of version 0.2 in the folder of the cache, and its folder `content` in the
 * state directory (waits for the disk). */
void take_over_version_0_2(struct store *store, int dir_fd, int state_dir_fd);

#endif
