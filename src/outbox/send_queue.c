/* SPDX-License-Identifier: MIT */
#include "outbox/send_queue.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

enum {
    DAY_MS = 24 * 3600 * 1000,
    MIDNIGHT_CHECK_MS = 60 * 1000, /* interval of checks for the next day, because the clock may be set */
    DISK_FAILURE_MS = 10 * 1000,
    UNAUTHORIZED_MS = 60 * 1000, /* the user may replace the key at any time */
    REST_MS = 500,       /* from an answer to a rest; a worker that has more messages sends the next sooner */
    ALONE_MS = 2 * 1000, /* after a rest the first message goes alone: how long others wait for it */
    TRY_MS = 40 * 1000,  /* likewise in a suspension; a stalled request ends sooner, a slow upload may not */
};

void send_queue_init(struct send_queue *queue, struct clock *clock, int64_t daily_limit)
{
    *queue = (struct send_queue){.clock = clock, .quota = {.limit = daily_limit}};
    queue->quota.day = quota_day_of(clock_realtime_ms(clock));
    clock_condition_init(&queue->work_arrived);
    for (unsigned int kind = 0; kind < ITEM_KINDS; kind++)
        queue->suspensions[kind].backoff =
            (struct backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
}

void send_queue_release(struct send_queue *queue)
{
    pthread_cond_destroy(&queue->work_arrived);
}

static int64_t get_now_ms(const struct send_queue *queue)
{
    return clock_monotonic_ms(queue->clock);
}

/* ================================================================ the lists */

static void insert_in_list(GQueue *list, struct item *item)
{
    GList *before = list->tail;
    while (before != NULL && ((struct item *)before->data)->row.position > item->row.position)
        before = before->prev;
    item->schedule.link = (GList){.data = item};
    item->schedule.list = list;
    g_queue_insert_after_link(list, before, &item->schedule.link);
}

/* Returns true if the item is handed in after a quiet time: a closed message that is not empty, was not
 * interrupted, and has a name that is sent. */
static bool is_to_be_handed_in(const struct item *item)
{
    return item->row.state == ITEM_WAITING && item->row.kind == ITEM_MESSAGE && item->size > 0 &&
           item->row.error == NULL && !item_is_never_sent(ITEM_MESSAGE, item->row.name);
}

void send_queue_place(struct send_queue *queue, struct item *item)
{
    GQueue *from = item->schedule.list;
    if (from != NULL)
        g_queue_unlink(from, &item->schedule.link);
    item->schedule.list = NULL;
    if (is_to_be_handed_in(item))
        insert_in_list(&queue->waiting, item);
    else if (item_states[item->row.state].is_unsettled)
        insert_in_list(&queue->handed_in[item->row.kind], item);
    if (item->schedule.list != from)
        send_queue_make_due(queue, item);
    if (item->schedule.list == &queue->waiting && from != &queue->waiting)
        send_queue_touch(queue, item);
}

void send_queue_touch(struct send_queue *queue, struct item *item)
{
    if (item->row.state == ITEM_WAITING && item->schedule.awaits == 0)
        item->schedule.due_ms = get_now_ms(queue) + QUIET_MS;
    pthread_cond_broadcast(&queue->work_arrived);
}

void send_queue_end_quiet_times(struct send_queue *queue)
{
    for (const GList *link = queue->waiting.head; link != NULL; link = link->next)
        send_queue_make_due(queue, link->data);
}

static bool is_due(const struct item *item, int64_t now_ms, int64_t *ret_until_ms)
{
    if (item->schedule.due_ms <= now_ms)
        return true;
    if (item->schedule.due_ms < *ret_until_ms)
        *ret_until_ms = item->schedule.due_ms;
    return false;
}

struct item *send_queue_find_quiet(const struct send_queue *queue, const struct item *after,
                                   int64_t *ret_until_ms)
{
    const GList *link = after == NULL ? queue->waiting.head : after->schedule.link.next;
    int64_t now_ms = get_now_ms(queue);
    for (; link != NULL; link = link->next) {
        struct item *item = link->data;
        if (item->claim == CLAIM_NONE && item->file.writers == 0 && item->schedule.awaits == 0 &&
            is_due(item, now_ms, ret_until_ms))
            return item;
    }
    return NULL;
}

struct item *send_queue_find_upload(const struct item_table *table, const struct item *message)
{
    for (size_t i = 0; i < message->row.pieces_len; i++) {
        const struct piece *piece = &message->row.pieces[i];
        struct item *file = piece->name == NULL || piece->pool_id != NULL
                                ? NULL
                                : item_table_find(table, OUTBOX_FOLDER_ATTACHMENTS, piece->name);
        if (file != NULL && file->row.state == ITEM_UPLOADING && strcmp(file->row.digest, piece->digest) == 0)
            return file;
    }
    return NULL;
}

/* ================================================================ the quota */

int64_t quota_day_of(int64_t realtime_ms)
{
    return realtime_ms / DAY_MS;
}

int64_t quota_get_count(const struct quota *quota, int64_t realtime_ms)
{
    return quota->day == quota_day_of(realtime_ms) ? quota->count : 0;
}

void quota_count(struct quota *quota, int64_t day)
{
    quota->count = (quota->day == day ? quota->count : 0) + 1;
    quota->day = day;
}

/* Returns true if no further item of this kind may be tried today. A try that is refused makes room again. */
static bool is_quota_used_up(const struct send_queue *queue, enum item_kind kind, unsigned int tries)
{
    int64_t count = quota_get_count(&queue->quota, clock_realtime_ms(queue->clock)) + tries;
    return kind == ITEM_MESSAGE && queue->quota.limit >= 0 && count >= queue->quota.limit;
}

static int64_t get_time_to_next_day_ms(const struct send_queue *queue)
{
    return DAY_MS - clock_realtime_ms(queue->clock) % DAY_MS;
}

/* ================================================================ the suspension */

static void end_pause(struct suspension *suspension)
{
    suspension->until_ms = 0;
    suspension->backoff.attempts = 0;
}

/* Begins the try, and returns true, if the suspension allows it. A sent message cannot be taken back, so
 * after a rest one message is tried alone, even without a suspension. The others wait for its answer,
 * ALONE_MS at most; then a second one is tried, with a list first. */
static bool suspension_allows_try(struct send_queue *queue, struct item *item, int64_t now_ms,
                                  int64_t *ret_until_ms)
{
    struct suspension *suspension = &queue->suspensions[item->row.kind];
    bool is_suspended = suspension->reason != SUSPENSION_NONE;
    item->schedule.must_ask_list = false;
    if (!is_suspended && (item->row.kind == ITEM_ATTACHMENT || now_ms < suspension->rested_ms))
        return true;
    if (now_ms < suspension->until_ms) {
        *ret_until_ms = MIN(*ret_until_ms, suspension->until_ms);
        return false;
    }
    item->schedule.must_ask_list = suspension->probe != NULL || suspension->reason == SUSPENSION_DOUBTFUL;
    suspension->probe = item;
    suspension->until_ms = now_ms + (is_suspended ? TRY_MS : ALONE_MS);
    return true;
}

static void end_suspension(struct send_queue *queue, struct suspension *suspension)
{
    end_pause(suspension);
    suspension->reason = SUSPENSION_NONE;
    suspension->probe = NULL;
    suspension->rested_ms = get_now_ms(queue) + REST_MS;
    suspension->error[0] = '\0';
}

/* Requests that fail together are one failure, and the backoff grows once. */
static void begin_suspension(struct send_queue *queue, struct suspension *suspension,
                             enum suspension_reason reason, const struct service_result *result)
{
    int64_t now_ms = get_now_ms(queue);
    bool is_new_failure =
        suspension->reason == SUSPENSION_NONE || suspension->probe != NULL || now_ms >= suspension->until_ms;
    int64_t wait_ms = UNAUTHORIZED_MS;
    if (reason != SUSPENSION_UNAUTHORIZED)
        wait_ms = is_new_failure ? backoff_next_ms(&suspension->backoff) : 0;
    wait_ms = MAX(wait_ms, result->retry_after_ms);
    if (is_new_failure || now_ms + wait_ms > suspension->until_ms)
        suspension->until_ms = now_ms + wait_ms;
    suspension->reason = reason;
    suspension->probe = NULL;
    snprintf(suspension->error, sizeof(suspension->error), "%s",
             result->detail == NULL ? "" : result->detail);
}

/* ================================================================ tries */

/* The first message of a sequence holds up its later messages, to keep the order. A message that a
 * program has open for writing is skipped, because it may stay open for ever. An item that was put off is
 * tried after the others, because the service, or a gateway, may put it off every time. */
static struct item *find_due(const struct send_queue *queue, const struct item_table *table,
                             enum item_kind kind, int64_t now_ms, int64_t *ret_until_ms)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(hash_string, g_str_equal); /* sequences */
    struct item *first = NULL;
    for (const GList *link = queue->handed_in[kind].head;
         link != NULL && (first == NULL || first->schedule.due_ms != 0); link = link->next) {
        struct item *item = link->data;
        bool is_open = item->file.writers > 0 && item->claim == CLAIM_NONE;
        if (kind == ITEM_MESSAGE && (is_open || !g_hash_table_add(seen, item->row.sequence)))
            continue;
        if (item->claim == CLAIM_NONE && item->row.state != ITEM_SENDING &&
            send_queue_find_upload(table, item) == NULL && is_due(item, now_ms, ret_until_ms) &&
            (first == NULL || item->schedule.due_ms < first->schedule.due_ms))
            first = item;
    }
    return first;
}

