/* SPDX-License-Identifier: MIT */
/*
 * How many emails went out this UTC day, kept across restarts, and how many more may. Locks for itself; only
 * quota_init() and quota_count() wait for the disk. Times are realtime.
 */
#ifndef INBOXFS_OUTBOX_QUOTA_H
#define INBOXFS_OUTBOX_QUOTA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "outbox/spool.h"

struct quota {
    struct spool *spool;    /* borrowed */
    int64_t limit;          /* -1: none */
    pthread_mutex_t saving; /* before `lock`: a smaller count never overwrites a greater */
    pthread_mutex_t lock;
    int64_t day;       /* protected by lock, like all below; days since 1970 */
    int64_t count;     /* sent, or perhaps sent, that day */
    int64_t under_way; /* entered and not left */
};

/* Reads the count. */
void quota_init(struct quota *quota, struct spool *spool, int64_t limit, int64_t now_ms);
void quota_release(struct quota *quota);

int64_t quota_day(int64_t realtime_ms);

/* The count is at least this, whatever the file said: what the envelopes tell. */
void quota_raise(struct quota *quota, int64_t day, int64_t count);

/* Takes one of the day's places; false: none is left. */
bool quota_enter(struct quota *quota, int64_t now_ms);
bool quota_has_room(struct quota *quota, int64_t now_ms);
/* Gives it back, or makes it count (waits for the disk where there is a limit). */
void quota_leave(struct quota *quota);
void quota_count(struct quota *quota, int64_t now_ms);

int64_t quota_get_count(struct quota *quota, int64_t now_ms);
/* How long until the turn of the day. */
int64_t quota_wait_ms(int64_t now_ms);

#endif
