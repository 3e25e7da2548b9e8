/* SPDX-License-Identifier: MIT */
/*
 * The parts that a store is made of, for the units in this folder alone. Each unit implements the functions
 * of store.h and store_content.h that concern its part. store.c builds the parts on each other and takes them
 * down; nothing in it is called by the others.
 */
#ifndef INBOXFS_STORE_STORE_PRIVATE_H
#define INBOXFS_STORE_STORE_PRIVATE_H

#include "store/cache.h"
#include "store/contact.h"
#include "store/index.h"
#include "store/message_ids.h"
#include "store/search.h"
#include "store/store.h"

struct store {
    struct mail_service *service; /* borrowed */
    int64_t poll_interval_ms;     /* 0: only when asked */
    bool adopt_state;
    struct cache cache; /* which the parts keep what they know in */
    struct index index;
    struct contact contact;
    struct contents *contents; /* NULL: emails are shown without what they hold */
    struct sync *sync;
    pthread_mutex_t looking_again; /* held while inboxes are asked for (edit.c) */
    atomic_uint looks;             /* how often such a list was asked for */
    int64_t look_again_ms;         /* monotonic: not before; protected by looking_again */
    struct searcher searcher;
};

/* Takes over what version 0.2 left of the cache in `dir_fd`, and removes it (waits for the disk). */
void take_over_version_0_2(struct store *store, int dir_fd);

#endif