struct item *send_queue_begin_try(struct send_queue *queue, const struct item_table *table,
                                  enum item_kind kind, int64_t *ret_until_ms)
{
    int64_t now_ms = get_now_ms(queue);
    if (queue->tries[kind] == TRIES_MAX)
        return NULL;
    struct item *item = find_due(queue, table, kind, now_ms, ret_until_ms);
    if (item != NULL && is_quota_used_up(queue, kind, queue->tries[kind])) {
        *ret_until_ms = MIN(*ret_until_ms, now_ms + MIN(get_time_to_next_day_ms(queue), MIDNIGHT_CHECK_MS));
        return NULL;
    }
    if (item == NULL || !suspension_allows_try(queue, item, now_ms, ret_until_ms))
        return NULL;
    queue->tries[kind]++;
    return item;
}

void send_queue_end_try(struct send_queue *queue, struct item *item)
{
    struct suspension *suspension = &queue->suspensions[item->row.kind];
    queue->tries[item->row.kind]--;
    if (suspension->probe != item)
        return;
    suspension->probe = NULL;
    suspension->until_ms = 0;
    pthread_cond_broadcast(&queue->work_arrived);
}

void send_queue_put_off(struct send_queue *queue, struct item *item)
{
    item->schedule.due_ms = get_now_ms(queue) + DISK_FAILURE_MS;
}

