/* SPDX-License-Identifier: MIT */
/*
 * The items that wait to be handed in and to go out: in which order, and whether now is the time.
 *
 * Model. Closed messages wait in one list for the end of their quiet time, messages that were handed in in
 * another, uploads in a third. Messages from one sender to the same set of recipients form a *sequence*: one
 * of them goes at a time, in order. An item goes when three things allow it: its own time (schedule.due_ms,
 * which attempt_put_off() in send.c sets after a 429 or 503); the *suspension*, one for messages and one for
 * uploads, while the service does not answer, is busy or refuses the key, or something else answers in its
 * place; and the *quota*, a number of emails a UTC day.
 *
 * All of it is protected by outbox->lock, which the caller holds, and nothing waits.
 * Times are monotonic, but for the quota's.
 */
#ifndef INBOXFS_OUTBOX_SEND_QUEUE_H
#define INBOXFS_OUTBOX_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"
#include "outbox/item.h"

/* ================================================================ what waits */

struct item_list {
    struct item *first;
    struct item *last;
    size_t len;
};

/* Each in order of position. All zeros is an empty queue. */
struct send_queue {
    struct item_list waiting; /* closed messages that are to be handed in */
    struct item_list handed_in[ITEM_KINDS];
};

/* Puts the item into the list that its state asks for, at its place by position, or takes it out. */
void send_queue_place(struct send_queue *queue, struct item *item);
/* Takes the item out, if it is in a list. */
void send_queue_remove(struct item *item);

/* Returns a message whose quiet time is over, behind `after` (NULL: the first), or NULL. */
struct item *send_queue_find_quiet(const struct send_queue *queue, const struct item *after, int64_t now_ms,
                                   int64_t *ret_until_ms);
/* The next of this kind whose turn it is now, or NULL; then *ret_until_ms is brought forward to when the next
 * one may be due by time alone. `now_ms`: monotonic. */
struct item *send_queue_find(const struct send_queue *queue, const struct item_table *table,
                             enum item_kind kind, int64_t now_ms, int64_t *ret_until_ms);

/* Returns true if a message waits for an upload of attachments/ that has the very file it bound. */
bool send_queue_awaits_upload(const struct item_table *table, const struct item *message);

/* Its next attempt is due at once, or at once after the one under way. */
void send_queue_wake(struct item *item);

/* Walks over all: start with NULL; NULL at the end. Messages first. */
struct item *send_queue_next(const struct send_queue *queue, const struct item *item);

/* ================================================================ suspensions */

enum suspension_reason {
    SUSPENSION_NONE,
    SUSPENSION_UNREACHABLE,  /* no answer */
    SUSPENSION_BUSY,         /* 429, 503 */
    SUSPENSION_UNAUTHORIZED, /* the key is refused */
    SUSPENSION_DOUBTFUL,     /* another answered in its place, or it lists no mail */
};

struct suspension {
    enum suspension_reason reason;
    int64_t until_ms; /* nobody asks before; then one may, even while another tries */
    bool is_probing;  /* one is trying: the try of this number */
    uint64_t probe;
    bool is_careful;   /* also without a reason: after a rest one tries first */
    int64_t rested_ms; /* the service has answered so lately that this is no rest */
    struct backoff backoff;
    char error[256]; /* words of the last failure, "" after a success */
};

/* A try: who makes it asks the service, or leaves it. */
struct suspension_try {
    uint64_t probe;     /* its number; 0: others may ask at the same time */
    bool must_ask_list; /* before anything is sent, so that no message pays for finding out */
};

/* `is_careful`: what is tried cannot be undone. So after a rest one tries, and the others wait for its
 * answer; for ALONE_MS, then the next one tries, which asks for a list first. */
void suspension_init(struct suspension *suspension, bool is_careful);

/* Returns true if one may ask now. */
bool suspension_enter(struct suspension *suspension, int64_t now_ms, struct suspension_try *ret_try);
/* When to ask again: a time, or CLOCK_FOREVER: when something happens. */
int64_t suspension_until_ms(const struct suspension *suspension);
/* A list showed that the service is there: without a reason to wait, all may ask. */
void suspension_end_rest(struct suspension *suspension, int64_t now_ms);
/* The service answered, and took the key. */
void suspension_end(struct suspension *suspension, int64_t now_ms);
/* The service did not answer, was busy, or refused the key; or the answer was not its own. `wait_ms`:
 * Retry-After; -1: none. Nobody asks until the longer of that and the backoff has passed. */
void suspension_begin(struct suspension *suspension, enum suspension_reason reason, int64_t now_ms,
                      int64_t wait_ms, const char *words);
/* A try is over, whether it asked or not. */
void suspension_leave(struct suspension *suspension, uint64_t probe);
/* One may try at once. */
void suspension_wake(struct suspension *suspension);

/* ================================================================ the quota */

struct quota {
    int64_t limit;     /* -1: none */
    int64_t day;       /* days since 1970 */
    int64_t count;     /* sent, or perhaps sent, that day */
    int64_t under_way; /* attempts that entered and did not leave */
};

int64_t quota_day_of(int64_t realtime_ms);

/* The count of this day is at least `count`. */
void quota_raise(struct quota *quota, int64_t day, int64_t count);

/* Counts an attempt as under way; false: the quota of the day is used up, or would be by the attempts that
 * are under way. These may be refused, and then somebody else's turn comes. */
bool quota_enter(struct quota *quota, int64_t now_ms);
bool quota_is_used_up(struct quota *quota, int64_t now_ms);
/* Ends an attempt that entered. */
void quota_leave(struct quota *quota);
/* Counts an email of this day as sent. */
void quota_count(struct quota *quota, int64_t day);

int64_t quota_get_count(struct quota *quota, int64_t now_ms);
/* How long until the turn of the day. */
int64_t quota_wait_ms(int64_t now_ms);

#endif
