/* SPDX-License-Identifier: MIT */
/*
 * The queue of items to hand in, to send and to upload: it decides the order and the time.
 *
 * Model. Closed messages wait in one list for the end of their quiet time. A second list has the messages
 * that were handed in, a third the uploads. Messages from one sender to the same set of recipients form a
 * *sequence*, and are sent one at a time, in order. Three conditions allow an attempt: the item's own time
 * is past (schedule.due_ms, which put_off_attempt() in send.c sets when an attempt is to be repeated); no
 * *suspension* of its kind forbids it, because the service does not answer, is busy or refuses the key, or
 * another server answers in its place; and the *quota*, a number of emails per UTC day, is not used up.
 *
 * The caller of each function holds outbox->lock. No function waits. The quota's times are realtime, all
 * others monotonic.
 */
#ifndef INBOXFS_OUTBOX_SEND_QUEUE_H
#define INBOXFS_OUTBOX_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"
#include "outbox/item.h"

/* ================================================================ waiting items */

/* Lists of items, each in order of position. All zeros is an empty queue. */
struct send_queue {
    GQueue waiting; /* closed messages that are to be handed in */
    GQueue handed_in[ITEM_KINDS];
};

/* Moves the item into the list of its state, ordered by row.position, or out of all lists. */
void send_queue_place(struct send_queue *queue, struct item *item);
void send_queue_remove(struct item *item);

/* Returns the next message after `after` (NULL: from the first) whose quiet time is over, or NULL. Lowers
 * *ret_until_ms to the end of the next quiet time. */
struct item *send_queue_find_quiet(const struct send_queue *queue, const struct item *after, int64_t now_ms,
                                   int64_t *ret_until_ms);
/* Returns the next item of this kind that may be tried now, or NULL. Lowers *ret_until_ms to the time when
 * the next item is due. */
struct item *send_queue_find(const struct send_queue *queue, const struct item_table *table,
                             enum item_kind kind, int64_t now_ms, int64_t *ret_until_ms);

/* Returns the first file that the message bound and that attachments/ is still to upload; or NULL. */
struct item *send_queue_find_upload(const struct item_table *table, const struct item *message);

/* Makes the item's next attempt due now, or directly after the attempt under way. */
void send_queue_wake(struct item *item);

/* ================================================================ suspensions */

enum suspension_reason {
    SUSPENSION_NONE,
    SUSPENSION_UNREACHABLE,  /* no answer */
    SUSPENSION_BUSY,         /* 429, 503 */
    SUSPENSION_UNAUTHORIZED, /* the key is refused */
    SUSPENSION_DOUBTFUL, /* another server answered in the service's place, or the service lists no mail */
};

struct suspension {
    enum suspension_reason reason;
    int64_t until_ms;  /* when the next try may begin, even during another try */
    bool is_probing;   /* the try `probe` is under way */
    uint64_t probe;    /* number of the last try by one thread alone */
    bool is_careful;   /* after a rest one thread tries alone, even without a reason */
    int64_t rested_ms; /* when a rest begins, REST_MS after the last answer */
    struct backoff backoff;
    char error[256]; /* text of the last failure, "" after a success */
};

/* Permission to ask the service. The holder of a numbered try reports its result or calls
 * suspension_end_try(). */
struct suspension_try {
    uint64_t probe;     /* number of the try; 0 if other threads may ask at the same time */
    bool must_ask_list; /* the holder asks for a list first, so that no message is lost to another server */
};

/* Clears the suspension. `is_careful`: a request cannot be undone, so after a rest one thread tries alone.
 * The others wait for its answer, ALONE_MS at most; then a second thread tries, and asks for a list first. */
void suspension_init(struct suspension *suspension, bool is_careful);

/* Returns true, with a try, if the caller may ask the service now. */
bool suspension_begin_try(struct suspension *suspension, int64_t now_ms, struct suspension_try *ret_try);
/* Records that a list succeeded. If the reason is SUSPENSION_NONE, all threads may ask from now on. */
void suspension_end_rest(struct suspension *suspension, int64_t now_ms);
/* Records that the service answered and accepted the key. */
void suspension_end(struct suspension *suspension, int64_t now_ms);
/* Records a failure. No try begins until the backoff (60 s for a refused key) and `wait_ms` (Retry-After; -1:
 * none) have passed. `detail` describes the failure for the user, or is NULL. */
void suspension_begin(struct suspension *suspension, enum suspension_reason reason, int64_t now_ms,
                      int64_t wait_ms, const char *detail);
/* Ends the try of this number, unless its result was recorded. The next try may begin at once. */
void suspension_end_try(struct suspension *suspension, uint64_t probe);
/* Allows the next try at once. */
void suspension_wake(struct suspension *suspension);

/* ================================================================ the quota */

struct quota {
    int64_t limit; /* emails per UTC day; -1: no limit */
    int64_t day;   /* the UTC day of `count`, in days since 1970 */
    int64_t count; /* emails that were sent, or perhaps sent, on `day` */
};

int64_t quota_day_of(int64_t realtime_ms);

/* Returns true if the emails of the day and the attempts under way reach the limit. An attempt that is
 * refused makes room again. */
bool quota_is_used_up(const struct quota *quota, unsigned int under_way, int64_t now_ms);
void quota_count(struct quota *quota, int64_t day);

int64_t quota_get_count(const struct quota *quota, int64_t now_ms);
/* Returns the time until the next UTC day begins. */
int64_t quota_wait_ms(int64_t now_ms);

#endif