/* Returns SUSPENSION_NONE if the service works, even if it refused this item. */
static enum suspension_reason find_reason(const struct service_result *result, enum answer answer)
{
    if (result->is_foreign)
        return SUSPENSION_DOUBTFUL;
    if (result->outcome == SERVICE_OK || answer == ANSWER_REFUSES_ITEM)
        return SUSPENSION_NONE;
    if (result->outcome == SERVICE_UNAUTHORIZED)
        return SUSPENSION_UNAUTHORIZED;
    if (result->http_status == 0)
        return SUSPENSION_UNREACHABLE;
    if (result->outcome == SERVICE_UNKNOWN)
        return SUSPENSION_NONE;
    return result->outcome == SERVICE_RETRY && answer != ANSWER_TO_LIST ? SUSPENSION_BUSY
                                                                        : SUSPENSION_DOUBTFUL;
}

/* Returns true if the item waits for its own time, too: a server may put off this item alone, or the outcome
 * is unknown. A request that this program has cancelled (EINTR) shows nothing about the service. */
static bool is_put_off(const struct service_result *result)
{
    return (result->outcome == SERVICE_RETRY && result->http_status != 0) ||
           result->outcome == SERVICE_UNKNOWN || result->error == EINTR;
}

enum suspension_reason send_queue_report(struct send_queue *queue, struct item *item,
                                         const struct service_result *result, enum answer answer)
{
    struct suspension *suspension = &queue->suspensions[item->row.kind];
    enum suspension_reason reason = find_reason(result, answer);
    if (answer != ANSWER_TO_LIST && is_put_off(result)) {
        int64_t backoff_ms = backoff_next_ms(&item->schedule.backoff);
        item->schedule.due_ms = get_now_ms(queue) + MAX(backoff_ms, result->retry_after_ms);
    }
    if (result->error == EINTR)
        return reason;
    if (suspension->reason != SUSPENSION_NONE || suspension->probe != NULL)
        pthread_cond_broadcast(&queue->work_arrived);
    if (reason == SUSPENSION_NONE)
        end_suspension(queue, suspension);
    else
        begin_suspension(queue, suspension, reason, result);
    return reason;
}

