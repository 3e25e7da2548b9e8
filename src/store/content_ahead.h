/* SPDX-License-Identifier: MIT */
/*
 * Sees when somebody reads one email after the other (grep -r, tar, a mail program), and has the next ones
 * fetched meanwhile, several at a time: the longer the run, the further ahead, up to a bound.
 */
#ifndef INBOXFS_STORE_CONTENT_AHEAD_H
#define INBOXFS_STORE_CONTENT_AHEAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/thread.h"
#include "store/content_cache.h"
#include "store/mirror_order.h"

enum {
    AHEAD_AT_ONCE = 50,     /* emails being fetched, each up to CONTENT_AHEAD_MAX_BYTES in memory */
    AHEAD_MAX_EMAILS = 160, /* from the reader */
    AHEAD_RUNS_MAX = 8,
    AHEAD_QUEUE_MAX = 1000, /* emails to be fetched */
};

/* What of an email is wanted: bits 1 << enum content_part. */
typedef unsigned int content_parts;

struct reading_run {
    bool is_used;
    uint32_t inbox;
    size_t place;        /* of the email read last */
    int step;            /* 1 or -1; 0: not known yet */
    unsigned int len;    /* emails read in this direction */
    size_t ahead;        /* the first place that nobody was told to fetch */
    content_parts parts; /* what was read of them */
    unsigned int doubts; /* emails read against it, one after the other */
    uint64_t used;       /* when, by counting */
};

struct content_ahead {
    struct mirror *mirror;                                             /* borrowed */
    void (*fetch)(void *context, uint32_t email, content_parts parts); /* waits; from several threads */
    void *context;
    struct worker_pool *pool;
    pthread_mutex_t lock;
    struct reading_run runs[AHEAD_RUNS_MAX]; /* protected by lock, like all below */
    uint64_t uses;
    unsigned int queued; /* emails to be fetched, and being fetched */
    bool is_stopping;
};

/* 0 or -ENOMEM. */
int content_ahead_init(struct content_ahead *ahead, struct mirror *mirror,
                       void (*fetch)(void *context, uint32_t email, content_parts parts), void *context);
/* Waits for what is being fetched; its waits are to be cut short before. */
void content_ahead_stop(struct content_ahead *ahead);
void content_ahead_release(struct content_ahead *ahead);

/* Fetches these parts of an email ahead, unless many are to be fetched already. Does not wait. */
void content_ahead_fetch(struct content_ahead *ahead, uint32_t email, content_parts parts);

/* Somebody reads this of an email, whether it is in the cache or not. Does not wait. */
void content_ahead_note(struct content_ahead *ahead, uint32_t email, enum content_part part);

#endif
