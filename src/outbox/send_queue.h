/* SPDX-License-Identifier: MIT */
/*
 * The queue decides which item is handed in, sent or uploaded next, and when.
 *
 * Model. Closed messages wait in one list for the end of their quiet time. A second list has the messages
 * that were handed in, a third the uploads. Messages from one sender to the same set of recipients form a
 * *sequence*, and are sent one at a time, in order. A worker begins a *try* of the next item, reports the
 * answers, and ends the try. The next try of an item is due when two times have passed:
 *
 * - its own, schedule.due_ms: after a 429, a 503 or an unknown outcome the item is put off. Items that
 *   were not put off go first;
 * - that of its kind, until_ms of the *suspension*: the service does not answer, is busy (429, 503) or
 *   refuses the key, or another server answers in its place. Then one item is tried.
 *
 * Each time is the longer of a backoff (half to all of 1 s, 2 s, … 15 min; 60 s for a key) and of the
 * answer's Retry-After (an hour at most: RETRY_AFTER_MAX_S in http/), from the answer on. Requests of one
 * kind that fail together count as one failure of the kind. These events end the times and their backoffs:
 *
 *     another item succeeds, or is refused for good           that of its kind
 *     `retry NAME`; an earlier one of its sequence goes first both
 *     `retry all`; a `sync` in ctl that the service answers   both, of all items
 *     the store was offline and is online again               both, of all items
 *     the message is written, or moved out and in             its own
 *     a restart, since no time is saved                       both, of all items
 *
 * A message must also fit into the *quota*, a number of emails per UTC day.
 *
 * The caller of each function holds outbox->lock. No function waits. Each function that may make an item due
 * wakes the workers, which wait for `work_arrived`. The quota's times are realtime, all others monotonic.
 */
#ifndef INBOXFS_OUTBOX_SEND_QUEUE_H
#define INBOXFS_OUTBOX_SEND_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/wait.h"
#include "mail/mail_service.h"
#include "outbox/item.h"

enum {
    QUIET_MS = 2 * 1000, /* from the last close, rename or setting of times to the hand-in */
    TRIES_MAX = 16,      /* messages tried at a time; likewise uploads */
};

enum suspension_reason {
    SUSPENSION_NONE,
    SUSPENSION_UNREACHABLE,  /* no answer */
    SUSPENSION_BUSY,         /* 429, 503 */
    SUSPENSION_UNAUTHORIZED, /* the key is refused: pauses of 60 s */
    SUSPENSION_DOUBTFUL,     /* another server answered, or the service lists no mail */
};

struct suspension {
    enum suspension_reason reason;
    int64_t until_ms;         /* when the next try may begin, even during another try */
    const struct item *probe; /* the item that is tried alone, until an answer is reported; or NULL */
    int64_t rested_ms;        /* of messages: when a rest begins, after which one is tried alone */
    struct backoff backoff;
    char error[256]; /* text of the last failure, "" after a success */
};

enum answer {
    ANSWER_TO_ITEM,      /* to a request for the item */
    ANSWER_REFUSES_ITEM, /* likewise: the service works, and refuses this item for good */
    ANSWER_TO_LIST,      /* the list failed that had to precede the request: the item is not put off, and the
                            next try asks for a list first */
};

struct quota {
    int64_t limit; /* emails per UTC day; -1: no limit */
    int64_t day;   /* the UTC day of `count`, in days since 1970 */
    int64_t count; /* emails that were sent, or perhaps sent, on `day` */
};

struct send_queue {
    struct clock *clock;         /* borrowed */
    pthread_cond_t work_arrived; /* a worker may have work */
    GQueue waiting;              /* closed messages that are to be handed in; in order of position */
    GQueue handed_in[ITEM_KINDS];
    unsigned int tries[ITEM_KINDS]; /* number of tries under way */
    struct suspension suspensions[ITEM_KINDS];
    struct quota quota;
};

void send_queue_init(struct send_queue *queue, struct clock *clock, int64_t daily_limit);
void send_queue_release(struct send_queue *queue);

/* ================================================================ the lists */

/* Moves the item into the list of its state, in order of position, or out of all lists. In another list than
 * before its quiet time begins, unless it awaits an attachment; or its first try is due. */
void send_queue_place(struct send_queue *queue, struct item *item);

/* Restarts the quiet time of a waiting item, after a program touched the item. */
void send_queue_touch(struct send_queue *queue, struct item *item);
void send_queue_end_quiet_times(struct send_queue *queue);
/* Returns the next message after `after` (NULL: from the first) whose quiet time is over, or NULL. Lowers
 * *ret_until_ms to the end of the next quiet time. */
struct item *send_queue_find_quiet(const struct send_queue *queue, const struct item *after,
                                   int64_t *ret_until_ms);

/* Returns the first file that the message bound and that attachments/ is still to upload; or NULL. */
struct item *send_queue_find_upload(const struct item_table *table, const struct item *message);

/* ================================================================ tries */

/* Begins a try of the next item of this kind, which the caller claims; returns NULL if none may be tried now,
 * and lowers *ret_until_ms to the time when one may be. Sets schedule.must_ask_list if the caller has to ask
 * for a list first, so that no message is lost to another server. */
struct item *send_queue_begin_try(struct send_queue *queue, const struct item_table *table,
                                  enum item_kind kind, int64_t *ret_until_ms);
/* Ends a try. If its answer was not reported, another try may begin at once. */
void send_queue_end_try(struct send_queue *queue, struct item *item);

/* Reports an answer: puts the item off, and begins or ends the suspension. Returns the reason of the
 * suspension that follows from the answer. */
enum suspension_reason send_queue_report(struct send_queue *queue, struct item *item,
                                         const struct service_result *result, enum answer answer);
/* Reports that a list succeeded: other messages need not wait for the try of one alone. */
void send_queue_end_rest(struct send_queue *queue);
/* Puts the item's hand-in or try off for 10 s, after a failure of the disk. */
void send_queue_put_off(struct send_queue *queue, struct item *item);

/* Ends the item's own time and backoff. */
void send_queue_make_due(struct send_queue *queue, struct item *item);
/* Allows a try at once: of this item, which is in the queue, or of all items. */
void send_queue_wake(struct send_queue *queue, struct item *item);
void send_queue_wake_all(struct send_queue *queue);

/* Returns true if the item, which is in a list, has to wait for a time; false if it is claimed, for then it
 * is about to change. */
bool send_queue_has_to_wait(const struct send_queue *queue, const struct item *item);
/* Returns the realtime of the next try, or 0 if no item waits for a time. */
int64_t send_queue_next_try_ms(const struct send_queue *queue);

/* ================================================================ the quota */

int64_t quota_day_of(int64_t realtime_ms);
void quota_count(struct quota *quota, int64_t day);
int64_t quota_get_count(const struct quota *quota, int64_t realtime_ms);

#endif
