/* SPDX-License-Identifier: MIT */
#include "outbox/send_queue.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

/* ================================================================ waiting items */

static void insert_in_list(GQueue *list, struct item *item)
{
    GList *before = list->tail;
    while (before != NULL && ((struct item *)before->data)->row.position > item->row.position)
        before = before->prev;
    item->schedule.link = (GList){.data = item};
    item->schedule.list = list;
    g_queue_insert_after_link(list, before, &item->schedule.link);
}

void send_queue_remove(struct item *item)
{
    if (item->schedule.list != NULL)
        g_queue_unlink(item->schedule.list, &item->schedule.link);
    item->schedule.list = NULL;
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
    send_queue_remove(item);
    if (is_to_be_handed_in(item))
        insert_in_list(&queue->waiting, item);
    else if (item_states[item->row.state].is_unsettled)
        insert_in_list(&queue->handed_in[item->row.kind], item);
}

static bool is_due(const struct item *item, int64_t now_ms, int64_t *ret_until_ms)
{
    if (item->schedule.due_ms <= now_ms)
        return true;
    if (item->schedule.due_ms < *ret_until_ms)
        *ret_until_ms = item->schedule.due_ms;
    return false;
}

struct item *send_queue_find_quiet(const struct send_queue *queue, const struct item *after, int64_t now_ms,
                                   int64_t *ret_until_ms)
{
    const GList *link = after == NULL ? queue->waiting.head : after->schedule.link.next;
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

/* The first message of a sequence holds up its later messages, to keep the order. A message that a
 * program has open for writing is skipped, because it may stay open for ever. An item that was put off is
 * tried after the others, because the service, or a gateway, may put it off every time. */
struct item *send_queue_find(const struct send_queue *queue, const struct item_table *table,
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

void send_queue_wake(struct item *item)
{
    item->schedule.due_ms = 0;
    item->schedule.is_woken = item->claim != CLAIM_NONE;
}

/* ================================================================ suspensions */

enum {
    UNAUTHORIZED_MS = 60 * 1000, /* the user may replace the key at any time */
    REST_MS = 500,       /* from an answer to a rest; a worker that has more messages sends the next sooner */
    ALONE_MS = 2 * 1000, /* after a rest the first message goes alone: how long others wait for it */
    TRY_MS = 40 * 1000,  /* likewise in a suspension; a stalled request ends sooner, a slow upload may not */
};

void suspension_init(struct suspension *suspension, bool is_careful)
{
    *suspension = (struct suspension){.is_careful = is_careful,
                                      .backoff = {.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS}};
}

bool suspension_begin_try(struct suspension *suspension, int64_t now_ms, struct suspension_try *ret_try)
{
    bool is_suspended = suspension->reason != SUSPENSION_NONE;
    *ret_try = (struct suspension_try){0};
    if (!is_suspended && (!suspension->is_careful || now_ms < suspension->rested_ms))
        return true;
    if (now_ms < suspension->until_ms)
        return false;
    ret_try->must_ask_list = suspension->is_probing || suspension->reason == SUSPENSION_DOUBTFUL;
    ret_try->probe = ++suspension->probe;
    suspension->is_probing = true;
    suspension->until_ms = now_ms + (is_suspended ? TRY_MS : ALONE_MS);
    return true;
}

void suspension_end_rest(struct suspension *suspension, int64_t now_ms)
{
    suspension->rested_ms = now_ms + REST_MS;
}

void suspension_end(struct suspension *suspension, int64_t now_ms)
{
    uint64_t probe = suspension->probe;
    suspension_init(suspension, suspension->is_careful);
    suspension->probe = probe;
    suspension_end_rest(suspension, now_ms);
}

/* Requests that fail together are one failure, and the backoff grows once. */
void suspension_begin(struct suspension *suspension, enum suspension_reason reason, int64_t now_ms,
                      int64_t wait_ms, const char *detail)
{
    bool is_new_failure =
        suspension->reason == SUSPENSION_NONE || suspension->is_probing || now_ms >= suspension->until_ms;
    int64_t wait = UNAUTHORIZED_MS;
    if (reason != SUSPENSION_UNAUTHORIZED)
        wait = is_new_failure ? backoff_next_ms(&suspension->backoff) : 0;
    if (wait_ms > wait)
        wait = wait_ms;
    if (is_new_failure || now_ms + wait > suspension->until_ms)
        suspension->until_ms = now_ms + wait;
    suspension->reason = reason;
    suspension->is_probing = false;
    snprintf(suspension->error, sizeof(suspension->error), "%s", detail == NULL ? "" : detail);
}

void suspension_end_try(struct suspension *suspension, uint64_t probe)
{
    if (suspension->probe != probe || !suspension->is_probing)
        return;
    suspension->is_probing = false;
    suspension->until_ms = 0;
}

void suspension_wake(struct suspension *suspension)
{
    suspension->until_ms = 0;
}

/* ================================================================ the quota */

enum {
    DAY_MS = 24 * 3600 * 1000
};

int64_t quota_day_of(int64_t realtime_ms)
{
    return realtime_ms / DAY_MS;
}

int64_t quota_wait_ms(int64_t now_ms)
{
    return DAY_MS - now_ms % DAY_MS;
}

int64_t quota_get_count(const struct quota *quota, int64_t now_ms)
{
    return quota->day == quota_day_of(now_ms) ? quota->count : 0;
}

bool quota_is_used_up(const struct quota *quota, unsigned int under_way, int64_t now_ms)
{
    return quota->limit >= 0 && quota_get_count(quota, now_ms) + under_way >= quota->limit;
}

void quota_count(struct quota *quota, int64_t day)
{
    quota->count = (quota->day == day ? quota->count : 0) + 1;
    quota->day = day;
}
