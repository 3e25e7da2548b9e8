/* SPDX-License-Identifier: MIT */
/*
 * Rounds. Each takes what was noted and what was added since, and puts it into the index some emails at a
 * time, resting in between, so that it never gets in the way of anybody who waits.
 *
 * What a round need not look at is told by where in the record log an email's frame is: everything before the
 * end that the log had when the last round but one began is in the index. (The last one may have missed a
 * change that was made before it and told of after.)
 */
#include "store/search_feed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"

enum {
    BATCH_EMAILS = 64,
    NOTED_MAX = 4096,
    TEXTS_MAX_BYTES = 8 * 1024 * 1024,
    REST_BEFORE_MS = 3000, /* nothing changed for so long: the round begins */
    REST_BEFORE_MAX_MS = 30 * 1000,
    REST_AFTER_FAILURE_MS = 60 * 1000,
    MANY_EMAILS = 10000,
};

/* Marks in the index. */
static const char mark_pass[] = "pass";
static const char mark_end[] = "end";
static const char mark_log[] = "log";

struct text {
    struct text *next;
    uint32_t email;
    size_t len;
    char bytes[];
};

/* What is to be done about one email, and what it takes. */
struct item {
    bool is_gone;
    struct search_entry entry;
};

struct search_feed {
    struct mirror *mirror; /* borrowed */
    int dir_fd;
    pthread_t thread;

    /* The thread's alone. */
    int64_t pass;
    uint64_t indexed_end; /* in the record log */
    uint64_t last_end;    /* the log's when the last round began */
    uint32_t walked_to;   /* emails below this number were looked at */
    bool is_verifying;    /* the index is of another log: every email has to be met */
    bool has_warned;      /* of a failure that lasts */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct search_index *index; /* protected by lock, like all below; NULL: not open */
    bool is_started;
    bool is_stopping;
    bool has_news;
    int64_t first_news_ms; /* monotonic; of what is not indexed */
    int64_t last_news_ms;
    int64_t not_before_ms; /* the next round, after a failure */
    uint32_t *noted;
    size_t noted_len;
    bool is_noted_in_part; /* there was no room for more */
    struct text *texts;
    struct text **texts_end;
    size_t texts_bytes;
    bool is_pressed;      /* there is little room left: no more rest */
    unsigned char *known; /* a bit for each email whose text was taken */
    size_t known_bytes;
    uint64_t rounds_wanted;
    uint64_t rounds_done;
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
    feed->mirror = mirror;
    feed->texts_end = &feed->texts;
    feed->has_news = true; /* what the cache held */
    pthread_mutex_init(&feed->lock, NULL);
    clock_condition_init(&feed->changed);
    return feed;
}

static void free_texts(struct text *text)
{
    while (text != NULL) {
        struct text *next = text->next;
        free(text);
        text = next;
    }
}

