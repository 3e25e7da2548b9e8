/* SPDX-License-Identifier: MIT */
/*
 * When rounds are made, and what is told in between.
 */
#include "store/search_feed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "store/search_round.h"

enum {
    NOTED_MAX = 4096,
    REST_BEFORE_MS = 3000, /* nothing changed for so long: the round begins */
    REST_BEFORE_MAX_MS = 30 * 1000,
    REST_AFTER_FAILURE_MS = 60 * 1000,
};

struct search_feed {
    int dir_fd;
    pthread_t thread;

    struct search_progress progress; /* the thread's, as is the next */
    bool has_warned;                 /* of a failure that lasts */
    bool was_damaged;                /* when the last round ended */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct search_index *index; /* protected by lock, like all below; NULL: not open */
    bool is_started;
    atomic_bool is_stopping; /* set under it, too */
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

struct search_feed *search_feed_new(struct mirror *mirror, int dir_fd)
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
    feed->progress.mirror = mirror;
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
    struct search_index *index = NULL;
    int error = search_index_open(feed->dir_fd, &index);
    if (error != 0)
        return error;
    pthread_mutex_lock(&feed->lock);
    feed->index = index;
    pthread_mutex_unlock(&feed->lock);
    feed->progress.index = index;
    return search_progress_read(&feed->progress);
}

static int prepare(struct search_feed *feed)
{
    if (feed->index == NULL)
        return open_index(feed);
    if (!search_index_is_damaged(feed->index))
        return 0;
    if (!feed->has_warned)
        log_warning("the search index is damaged; it is built anew");
    pthread_mutex_lock(&feed->lock);
    search_texts_forget(&feed->texts);
    pthread_mutex_unlock(&feed->lock);
    search_progress_start_over(&feed->progress);
    return search_index_renew(feed->index);
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

static void *run(void *argument)
{
    struct search_feed *feed = argument;
    thread_give_way();
    pthread_mutex_lock(&feed->lock);
    while (!feed->is_stopping) {
        int64_t due_ms = due_ms_locked(feed);
        if (due_ms != CLOCK_FOREVER && now_ms() >= due_ms)
            run_round_locked(feed);
        else
            clock_wait(clock_system(), &feed->changed, &feed->lock, due_ms);
    }
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
    search_index_free(feed->index);
    feed->index = NULL;
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

bool search_feed_wants_text(struct search_feed *feed, uint32_t email)
{
    if (feed == NULL)
        return false;
    pthread_mutex_lock(&feed->lock);
    bool is_wanted = search_texts_want(&feed->texts, email);
    pthread_mutex_unlock(&feed->lock);
    return is_wanted;
}

void search_feed_add_text(struct search_feed *feed, uint32_t email, const char *text, size_t len)
{
    struct search_text_item *item = feed == NULL ? NULL : search_text_item_new(email, text, len);
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
    cancel_bind(cancel, &feed->changed, &feed->lock);
    pthread_mutex_lock(&feed->lock);
    uint64_t wanted = ++feed->rounds_wanted;
    pthread_cond_broadcast(&feed->changed);
    while (feed->rounds_done < wanted && feed->is_started && !cancel_is_set(cancel) && now_ms() < until_ms)
        clock_wait(clock_system(), &feed->changed, &feed->lock, until_ms);
    bool is_settled = feed->rounds_done >= wanted && !feed->is_behind;
    pthread_mutex_unlock(&feed->lock);
    cancel_unbind(cancel);
    return is_settled;
}

struct search_index *search_feed_index(struct search_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    struct search_index *index = feed->index;
    pthread_mutex_unlock(&feed->lock);
    return index;
}