void send_queue_end_rest(struct send_queue *queue)
{
    queue->suspensions[ITEM_MESSAGE].rested_ms = get_now_ms(queue) + REST_MS;
    pthread_cond_broadcast(&queue->work_arrived);
}

void send_queue_make_due(struct send_queue *queue, struct item *item)
{
    item->schedule.due_ms = 0;
    item->schedule.backoff.attempts = 0;
    pthread_cond_broadcast(&queue->work_arrived);
}

void send_queue_wake(struct send_queue *queue, struct item *item)
{
    end_pause(&queue->suspensions[item->row.kind]);
    send_queue_make_due(queue, item);
}

void send_queue_wake_all(struct send_queue *queue)
{
    for (unsigned int kind = 0; kind < ITEM_KINDS; kind++) {
        end_pause(&queue->suspensions[kind]);
        for (const GList *link = queue->handed_in[kind].head; link != NULL; link = link->next)
            send_queue_make_due(queue, link->data);
    }
}

/* Returns the later of the two times that the item waits for. */
static int64_t get_due_ms(const struct send_queue *queue, const struct item *item)
{
    const struct suspension *suspension = &queue->suspensions[item->row.kind];
    bool is_suspended = item->schedule.list != &queue->waiting && suspension->reason != SUSPENSION_NONE &&
                        suspension->probe == NULL;
    return MAX(item->schedule.due_ms, is_suspended ? suspension->until_ms : 0);
}

bool send_queue_has_to_wait(const struct send_queue *queue, const struct item *item)
{
    const struct suspension *suspension = &queue->suspensions[item->row.kind];
    if (item->claim != CLAIM_NONE)
        return false;
    if (get_due_ms(queue, item) > get_now_ms(queue))
        return true;
    bool is_probing = suspension->reason != SUSPENSION_NONE && suspension->probe != NULL;
    return item->schedule.list != &queue->waiting &&
           (is_probing || is_quota_used_up(queue, item->row.kind, 0));
}

int64_t send_queue_next_try_ms(const struct send_queue *queue)
{
    int64_t now_ms = get_now_ms(queue);
    int64_t realtime_ms = clock_realtime_ms(queue->clock);
    int64_t next_ms = CLOCK_FOREVER;
    for (unsigned int kind = 0; kind < ITEM_KINDS; kind++)
        for (const GList *link = queue->handed_in[kind].head; link != NULL; link = link->next) {
            int64_t due_ms = get_due_ms(queue, link->data);
            if (due_ms > now_ms && due_ms < next_ms)
                next_ms = due_ms;
        }
    if (next_ms != CLOCK_FOREVER)
        return realtime_ms + next_ms - now_ms;
    bool waits_for_day =
        queue->handed_in[ITEM_MESSAGE].length > 0 && is_quota_used_up(queue, ITEM_MESSAGE, 0);
    return waits_for_day ? realtime_ms + get_time_to_next_day_ms(queue) : 0;
}
