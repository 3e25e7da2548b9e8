/* SPDX-License-Identifier: MIT */
/*
 * What waits to go out: messages in lanes, one for each sender and set of recipients, in which the order of
 * hand-in is kept; and uploads, in one row. The caller holds the outbox's lock.
 */
#ifndef INBOXFS_OUTBOX_SEND_QUEUE_H
#define INBOXFS_OUTBOX_SEND_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "outbox/item.h"

struct item_row {
    struct item *first;
    struct item *last;
    size_t len;
};

struct lane {
    char *key;
    unsigned int refs; /* items in it, or about to be */
    struct item_row row;
    struct lane *next; /* lanes with items, in the order of their turns */
    struct lane *previous;
};

struct send_queue {
    struct map lanes;
    struct lane *first_lane;
    struct lane *last_lane;
    struct item_row uploads;
    size_t messages;
};

/* All zeros is an empty queue. Items are not unreferenced. */
void send_queue_release(struct send_queue *queue);

/* Makes sure that send_queue_add() of a message of this lane cannot fail. 0 or -ENOMEM. */
int send_queue_open_lane(struct send_queue *queue, const char *key, struct lane **ret_lane);
/* Takes back send_queue_open_lane(), where no item was added by it. */
void send_queue_close_lane(struct send_queue *queue, struct lane *lane);

/* At its place by envelope.order. A message's `lane` is set, by send_queue_open_lane(). */
void send_queue_add(struct send_queue *queue, struct item *item);
/* Its lane goes to the end of the line. */
void send_queue_remove(struct send_queue *queue, struct item *item);

/* The next whose turn it is now, or NULL; then *ret_until_ms is brought forward to when the next one may be
 * due by time alone. `now_ms`: monotonic. */
struct item *send_queue_find_message(const struct send_queue *queue, int64_t now_ms, int64_t *ret_until_ms);
struct item *send_queue_find_upload(const struct send_queue *queue, int64_t now_ms, int64_t *ret_until_ms);

/* Its next attempt is due at once, or at once after the one under way. */
void send_queue_wake(struct item *item);

/* Walks over all: start with NULL; NULL at the end. Messages first. */
struct item *send_queue_next(const struct send_queue *queue, const struct item *item);

#endif
