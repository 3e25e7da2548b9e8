/* SPDX-License-Identifier: MIT */
/*
 * Rounds, and how far they have come.
 */
#include "store/search_round.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "store/mirror_view.h"

enum {
    BATCH_COST = 1024,      /* in emails */
    BYTES_PER_EMAIL = 1024, /* text that takes about as long */
};

/* Marks in the index. */
static const char mark_pass[] = "pass";
static const char mark_end[] = "end";
static const char mark_log[] = "log";

/* What is to be done about one email, and what it takes. */
struct item {
    bool is_gone;
    struct search_entry entry;
    char *json; /* owned */
};

static void item_release(struct item *item)
{
    free(item->json);
}

/* ---------------------------------------------------------------- what an email is to the index */

static const char *inbox_id_locked(const struct mirror *mirror, uint32_t number)
{
    const struct inbox *inbox = inbox_table_get(&mirror->inboxes, number);
    return inbox == NULL || inbox == mirror->inboxes.of_no_name ? "" : inbox->row.id;
}

/* False: no such email, it was indexed before, or the cache has lost it (then it comes again, as a change).
 * What is noted was changed since. */
static bool get_item(struct search_progress *progress, uint32_t email, bool is_noted, struct item *ret)
{
    struct mirror *mirror = progress->mirror;
    *ret = (struct item){.json = NULL};
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct email_entry *entry = email_index_find(mirror->emails, email);
    bool is_wanted = entry != NULL && (is_noted || (!entry->is_gone && entry->text >= progress->indexed_end));
    if (is_wanted) {
        ret->is_gone = entry->is_gone;
        ret->entry = (struct search_entry){.inbox_id = inbox_id_locked(mirror, entry->inbox),
                                           .key = email_entry_key(entry),
                                           .date_ms = entry->date_ms};
    }
    pthread_rwlock_unlock(&mirror->read_lock);
    if (!is_wanted || ret->is_gone)
        return is_wanted;
    if (mirror_read_email(mirror, email, &ret->json, &ret->entry.json_len) != 0)
        return false;
    ret->entry.json = ret->json;
    ret->entry.digest = (int64_t)hash_bytes(0, ret->json, ret->entry.json_len);
    return true;
}

static int put_item(struct search_progress *progress, const struct item *item)
{
    if (item->is_gone)
        return search_index_remove(progress->index, item->entry.inbox_id, item->entry.key);
    return search_index_put(progress->index, &item->entry, progress->pass);
}

static int put_text(struct search_progress *progress, const struct search_text_item *text)
{
    _cleanup_(item_release) struct item item;
    if (!get_item(progress, text->email, true, &item) || item.is_gone)
        return 0;
    int error = put_item(progress, &item);
    if (error == 0)
        error = search_index_put_body(progress->index, item.entry.inbox_id, item.entry.key, text->bytes,
                                      text->len);
    return error == -ENOENT ? 0 : error;
}

/* ---------------------------------------------------------------- steps */

typedef int (*round_step)(struct search_progress *progress, struct search_round *round, size_t position);

/* Carries out a step for each position, many in a transaction. -ECANCELED: it is to end. */
static int run_steps(struct search_progress *progress, struct search_round *round, size_t from, size_t to,
                     round_step step)
{
    int error = 0;
    while (from < to && error == 0) {
        int left = BATCH_COST;
        int64_t started_ms = clock_monotonic_ms(clock_system());
        error = search_index_begin(progress->index);
        while (from < to && error == 0 && left > 0 && !round->is_over(round->context)) {
            int cost = step(progress, round, from++);
            left -= cost;
            error = cost < 0 ? cost : 0;
        }
        if (error == 0)
            error = search_index_end(progress->index);
        else
            search_index_abandon(progress->index);
        if (error == 0 && !round->rest(round->context, started_ms))
            return -ECANCELED;
    }
    return error;
}

/* Steps: what it cost, 0 when there was nothing to do, or -errno. */

static int step_noted(struct search_progress *progress, struct search_round *round, size_t position)
{
    _cleanup_(item_release) struct item item = {.json = NULL};
    bool was_walked = round->noted[position] >= progress->walked_to; /* in this round, or is in the next */
    if (was_walked || !get_item(progress, round->noted[position], true, &item))
        return 0;
    int error = put_item(progress, &item);
    return error != 0 ? error : 1;
}

