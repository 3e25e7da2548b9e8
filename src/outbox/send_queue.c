/* SPDX-License-Identifier: MIT */
/*
 * Lanes and turns.
 */
#include "outbox/send_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "outbox/binding.h"

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
