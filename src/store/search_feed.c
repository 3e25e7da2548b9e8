/* SPDX-License-Identifier: MIT */
/*
 * Three parts: the queue of texts; rounds, each of which puts what was noted and what was added since into
 * the index; and the thread that decides when a round is made.
 */
#include "store/search_feed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "store/index.h"

/* ---------------------------------------------------------------- texts on their way */

struct search_text_item {
    struct search_text_item *next;
    uint32_t email;
    bool has_attachment;
    size_t len;
    char bytes[];
};

struct search_texts { /* search_texts_init() */
    struct search_text_item *first;
    struct search_text_item **end;
    size_t bytes;
    unsigned char *known; /* a bit for each email whose text was taken */
    size_t known_bytes;
};

enum {
    TEXTS_MAX_BYTES = 8 * 1024 * 1024
};

static void search_texts_init(struct search_texts *texts)
{
    *texts = (struct search_texts){.first = NULL};
    texts->end = &texts->first;
}

static void search_text_items_free(struct search_text_item *first)
{
    while (first != NULL) {
        struct search_text_item *next = first->next;
        free(first);
        first = next;
    }
}

static void search_texts_release(struct search_texts *texts)
{
    search_text_items_free(texts->first);
    free(texts->known);
    search_texts_init(texts);
}

static bool is_known(const struct search_texts *texts, uint32_t email)
{
    return email / 8 < texts->known_bytes && (texts->known[email / 8] & 1U << email % 8) != 0;
}

static bool note_known(struct search_texts *texts, uint32_t email)
{
    if (email / 8 >= texts->known_bytes) {
        size_t bytes = (size_t)email / 4 + 64;
        unsigned char *known = realloc(texts->known, bytes);
        if (known == NULL)
            return false;
        memset(known + texts->known_bytes, 0, bytes - texts->known_bytes);
        texts->known = known;
        texts->known_bytes = bytes;
    }
    texts->known[email / 8] |= (unsigned char)(1U << email % 8);
    return true;
}

static bool search_texts_want(const struct search_texts *texts, uint32_t email)
{
    return texts->bytes <= TEXTS_MAX_BYTES && !is_known(texts, email);
}

static bool search_texts_are_many(const struct search_texts *texts)
{
    return texts->bytes > TEXTS_MAX_BYTES / 2;
}

static struct search_text_item *search_text_item_new(uint32_t email, bool has_attachment, const char *text,
                                                     size_t len)
{
    struct search_text_item *item = malloc(sizeof(*item) + len + 1);
    if (item == NULL)
        return NULL;
    *item = (struct search_text_item){.email = email, .has_attachment = has_attachment, .len = len};
    memcpy(item->bytes, text, len);
    item->bytes[len] = '\0';
    return item;
}

static bool search_texts_add(struct search_texts *texts, struct search_text_item *item)
{
    if (!search_texts_want(texts, item->email) || !note_known(texts, item->email))
        return false;
    *texts->end = item;
    texts->end = &item->next;
    texts->bytes += sizeof(*item) + item->len;
    return true;
}

static struct search_text_item *search_texts_take(struct search_texts *texts)
{
    struct search_text_item *first = texts->first;
    texts->first = NULL;
    texts->end = &texts->first;
    texts->bytes = 0;
    return first;
}

static void search_texts_forget(struct search_texts *texts)
{
    if (texts->known_bytes > 0)
        memset(texts->known, 0, texts->known_bytes);
}

/* ---------------------------------------------------------------- rounds */

/*
 * Rounds of indexing. Each puts what was noted and what was added since into the index, some emails at a
 * time, resting in between, so that it never gets in the way of anybody who waits. A batch is a transaction:
 * large enough that it is not the transactions that cost, small enough that searches see what was done.
 *
 * What a round need not look at is told by the number of an email's text, for these grow, and none is given
 * twice (records.h). A round that walks over all emails finds every text below the number that was the next
 * one when it began. One that looks at what was noted alone may miss a change that was made before it and
 * told of after: it finds what was there when the round before it began. The index keeps that for the next
 * start, the first round of which walks over all emails, and so reads nothing where nothing changed. An
 * index that is new, damaged or of other records is compared with every email.
 *
 * One thread at a time: as a rule the one of the feed, which gives way to all others; whoever searches, where
 * there is little to do.
 */

