/* SPDX-License-Identifier: MIT */
/*
 * The queue.
 */
#include "outbox/send_queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "outbox/transition.h"

/* ================================================================ what waits */

/* ---------------------------------------------------------------- rows */

static void insert_in_row(struct item_row *row, struct item *item)
{
    struct item *before = row->last;
    while (before != NULL && before->envelope.order > item->envelope.order)
        before = before->previous;
    item->previous = before;
    item->next = before == NULL ? row->first : before->next;
    *(item->previous == NULL ? &row->first : &item->previous->next) = item;
    *(item->next == NULL ? &row->last : &item->next->previous) = item;
    row->len++;
}

static void remove_from_row(struct item_row *row, struct item *item)
{
    *(item->previous == NULL ? &row->first : &item->previous->next) = item->next;
    *(item->next == NULL ? &row->last : &item->next->previous) = item->previous;
    item->next = item->previous = NULL;
    row->len--;
}

/* ---------------------------------------------------------------- lanes */

static void append_lane(struct send_queue *queue, struct lane *lane)
{
    lane->next = NULL;
    lane->previous = queue->last_lane;
    *(queue->last_lane == NULL ? &queue->first_lane : &queue->last_lane->next) = lane;
    queue->last_lane = lane;
}

static void unlink_lane(struct send_queue *queue, struct lane *lane)
{
    *(lane->previous == NULL ? &queue->first_lane : &lane->previous->next) = lane->next;
    *(lane->next == NULL ? &queue->last_lane : &lane->next->previous) = lane->previous;
}

static void free_lane(struct lane *lane)
{
    free(lane->key);
    free(lane);
}

void send_queue_release(struct send_queue *queue)
{
    size_t position = 0;
    struct lane *lane;
    while ((lane = map_next(&queue->lanes, &position)) != NULL)
        free_lane(lane);
    map_release(&queue->lanes);
    *queue = (struct send_queue){0};
}

int send_queue_open_lane(struct send_queue *queue, const char *key, struct lane **ret_lane)
{
    struct lane *lane = map_find(&queue->lanes, key);
    if (lane == NULL) {
        lane = calloc(1, sizeof(*lane));
        if (lane == NULL)
            return -ENOMEM;
        lane->key = strdup(key);
        if (lane->key == NULL || map_set(&queue->lanes, lane->key, lane) != 0) {
            free_lane(lane);
            return -ENOMEM;
        }
    }
    lane->refs++;
    *ret_lane = lane;
    return 0;
}

void send_queue_close_lane(struct send_queue *queue, struct lane *lane)
{
    if (lane == NULL || --lane->refs > 0)
        return;
    map_remove(&queue->lanes, lane->key);
    free_lane(lane);
}

/* ---------------------------------------------------------------- in and out */

void send_queue_add(struct send_queue *queue, struct item *item)
{
    item->is_queued = true;
    if (item->envelope.kind == ENVELOPE_ATTACHMENT) {
        insert_in_row(&queue->uploads, item);
        return;
    }
    if (item->lane->row.len == 0)
        append_lane(queue, item->lane);
    insert_in_row(&item->lane->row, item);
    queue->messages++;
}

void send_queue_remove(struct send_queue *queue, struct item *item)
{
    item->is_queued = false;
    if (item->envelope.kind == ENVELOPE_ATTACHMENT) {
        remove_from_row(&queue->uploads, item);
        return;
    }
    struct lane *lane = item->lane;
    remove_from_row(&lane->row, item);
    unlink_lane(queue, lane);
    if (lane->row.len > 0)
        append_lane(queue, lane);
    item->lane = NULL;
    send_queue_close_lane(queue, lane);
    queue->messages--;
}

/* ---------------------------------------------------------------- turns */

static bool is_due(const struct item *item, int64_t now_ms, int64_t *ret_until_ms)
{
    if (item->next_attempt_ms <= now_ms)
        return true;
    if (item->next_attempt_ms < *ret_until_ms)
        *ret_until_ms = item->next_attempt_ms;
    return false;
}

/* Whoever waits holds up those behind it, for the sake of order; but not one that waits for somebody to
 * finish writing an attachment, which can take for ever. One that lost an attachment is about to fail. */
static struct item *find_in_lane(const struct lane *lane, int64_t now_ms, int64_t *ret_until_ms)
{
    for (struct item *item = lane->row.first; item != NULL; item = item->next) {
        enum binding_state bindings = binding_state(item);
        if (bindings == BINDING_WRITING)
            continue;
        if (item->claim != CLAIM_NONE || item->state != ITEM_QUEUED || bindings != BINDING_READY)
            return NULL;
        return is_due(item, now_ms, ret_until_ms) ? item : NULL;
    }
    return NULL;
}

struct item *send_queue_find_message(const struct send_queue *queue, int64_t now_ms, int64_t *ret_until_ms)
{
    struct item *item = NULL;
    for (const struct lane *lane = queue->first_lane; lane != NULL && item == NULL; lane = lane->next)
        item = find_in_lane(lane, now_ms, ret_until_ms);
    return item;
}

struct item *send_queue_find_upload(const struct send_queue *queue, int64_t now_ms, int64_t *ret_until_ms)
{
    for (struct item *item = queue->uploads.first; item != NULL; item = item->next)
        if (item->claim == CLAIM_NONE && !binding_is_unneeded(item) && is_due(item, now_ms, ret_until_ms))
            return item;
    return NULL;
}

void send_queue_wake(struct item *item)
{
    item->next_attempt_ms = 0;
    item->is_woken = item->claim != CLAIM_NONE;
}