void search_feed_free(struct search_feed *feed)
{
    if (feed == NULL)
        return;
    free_texts(feed->texts);
    free(feed->noted);
    free(feed->known);
    close(feed->dir_fd);
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

static int64_t now_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

/* ---------------------------------------------------------------- what an email is to the index */

static const char *inbox_id_locked(const struct mirror *mirror, uint32_t number)
{
    const struct inbox *inbox = inbox_table_get(&mirror->inboxes, number);
    return inbox == NULL || inbox == mirror->inboxes.of_no_name ? "" : inbox->texts.id;
}

/* False: no such email, or it was indexed before. What is noted was changed since. */
static bool get_item(struct search_feed *feed, uint32_t email, bool is_noted, struct item *ret)
{
    struct mirror *mirror = feed->mirror;
    const struct email_frame *frame = NULL;
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct email_entry *entry = email_index_find(mirror->emails, email);
    if (entry != NULL && (is_noted || (!entry->is_gone &&
                                       record_log_offset(mirror->log, entry->frame) >= feed->indexed_end))) {
        frame = entry->frame;
        *ret = (struct item){
            .is_gone = entry->is_gone,
            .entry = {.inbox_id = inbox_id_locked(mirror, entry->inbox), .date_ms = entry->date_ms}};
    }
    pthread_rwlock_unlock(&mirror->read_lock);
    if (frame == NULL)
        return false;
    /* Frames stay as they are, so reading them from the disk needs no lock. */
    struct email_parts parts;
    email_frame_get_parts(frame, &parts);
    ret->entry.key = parts.key;
    ret->entry.json = parts.json;
    ret->entry.json_len = frame->json_len;
    ret->entry.digest = (int64_t)hash_bytes(0, parts.json, frame->json_len);
    return true;
}

static int put_item(struct search_feed *feed, const struct item *item)
{
    if (item->is_gone)
        return search_index_remove(feed->index, item->entry.inbox_id, item->entry.key);
    return search_index_put(feed->index, &item->entry, feed->pass);
}

static int put_text(struct search_feed *feed, const struct text *text)
{
    struct item item;
    if (!get_item(feed, text->email, true, &item) || item.is_gone)
        return 0;
    int error = put_item(feed, &item);
    if (error == 0)
        error =
            search_index_put_body(feed->index, item.entry.inbox_id, item.entry.key, text->bytes, text->len);
    return error == -ENOENT ? 0 : error;
}

/* ---------------------------------------------------------------- a round */

/* What was taken from the feed to be done. */
struct round {
    uint32_t *noted;
    size_t noted_len;
    bool is_noted_in_part;
    struct text *texts;
    uint32_t emails; /* how many numbers there are */
    uint64_t end;    /* of the record log */
    int64_t batch_started_ms;
};

/* As long as the last batch took. Whether to go on. */
static bool rest(struct search_feed *feed, struct round *round)
{
    int64_t until_ms = 2 * now_ms() - round->batch_started_ms;
    pthread_mutex_lock(&feed->lock);
    while (!feed->is_stopping && !feed->is_pressed && feed->rounds_wanted == feed->rounds_done &&
           now_ms() < until_ms)
        clock_wait(clock_system(), &feed->changed, &feed->lock, until_ms);
    bool goes_on = !feed->is_stopping;
    pthread_mutex_unlock(&feed->lock);
    return goes_on;
}

typedef int (*round_step)(struct search_feed *feed, struct round *round, size_t position);

/* Carries out a step for each position, many in a transaction. -ECANCELED: the feed is to stop. */
static int run_steps(struct search_feed *feed, struct round *round, size_t from, size_t to, round_step step)
{
    int error = 0;
    while (from < to && error == 0) {
        size_t left = BATCH_EMAILS;
        round->batch_started_ms = now_ms();
        error = search_index_begin(feed->index);
        while (from < to && error == 0 && left > 0) {
            int done = step(feed, round, from++);
            left -= done > 0;
            error = done < 0 ? done : 0;
        }
        if (error == 0)
            error = search_index_end(feed->index);
        else
            search_index_abandon(feed->index);
        if (error == 0 && !rest(feed, round))
            return -ECANCELED;
    }
    return error;
}

/* Steps: 1 when there was something to do, 0, or -errno. */

static int step_noted(struct search_feed *feed, struct round *round, size_t position)
{
    struct item item;
    bool was_walked = round->noted[position] >= feed->walked_to; /* in this round, or is in the next */
    if (was_walked || !get_item(feed, round->noted[position], true, &item))
        return 0;
    int error = put_item(feed, &item);
    return error != 0 ? error : 1;
}

static int step_email(struct search_feed *feed, struct round *round, size_t position)
{
    struct item item;
    (void)round;
    if (!get_item(feed, (uint32_t)position, false, &item))
        return 0;
    int error = put_item(feed, &item);
    return error != 0 ? error : 1;
}

static int step_text(struct search_feed *feed, struct round *round, size_t position)
{
    struct text *text = round->texts;
    (void)position;
    round->texts = text->next;
    int error = put_text(feed, text);
    free(text);
    return error != 0 ? error : 1;
}

static size_t count_texts(const struct text *text)
{
    size_t count = 0;
    for (; text != NULL; text = text->next)
        count++;
    return count;
}

/* What the next start need not look at. */
static int keep_marks(struct search_feed *feed, const struct round *round)
{
    int64_t identity = record_log_identity(feed->mirror->log);
    int error = search_index_begin(feed->index);
    if (error == 0 && feed->is_verifying)
        error = search_index_remove_others(feed->index, feed->pass);
    if (error == 0)
        error = search_index_set_mark(feed->index, mark_pass, feed->pass);
    if (error == 0)
        error = search_index_set_mark(feed->index, mark_log, identity);
    if (error == 0)
        error = search_index_set_mark(feed->index, mark_end, (int64_t)feed->last_end);
    if (error != 0) {
        search_index_abandon(feed->index);
        return error;
    }
    error = search_index_end(feed->index);
    if (error == 0) {
        feed->is_verifying = false;
        feed->indexed_end = feed->last_end;
        feed->last_end = round->end;
    }
    return error;
}

static int run_round(struct search_feed *feed, struct round *round)
{
    if (round->is_noted_in_part)
        feed->walked_to = 0;
    bool are_many = round->emails - feed->walked_to >= MANY_EMAILS;
    int error = run_steps(feed, round, feed->walked_to, round->emails, step_email);
    if (error == 0)
        error = run_steps(feed, round, 0, round->noted_len, step_noted);
    if (error == 0)
        error = run_steps(feed, round, 0, count_texts(round->texts), step_text);
    if (error == 0)
        error = keep_marks(feed, round);
    if (error == 0)
        feed->walked_to = round->emails;
    if (are_many)
        mirror_give_back(feed->mirror);
    return error;
}

/* Everything before `end` is in the mirror: it is appended and shown under one lock. */
static void measure(struct search_feed *feed, struct round *round)
{
    struct mirror *mirror = feed->mirror;
    pthread_mutex_lock(&mirror->write_lock);
    round->end = record_log_offset_of_end(mirror->log);
    round->emails = email_index_len(mirror->emails);
    pthread_mutex_unlock(&mirror->write_lock);
}

/* ---------------------------------------------------------------- the index as it is found */

/* The index has nothing, or what it has must be compared with every email. */
static void start_over(struct search_feed *feed)
{
    feed->walked_to = 0;
    feed->indexed_end = 0;
    feed->last_end = 0;
    feed->is_verifying = true;
    feed->pass++;
}

/* They are wanted again. */
static void forget_texts_locked(struct search_feed *feed)
{
    if (feed->known_bytes > 0)
        memset(feed->known, 0, feed->known_bytes);
}

static int read_marks(struct search_feed *feed)
{
    int64_t end = 0;
    int64_t identity = 0;
    int error = search_index_get_mark(feed->index, mark_pass, &feed->pass);
    if (error == 0)
        error = search_index_get_mark(feed->index, mark_log, &identity);
    if (error == 0)
        error = search_index_get_mark(feed->index, mark_end, &end);
    if (error != 0)
        return error;
    struct round round;
    measure(feed, &round);
    int64_t identity_now = record_log_identity(feed->mirror->log);
    if (identity_now == 0 || identity != identity_now || end < 0 || (uint64_t)end > round.end)
        start_over(feed);
    else
        feed->indexed_end = feed->last_end = (uint64_t)end;
    return 0;
}

static int open_index(struct search_feed *feed)
{
    struct search_index *index = NULL;
    int error = search_index_open(feed->dir_fd, &index);
    if (error != 0)
        return error;
    pthread_mutex_lock(&feed->lock);
    feed->index = index;
    pthread_mutex_unlock(&feed->lock);
    return read_marks(feed);
}

static int prepare(struct search_feed *feed)
{
    if (feed->index == NULL)
        return open_index(feed);
    if (!search_index_is_damaged(feed->index))
        return 0;
    log_warning("the search index is damaged; it is built anew");
    pthread_mutex_lock(&feed->lock);
    forget_texts_locked(feed);
    pthread_mutex_unlock(&feed->lock);
    start_over(feed);
    return search_index_renew(feed->index);
}

/* ---------------------------------------------------------------- the thread */

static int64_t due_ms_locked(const struct search_feed *feed)
{
    if (feed->rounds_wanted != feed->rounds_done || feed->is_pressed)
        return 0;
    if (!feed->has_news)
        return CLOCK_FOREVER;
    int64_t due_ms = feed->last_news_ms + REST_BEFORE_MS;
    if (due_ms > feed->first_news_ms + REST_BEFORE_MAX_MS)
        due_ms = feed->first_news_ms + REST_BEFORE_MAX_MS;
    return due_ms > feed->not_before_ms ? due_ms : feed->not_before_ms;
}

static void take_locked(struct search_feed *feed, uint32_t noted[NOTED_MAX], struct round *round)
{
    memcpy(noted, feed->noted, feed->noted_len * sizeof(*noted));
    *round = (struct round){.noted = noted,
                            .noted_len = feed->noted_len,
                            .is_noted_in_part = feed->is_noted_in_part,
                            .texts = feed->texts};
    feed->noted_len = 0;
    feed->is_noted_in_part = false;
    feed->texts = NULL;
    feed->texts_end = &feed->texts;
    feed->texts_bytes = 0;
    feed->is_pressed = false;
    feed->has_news = false;
    pthread_cond_broadcast(&feed->changed);
}

static void note_failure_locked(struct search_feed *feed, int error)
{
    if (error == 0)
        feed->has_warned = false;
    if (error == 0 || error == -ECANCELED)
        return;
    if (error != -EUCLEAN && !feed->has_warned)
        log_warning("the search index cannot be written: %s", strerror(-error));
    feed->has_warned = error != -EUCLEAN;
    /* What was taken is lost, so the next round has to look at everything. */
    start_over(feed);
    forget_texts_locked(feed);
    feed->has_news = true;
    feed->not_before_ms = error == -EUCLEAN ? 0 : now_ms() + REST_AFTER_FAILURE_MS;
}

/* Called with the lock held, which is given up meanwhile. */
static void run_round_locked(struct search_feed *feed)
{
    uint32_t noted[NOTED_MAX];
    struct round round;
    uint64_t wanted = feed->rounds_wanted;
    take_locked(feed, noted, &round);
    pthread_mutex_unlock(&feed->lock);
    int error = prepare(feed);
    measure(feed, &round);
    if (error == 0)
        error = run_round(feed, &round);
    free_texts(round.texts);
    pthread_mutex_lock(&feed->lock);
    note_failure_locked(feed, error);
    feed->rounds_done = wanted;
    pthread_cond_broadcast(&feed->changed);
}

static void *run(void *argument)
{
    struct search_feed *feed = argument;
    pthread_mutex_lock(&feed->lock);
    while (!feed->is_stopping) {
        int64_t due_ms = due_ms_locked(feed);
        if (due_ms != CLOCK_FOREVER && now_ms() >= due_ms)
            run_round_locked(feed);
        else
            clock_wait(clock_system(), &feed->changed, &feed->lock, due_ms);
    }
    pthread_mutex_unlock(&feed->lock);
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

static bool has_text_locked(const struct search_feed *feed, uint32_t email)
{
    return email / 8 < feed->known_bytes && (feed->known[email / 8] & 1U << email % 8) != 0;
}

bool search_feed_wants_text(struct search_feed *feed, uint32_t email)
{
    if (feed == NULL)
        return false;
    pthread_mutex_lock(&feed->lock);
    bool is_wanted = feed->texts_bytes <= TEXTS_MAX_BYTES && !has_text_locked(feed, email);
    pthread_mutex_unlock(&feed->lock);
    return is_wanted;
}

static bool note_known_locked(struct search_feed *feed, uint32_t email)
{
    if (email / 8 >= feed->known_bytes) {
        size_t bytes = (size_t)email / 4 + 64;
        unsigned char *known = realloc(feed->known, bytes);
        if (known == NULL)
            return false;
        memset(known + feed->known_bytes, 0, bytes - feed->known_bytes);
        feed->known = known;
        feed->known_bytes = bytes;
    }
    feed->known[email / 8] |= (unsigned char)(1U << email % 8);
    return true;
}

/* True: it is the feed's from now on. */
static bool take_text_locked(struct search_feed *feed, struct text *text)
{
    if (feed->texts_bytes > TEXTS_MAX_BYTES || has_text_locked(feed, text->email) ||
        !note_known_locked(feed, text->email))
        return false;
    *feed->texts_end = text;
    feed->texts_end = &text->next;
    feed->texts_bytes += sizeof(*text) + text->len;
    note_news_locked(feed);
    if (feed->texts_bytes > TEXTS_MAX_BYTES / 2) {
        feed->is_pressed = true;
        pthread_cond_broadcast(&feed->changed);
    }
    return true;
}

void search_feed_add_text(struct search_feed *feed, uint32_t email, const char *text, size_t len)
{
    struct text *added = feed == NULL ? NULL : malloc(sizeof(*added) + len + 1);
    if (added == NULL)
        return;
    *added = (struct text){.email = email, .len = len};
    memcpy(added->bytes, text, len);
    added->bytes[len] = '\0';
    pthread_mutex_lock(&feed->lock);
    bool is_taken = take_text_locked(feed, added);
    pthread_mutex_unlock(&feed->lock);
    if (!is_taken)
        free(added);
}

void search_feed_settle(struct search_feed *feed, int64_t timeout_ms, struct cancel *cancel)
{
    int64_t until_ms = now_ms() + timeout_ms;
    cancel_bind(cancel, &feed->changed, &feed->lock);
    pthread_mutex_lock(&feed->lock);
    uint64_t wanted = ++feed->rounds_wanted;
    pthread_cond_broadcast(&feed->changed);
    while (feed->rounds_done < wanted && feed->is_started && !cancel_is_set(cancel) && now_ms() < until_ms)
        clock_wait(clock_system(), &feed->changed, &feed->lock, until_ms);
    pthread_mutex_unlock(&feed->lock);
    cancel_unbind(cancel);
}

struct search_index *search_feed_index(struct search_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    struct search_index *index = feed->index;
    pthread_mutex_unlock(&feed->lock);
    return index;
}