/* How far the index has come. */
struct search_progress {
    struct index *index;      /* borrowed */
    struct search_index *fts; /* borrowed */
    int64_t pass;             /* the emails of this one count */
    uint64_t indexed_end;     /* texts below this number are in the index */
    uint64_t last_end;        /* the next number when the last round began */
    int64_t kept_end;         /* what the index keeps of indexed_end; -1: another one */
    uint32_t walked_to;       /* emails below this number were looked at */
    bool is_verifying;        /* every email has to be met */
};

/* What there is to do in one round. */
struct search_round {
    uint32_t *noted; /* emails that changed */
    size_t noted_len;
    bool is_noted_in_part;          /* there are more: all have to be looked at */
    struct search_text_item *texts; /* taken; those that are left are the caller's again */
    /* Rests as long as the last batch took, if there is time; false: the round is to end. */
    bool (*rest)(void *context, int64_t batch_started_ms);
    bool (*is_over)(void *context); /* the batch is to end, with what it has, and the round */
    void *context;
    uint32_t emails; /* filled in: how many numbers there are */
    uint64_t end;    /* filled in: texts have numbers below this */
};

enum {
    BATCH_COST = 1024,      /* in emails */
    BYTES_PER_EMAIL = 1024, /* text that takes about as long */
};

/* Marks in the index. */
static const char mark_pass[] = "pass";
static const char mark_end[] = "end";
static const char mark_log[] = "log";

/* What is to be done about one email, and what it takes. */
struct feed_item {
    bool is_gone;
    struct search_entry entry;
    char *json; /* owned */
};

static void feed_item_release(struct feed_item *item)
{
    free(item->json);
}

static const char *inbox_id_locked(const struct index *index, uint32_t number)
{
    const struct inbox *inbox = inbox_table_get(&index->inboxes, number);
    return inbox == NULL || inbox == index->inboxes.of_no_name ? "" : inbox->row.id;
}

/* False: no such email, it was indexed before, or the cache has lost it (then it comes again, as a change).
 * What is noted was changed since. */
static bool get_item(struct search_progress *progress, uint32_t email, bool is_noted, struct feed_item *ret)
{
    struct index *index = progress->index;
    *ret = (struct feed_item){.json = NULL};
    pthread_rwlock_rdlock(&index->read_lock);
    const struct email_entry *entry = email_table_find(index->emails, email);
    bool is_wanted = entry != NULL && (is_noted || (!entry->is_gone && entry->text >= progress->indexed_end));
    if (is_wanted) {
        ret->is_gone = entry->is_gone;
        ret->entry = (struct search_entry){.inbox_id = inbox_id_locked(index, entry->inbox),
                                           .key = email_entry_key(entry),
                                           .date_ms = entry->date_ms};
    }
    pthread_rwlock_unlock(&index->read_lock);
    if (!is_wanted || ret->is_gone)
        return is_wanted;
    if (index_read_email(index, email, &ret->json, &ret->entry.json_len) != 0)
        return false;
    ret->entry.json = ret->json;
    ret->entry.digest = (int64_t)hash_bytes(0, ret->json, ret->entry.json_len);
    return true;
}

static int put_item(struct search_progress *progress, const struct feed_item *item)
{
    if (item->is_gone)
        return search_index_remove(progress->fts, item->entry.inbox_id, item->entry.key);
    return search_index_put(progress->fts, &item->entry, progress->pass);
}

static int put_text(struct search_progress *progress, const struct search_text_item *text)
{
    _cleanup_(feed_item_release) struct feed_item item;
    if (!get_item(progress, text->email, true, &item) || item.is_gone)
        return 0;
    int error = put_item(progress, &item);
    const struct search_content content = {text->has_attachment, text->bytes, text->len};
    if (error == 0)
        error = search_index_put_content(progress->fts, item.entry.inbox_id, item.entry.key, &content);
    return error == -ENOENT ? 0 : error;
}

typedef int (*round_step)(struct search_progress *progress, struct search_round *round, size_t position);

/* Carries out a step for each position, many in a transaction. -ECANCELED: it is to end. */
static int run_steps(struct search_progress *progress, struct search_round *round, size_t from, size_t to,
                     round_step step)
{
    int error = 0;
    while (from < to && error == 0) {
        int left = BATCH_COST;
        int64_t started_ms = clock_monotonic_ms(clock_system());
        error = search_index_begin(progress->fts);
        while (from < to && error == 0 && left > 0 && !round->is_over(round->context)) {
            int cost = step(progress, round, from++);
            left -= cost;
            error = cost < 0 ? cost : 0;
        }
        if (error == 0)
            error = search_index_end(progress->fts);
        else
            search_index_abandon(progress->fts);
        if (error == 0 && !round->rest(round->context, started_ms))
            return -ECANCELED;
    }
    return error;
}