struct item *send_queue_next(const struct send_queue *queue, const struct item *item)
{
    const struct lane *lane = item == NULL ? queue->first_lane : item->lane;
    if (item != NULL && item->next != NULL)
        return item->next;
    if (item != NULL && lane == NULL)
        return NULL; /* the last upload */
    if (item != NULL)
        lane = lane->next;
    return lane != NULL ? lane->row.first : queue->uploads.first;
}

/* ================================================================ the service */

enum {
    WAIT_MIN_MS = 1000,
    WAIT_MAX_MS = 15 * 60 * 1000,
    UNAUTHORIZED_MS = 60 * 1000, /* somebody may mend the key at any time */
    ASKED_MAX_MS = 24 * 3600 * 1000,
};

void gate_init(struct gate *gate)
{
    *gate = (struct gate){.backoff = {.min_ms = WAIT_MIN_MS, .max_ms = WAIT_MAX_MS}};
}

bool gate_enter(struct gate *gate, int64_t now_ms, uint64_t *ret_probe)
{
    *ret_probe = 0;
    if (gate->reason == GATE_OPEN)
        return true;
    if (gate->is_probing || now_ms < gate->until_ms)
        return false;
    gate->is_probing = true;
    *ret_probe = ++gate->probe;
    return true;
}

int64_t gate_until_ms(const struct gate *gate)
{
    return gate->reason == GATE_OPEN || gate->is_probing ? CLOCK_FOREVER : gate->until_ms;
}

void gate_open(struct gate *gate)
{
    uint64_t probe = gate->probe;
    gate_init(gate);
    gate->probe = probe;
}

/* Several requests that were under way together fail together: that is one failure, and makes the wait longer
 * once. */
void gate_close(struct gate *gate, enum gate_reason reason, int64_t now_ms, int64_t wait_ms,
                const char *words)
{
    bool is_news = gate->reason == GATE_OPEN || gate->is_probing || now_ms >= gate->until_ms;
    int64_t wait = UNAUTHORIZED_MS;
    if (reason != GATE_UNAUTHORIZED)
        wait = is_news ? backoff_next_ms(&gate->backoff) : 0;
    if (wait_ms > wait)
        wait = wait_ms < ASKED_MAX_MS ? wait_ms : ASKED_MAX_MS;
    if (is_news || now_ms + wait > gate->until_ms)
        gate->until_ms = now_ms + wait;
    gate->reason = reason;
    gate->is_probing = false;
    snprintf(gate->error, sizeof(gate->error), "%s", words == NULL ? "" : words);
}

void gate_leave(struct gate *gate, uint64_t probe)
{
    if (gate->probe == probe)
        gate->is_probing = false;
}

void gate_wake(struct gate *gate)
{
    gate->until_ms = 0;
}

/* ================================================================ the day */

enum {
    DAY_MS = 24 * 3600 * 1000
};

int64_t quota_day(int64_t realtime_ms)
{
    return realtime_ms / DAY_MS;
}

int64_t quota_wait_ms(int64_t now_ms)
{
    return DAY_MS - now_ms % DAY_MS;
}

void quota_init(struct quota *quota, struct spool *spool, int64_t limit, int64_t now_ms)
{
    int64_t day;
    int64_t count;
    *quota = (struct quota){.spool = spool, .limit = limit, .day = quota_day(now_ms)};
    pthread_mutex_init(&quota->lock, NULL);
    pthread_mutex_init(&quota->saving, NULL);
    if (spool_read_count(spool, &day, &count) == 0)
        quota_raise(quota, day, count);
}

void quota_release(struct quota *quota)
{
    pthread_mutex_destroy(&quota->saving);
    pthread_mutex_destroy(&quota->lock);
}

void quota_raise(struct quota *quota, int64_t day, int64_t count)
{
    pthread_mutex_lock(&quota->lock);
    if (day == quota->day && count > quota->count)
        quota->count = count;
    pthread_mutex_unlock(&quota->lock);
}

static void turn_day_locked(struct quota *quota, int64_t now_ms)
{
    int64_t day = quota_day(now_ms);
    if (day == quota->day)
        return;
    quota->day = day;
    quota->count = 0;
}

static bool has_room_locked(const struct quota *quota)
{
    return quota->limit < 0 || quota->count + quota->under_way < quota->limit;
}

bool quota_enter(struct quota *quota, int64_t now_ms)
{
    pthread_mutex_lock(&quota->lock);
    turn_day_locked(quota, now_ms);
    bool has_room = has_room_locked(quota);
    if (has_room)
        quota->under_way++;
    pthread_mutex_unlock(&quota->lock);
    return has_room;
}

bool quota_has_room(struct quota *quota, int64_t now_ms)
{
    pthread_mutex_lock(&quota->lock);
    turn_day_locked(quota, now_ms);
    bool has_room = has_room_locked(quota);
    pthread_mutex_unlock(&quota->lock);
    return has_room;
}

void quota_leave(struct quota *quota)
{
    pthread_mutex_lock(&quota->lock);
    quota->under_way--;
    pthread_mutex_unlock(&quota->lock);
}

void quota_count(struct quota *quota, int64_t now_ms)
{
    pthread_mutex_lock(&quota->saving);
    pthread_mutex_lock(&quota->lock);
    turn_day_locked(quota, now_ms);
    int64_t day = quota->day;
    int64_t count = ++quota->count;
    pthread_mutex_unlock(&quota->lock);
    int error = spool_write_count(quota->spool, day, count, quota->limit >= 0);
    pthread_mutex_unlock(&quota->saving);
    if (error != 0)
        log_warning("the count of emails sent today could not be saved: %s", strerror(-error));
}

int64_t quota_get_count(struct quota *quota, int64_t now_ms)
{
    pthread_mutex_lock(&quota->lock);
    turn_day_locked(quota, now_ms);
    int64_t count = quota->count;
    pthread_mutex_unlock(&quota->lock);
    return count;
}