static int step_email(struct search_progress *progress, struct search_round *round, size_t position)
{
    _cleanup_(item_release) struct item item;
    (void)round;
    if (!get_item(progress, (uint32_t)position, false, &item))
        return 0;
    int error = put_item(progress, &item);
    return error != 0 ? error : 1;
}

static int step_text(struct search_progress *progress, struct search_round *round, size_t position)
{
    struct search_text_item *text = round->texts;
    (void)position;
    round->texts = text->next;
    int error = put_text(progress, text);
    int cost = 1 + (int)(text->len / BYTES_PER_EMAIL);
    free(text);
    return error != 0 ? error : cost;
}

static size_t count_texts(const struct search_text_item *text)
{
    size_t count = 0;
    for (; text != NULL; text = text->next)
        count++;
    return count;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static bool end_after_batch(void *context, int64_t batch_started_ms)
{
    (void)context, (void)batch_started_ms;
    return false;
}

int search_round_keep_texts(struct search_progress *progress, struct search_text_item **texts)
{
    struct search_round round = {.texts = *texts, .rest = end_after_batch, .is_over = never};
    int error = run_steps(progress, &round, 0, count_texts(*texts), step_text);
    *texts = round.texts;
    return error == -ECANCELED ? 0 : error;
}

/* What the next start need not look at. */
static int keep_marks(struct search_progress *progress, const struct search_round *round)
{
    int64_t identity = progress->mirror->records.identity;
    int error = search_index_begin(progress->index);
    if (error == 0 && progress->is_verifying)
        error = search_index_remove_others(progress->index, progress->pass);
    if (error == 0)
        error = search_index_set_mark(progress->index, mark_pass, progress->pass);
    if (error == 0)
        error = search_index_set_mark(progress->index, mark_log, identity);
    if (error == 0)
        error = search_index_set_mark(progress->index, mark_end, (int64_t)progress->last_end);
    if (error != 0) {
        search_index_abandon(progress->index);
        return error;
    }
    error = search_index_end(progress->index);
    if (error == 0) {
        progress->is_verifying = false;
        progress->indexed_end = progress->last_end;
        progress->last_end = round->end;
    }
    return error;
}

/* Every text with a number below `end` is in the mirror: it is written and shown under one lock. */
static void measure(struct search_progress *progress, struct search_round *round)
{
    struct mirror *mirror = progress->mirror;
    pthread_mutex_lock(&mirror->write_lock);
    round->end = mirror->records.next_text;
    round->emails = email_index_len(mirror->emails);
    pthread_mutex_unlock(&mirror->write_lock);
}

int search_round_run(struct search_progress *progress, struct search_round *round)
{
    measure(progress, round);
    if (round->is_noted_in_part)
        progress->walked_to = 0;
    search_index_begin_filling(progress->index);
    int error = run_steps(progress, round, progress->walked_to, round->emails, step_email);
    search_index_end_filling(progress->index);
    if (error == 0)
        error = run_steps(progress, round, 0, round->noted_len, step_noted);
    if (error == 0)
        error = run_steps(progress, round, 0, count_texts(round->texts), step_text);
    if (error == 0)
        error = keep_marks(progress, round);
    if (error == 0)
        progress->walked_to = round->emails;
    return error;
}

/* ---------------------------------------------------------------- how far it has come */

/* The index has nothing, or what it has must be compared with every email. */
void search_progress_start_over(struct search_progress *progress)
{
    progress->walked_to = 0;
    progress->indexed_end = 0;
    progress->last_end = 0;
    progress->is_verifying = true;
    progress->pass++;
}

int search_progress_read(struct search_progress *progress)
{
    int64_t end = 0;
    int64_t identity = 0;
    int error = search_index_get_mark(progress->index, mark_pass, &progress->pass);
    if (error == 0)
        error = search_index_get_mark(progress->index, mark_log, &identity);
    if (error == 0)
        error = search_index_get_mark(progress->index, mark_end, &end);
    if (error != 0)
        return error;
    struct search_round round;
    measure(progress, &round);
    int64_t identity_now = progress->mirror->records.identity;
    if (identity_now == 0 || identity != identity_now || end < 0 || (uint64_t)end > round.end)
        search_progress_start_over(progress);
    else
        progress->indexed_end = progress->last_end = (uint64_t)end;
    return 0;
}