/* Steps: what it cost, 0 when there was nothing to do, or -errno. */

static int step_noted(struct search_progress *progress, struct search_round *round, size_t position)
{
    _cleanup_(feed_item_release) struct feed_item item = {.json = NULL};
    bool was_walked = round->noted[position] >= progress->walked_to; /* in this round, or is in the next */
    if (was_walked || !get_item(progress, round->noted[position], true, &item))
        return 0;
    int error = put_item(progress, &item);
    return error != 0 ? error : 1;
}

static int step_email(struct search_progress *progress, struct search_round *round, size_t position)
{
    _cleanup_(feed_item_release) struct feed_item item;
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

static int search_round_keep_texts(struct search_progress *progress, struct search_text_item **texts)
{
    struct search_round round = {.texts = *texts, .rest = end_after_batch, .is_over = never};
    int error = run_steps(progress, &round, 0, count_texts(*texts), step_text);
    *texts = round.texts;
    return error == -ECANCELED ? 0 : error;
}

/* What the next start need not look at. */
static int write_marks(struct search_progress *progress, uint64_t end)
{
    int error = search_index_begin(progress->fts);
    if (error == 0 && progress->is_verifying)
        error = search_index_remove_others(progress->fts, progress->pass);
    if (error == 0)
        error = search_index_set_mark(progress->fts, mark_pass, progress->pass);
    if (error == 0)
        error = search_index_set_mark(progress->fts, mark_log, progress->index->records.identity);
    if (error == 0)
        error = search_index_set_mark(progress->fts, mark_end, (int64_t)end);
    if (error == 0)
        return search_index_end(progress->fts);
    search_index_abandon(progress->fts);
    return error;
}

static int end_round(struct search_progress *progress, const struct search_round *round, bool has_walked_all)
{
    uint64_t end = has_walked_all ? round->end : progress->last_end;
    int error = progress->kept_end == (int64_t)end ? 0 : write_marks(progress, end);
    if (error != 0)
        return error;
    progress->is_verifying = false;
    progress->kept_end = (int64_t)end;
    progress->indexed_end = end;
    progress->last_end = round->end;
    progress->walked_to = round->emails;
    return 0;
}

/* Every text with a number below `end` is in the store's index: it is written and shown under one lock. */
static void measure(struct search_progress *progress, struct search_round *round)
{
    struct index *index = progress->index;
    pthread_mutex_lock(index->write_lock);
    round->end = index->records.next_text;
    round->emails = email_table_len(index->emails);
    pthread_mutex_unlock(index->write_lock);
}

static int search_round_run(struct search_progress *progress, struct search_round *round)
{
    measure(progress, round);
    if (round->is_noted_in_part)
        progress->walked_to = 0;
    bool walks_all = progress->walked_to == 0;
    search_index_begin_filling(progress->fts);
    int error = run_steps(progress, round, progress->walked_to, round->emails, step_email);
    search_index_end_filling(progress->fts);
    if (error == 0)
        error = run_steps(progress, round, 0, round->noted_len, step_noted);
    if (error == 0)
        error = run_steps(progress, round, 0, count_texts(round->texts), step_text);
    return error != 0 ? error : end_round(progress, round, walks_all);
}

/* The index has nothing, or what it has must be compared with every email. */
static void search_progress_start_over(struct search_progress *progress)
{
    progress->walked_to = 0;
    progress->indexed_end = 0;
    progress->last_end = 0;
    progress->kept_end = -1;
    progress->is_verifying = true;
    progress->pass++;
}

static int search_progress_read(struct search_progress *progress)
{
    int64_t end = 0;
    int64_t identity = 0;
    int error = search_index_get_mark(progress->fts, mark_pass, &progress->pass);
    if (error == 0)
        error = search_index_get_mark(progress->fts, mark_log, &identity);
    if (error == 0)
        error = search_index_get_mark(progress->fts, mark_end, &end);
    if (error != 0)
        return error;
    struct search_round round;
    measure(progress, &round);
    int64_t identity_now = progress->index->records.identity;
    if (identity_now == 0 || identity != identity_now || end < 0 || (uint64_t)end > round.end)
        search_progress_start_over(progress);
    else
        progress->indexed_end = progress->last_end = (uint64_t)end;
    if (!progress->is_verifying)
        progress->kept_end = end;
    return 0;
}

/* ---------------------------------------------------------------- the feed */

enum {
    NOTED_MAX = 4096,
    REST_BEFORE_MS = 3000, /* nothing changed for so long: the round begins */
    REST_BEFORE_MAX_MS = 30 * 1000,
    REST_AFTER_FAILURE_MS = 60 * 1000,
};

struct search_feed {
    int dir_fd;
    pthread_t thread;

    struct search_progress progress; /* of whoever runs a round, as is the next */
    bool has_warned;                 /* of a failure that lasts */
    bool was_damaged;                /* when the last round ended */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct search_index *fts; /* protected by lock, like all below; NULL: not open */
    bool is_started;
    atomic_bool is_stopping; /* set under it, too */
    bool is_running;         /* somebody runs a round */
    bool has_news;
    int64_t first_news_ms; /* monotonic; of what is not indexed */
    int64_t last_news_ms;
    int64_t not_before_ms; /* the next round, after a failure */
    uint32_t *noted;
    size_t noted_len;
    bool is_noted_in_part; /* there was no room for more */
    struct search_texts texts;
    uint64_t rounds_wanted;
    uint64_t rounds_done;
    bool is_behind; /* the last one failed */
};

struct search_feed *search_feed_new(struct index *index, int dir_fd)
{
    struct search_feed *feed = calloc(1, sizeof(*feed));
    if (feed == NULL)
        return NULL;
    feed->noted = malloc(NOTED_MAX * sizeof(*feed->noted));
    feed->dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    if (feed->noted == NULL || feed->dir_fd < 0) {
        free(feed->noted);
        free(feed);
        return NULL;
    }
    feed->progress.index = index;
    search_texts_init(&feed->texts);
    feed->has_news = true; /* what the cache held */
    pthread_mutex_init(&feed->lock, NULL);
    clock_condition_init(&feed->changed);
    return feed;
}

void search_feed_free(struct search_feed *feed)
{
    if (feed == NULL)
        return;
    search_texts_release(&feed->texts);
    free(feed->noted);
    close(feed->dir_fd);
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

static int64_t now_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

/* ---------------------------------------------------------------- the index as it is found */

static int open_index(struct search_feed *feed)
{
    struct search_index *fts = NULL;
    int error = search_index_open(feed->dir_fd, &fts);
    if (error != 0)
        return error;
    pthread_mutex_lock(&feed->lock);
    feed->fts = fts;
    pthread_mutex_unlock(&feed->lock);
    feed->progress.fts = fts;
    return search_progress_read(&feed->progress);
}

static int prepare(struct search_feed *feed)
{
    if (feed->fts == NULL)
        return open_index(feed);
    if (!search_index_is_damaged(feed->fts))
        return 0;
    if (!feed->has_warned)
        log_warning("the search index is damaged; it is built anew");
    pthread_mutex_lock(&feed->lock);
    search_texts_forget(&feed->texts);
    pthread_mutex_unlock(&feed->lock);
    search_progress_start_over(&feed->progress);
    return search_index_renew(feed->fts);
}

/* ---------------------------------------------------------------- the thread */

/* As long as the last batch took, unless somebody waits for the end. */
static bool rest(void *context, int64_t batch_started_ms)
{
    struct search_feed *feed = context;
    int64_t until_ms = 2 * now_ms() - batch_started_ms;
    pthread_mutex_lock(&feed->lock);
    while (!feed->is_stopping && !search_texts_are_many(&feed->texts) &&
           feed->rounds_wanted == feed->rounds_done && now_ms() < until_ms)
        clock_wait(clock_system(), &feed->changed, &feed->lock, until_ms);
    bool goes_on = !feed->is_stopping;
    pthread_mutex_unlock(&feed->lock);
    return goes_on;
}

static bool is_over(void *context)
{
    struct search_feed *feed = context;
    return atomic_load(&feed->is_stopping);
}

static int64_t due_ms_locked(const struct search_feed *feed)
{
    if (feed->rounds_wanted != feed->rounds_done || search_texts_are_many(&feed->texts))
        return 0;
    if (!feed->has_news)
        return CLOCK_FOREVER;
    int64_t due_ms = feed->last_news_ms + REST_BEFORE_MS;
    if (due_ms > feed->first_news_ms + REST_BEFORE_MAX_MS)
        due_ms = feed->first_news_ms + REST_BEFORE_MAX_MS;
    return due_ms > feed->not_before_ms ? due_ms : feed->not_before_ms;
}

static void take_locked(struct search_feed *feed, uint32_t noted[NOTED_MAX], struct search_round *round)
{
    memcpy(noted, feed->noted, feed->noted_len * sizeof(*noted));
    *round = (struct search_round){.noted = noted,
                                   .noted_len = feed->noted_len,
                                   .is_noted_in_part = feed->is_noted_in_part,
                                   .texts = search_texts_take(&feed->texts),
                                   .rest = rest,
                                   .is_over = is_over,
                                   .context = feed};
    feed->noted_len = 0;
    feed->is_noted_in_part = false;
    feed->has_news = false;
}

static void note_failure_locked(struct search_feed *feed, int error)
{
    /* Building it anew is tried at once; where that does not help, there is no hurry. */
    bool is_first_damage = error == -EUCLEAN && !feed->was_damaged;
    if (error == 0)
        feed->has_warned = feed->was_damaged = false;
    if (error == 0 || error == -ECANCELED)
        return;
    if (!is_first_damage && !feed->has_warned)
        log_warning("the search index cannot be written: %s", strerror(-error));
    feed->has_warned = !is_first_damage;
    feed->was_damaged = error == -EUCLEAN;
    /* What was taken is lost, so the next round has to look at everything. */
    search_progress_start_over(&feed->progress);
    search_texts_forget(&feed->texts);
    feed->has_news = true;
    feed->not_before_ms = is_first_damage ? 0 : now_ms() + REST_AFTER_FAILURE_MS;
}

/* What was read just now: the service would have to be asked for it once more, by whoever reads it again. */
static void keep_texts(struct search_feed *feed, struct search_text_item *texts)
{
    if (texts != NULL && prepare(feed) == 0)
        (void)search_round_keep_texts(&feed->progress, &texts);
    search_text_items_free(texts);
}

/* Called with the lock held, which is given up meanwhile. */
static void run_round_locked(struct search_feed *feed)
{
    uint32_t noted[NOTED_MAX];
    struct search_round round;
    uint64_t wanted = feed->rounds_wanted;
    take_locked(feed, noted, &round);
    pthread_mutex_unlock(&feed->lock);
    int error = prepare(feed);
    if (error == 0)
        error = search_round_run(&feed->progress, &round);
    if (error == -ECANCELED)
        keep_texts(feed, round.texts);
    else
        search_text_items_free(round.texts);
    pthread_mutex_lock(&feed->lock);
    note_failure_locked(feed, error);
    feed->rounds_done = wanted;
    feed->is_behind = error != 0;
    pthread_cond_broadcast(&feed->changed);
}

/* The thread, and a stop, may have waited for it. */
static void end_running_locked(struct search_feed *feed)
{
    feed->is_running = false;
    pthread_cond_broadcast(&feed->changed);
}

/* What the next round costs, in emails, and whether that is one batch at most. */
static bool is_short_locked(struct search_feed *feed)
{
    size_t cost = feed->noted_len + feed->texts.bytes / BYTES_PER_EMAIL;
    bool looks_at_all = feed->is_noted_in_part;
    struct search_round round;
    pthread_mutex_unlock(&feed->lock);
    measure(&feed->progress, &round);
    cost += round.emails - (looks_at_all ? 0 : feed->progress.walked_to);
    pthread_mutex_lock(&feed->lock);
    return cost <= BATCH_COST;
}

/* By whoever searches: on a busy machine the thread, with its nice value, may not run for seconds. */
static void run_short_round_locked(struct search_feed *feed)
{
    feed->is_running = true;
    if (is_short_locked(feed))
        run_round_locked(feed);
    end_running_locked(feed);
}

static void *run(void *argument)
{
    struct search_feed *feed = argument;
    thread_give_way();
    pthread_mutex_lock(&feed->lock);
    while (!feed->is_stopping) {
        int64_t due_ms = feed->is_running ? CLOCK_FOREVER : due_ms_locked(feed);
        if (due_ms != CLOCK_FOREVER && now_ms() >= due_ms) {
            feed->is_running = true;
            run_round_locked(feed);
            end_running_locked(feed);
        } else {
            clock_wait(clock_system(), &feed->changed, &feed->lock, due_ms);
        }
    }
    while (feed->is_running)
        clock_wait(clock_system(), &feed->changed, &feed->lock, CLOCK_FOREVER);
    struct search_text_item *texts = search_texts_take(&feed->texts);
    pthread_mutex_unlock(&feed->lock);
    keep_texts(feed, texts);
    return NULL;
}

int search_feed_start(struct search_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->first_news_ms = feed->last_news_ms = now_ms();
    int error = thread_start(&feed->thread, "search-feed", run, feed);
    feed->is_started = error == 0;
    pthread_mutex_unlock(&feed->lock);
    return error;
}

void search_feed_stop(struct search_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    bool was_started = feed->is_started;
    feed->is_started = false;
    feed->is_stopping = true;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    if (was_started)
        pthread_join(feed->thread, NULL);
    search_index_free(feed->fts);
    feed->fts = NULL;
}

/* ---------------------------------------------------------------- being told, and asked */

static void note_news_locked(struct search_feed *feed)
{
    feed->last_news_ms = now_ms();
    if (feed->has_news)
        return;
    /* Once is enough: the thread looks at the time of the last news when it wakes. */
    feed->first_news_ms = feed->last_news_ms;
    feed->has_news = true;
    pthread_cond_broadcast(&feed->changed);
}

void search_feed_note(struct search_feed *feed, uint32_t email)
{
    if (feed == NULL)
        return;
    pthread_mutex_lock(&feed->lock);
    if (feed->noted_len < NOTED_MAX)
        feed->noted[feed->noted_len++] = email;
    else
        feed->is_noted_in_part = true;
    note_news_locked(feed);
    pthread_mutex_unlock(&feed->lock);
}

void search_feed_wake(struct search_feed *feed)
{
    if (feed == NULL)
        return;
    pthread_mutex_lock(&feed->lock);
    note_news_locked(feed);
    pthread_mutex_unlock(&feed->lock);
}

static bool search_feed_wants_text(struct search_feed *feed, uint32_t email)
{
    if (feed == NULL)
        return false;
    pthread_mutex_lock(&feed->lock);
    bool is_wanted = search_texts_want(&feed->texts, email);
    pthread_mutex_unlock(&feed->lock);
    return is_wanted;
}

static void search_feed_add_text(struct search_feed *feed, struct search_text_item *item)
{
    if (item == NULL)
        return;
    pthread_mutex_lock(&feed->lock);
    bool is_taken = search_texts_add(&feed->texts, item);
    if (is_taken)
        note_news_locked(feed);
    if (search_texts_are_many(&feed->texts))
        pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    if (!is_taken)
        search_text_items_free(item);
}

bool search_feed_settle(struct search_feed *feed, int64_t timeout_ms, struct cancel *cancel)
{
    int64_t until_ms = now_ms() + timeout_ms;
    int error = 0;
    pthread_mutex_lock(&feed->lock);
    uint64_t wanted = ++feed->rounds_wanted;
    if (feed->is_started && !feed->is_running)
        run_short_round_locked(feed);
    pthread_cond_broadcast(&feed->changed);
    while (feed->rounds_done < wanted && feed->is_started && error == 0)
        error = wait_until(clock_system(), &feed->changed, &feed->lock, until_ms, cancel);
    bool is_settled = feed->rounds_done >= wanted && !feed->is_behind;
    pthread_mutex_unlock(&feed->lock);
    return is_settled;
}

struct search_index *search_feed_index(struct search_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    struct search_index *fts = feed->fts;
    pthread_mutex_unlock(&feed->lock);
    return fts;
}

/* ---------------------------------------------------------------- content */

static const char body_name[] = "body.txt";

static void append_body(struct strbuf *text, const struct content_folder *folder)
{
    const struct content_entry *body = content_folder_find(folder, CONTENT_TEXT, body_name);
    if (body != NULL)
        strbuf_append(text, body->bytes,
                      body->len < SEARCH_BODY_MAX_BYTES ? body->len : (size_t)SEARCH_BODY_MAX_BYTES);
}

void search_feed_note_content(struct search_feed *feed, uint32_t email, const struct content_folder *folder)
{
    if (!search_feed_wants_text(feed, email))
        return;
    /* Names first: a long body is cut. */
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * SEARCH_BODY_MAX_BYTES);
    for (size_t i = 0; i < folder->len; i++)
        if (folder->entries[i].kind == CONTENT_ATTACHMENT)
            strbuf_appendf(&text, "%s\n", folder->entries[i].name);
    bool has_attachment = text.len > 0;
    append_body(&text, folder);
    search_feed_add_text(feed, search_text_item_new(email, has_attachment, strbuf_str(&text), text.len));
}
