/* SPDX-License-Identifier: MIT */
/*
 * Runs of reading. Several readers at a time each have their own, told apart by where they are.
 */
#include "store/content_ahead.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

enum {
    STRIDE_MAX = 8,       /* places that a reader may pass over, for what is gone or was read before */
    DOUBTS_MAX = 8,       /* emails read against the direction before it is another one */
    LEN_TO_BEGIN = 2,     /* emails read before any is fetched ahead */
    EMAILS_PER_STEP = 10, /* further ahead for each email of the run */
};

struct ahead_job {
    struct worker_job job; /* first: the pool knows it by this */
    struct content_ahead *ahead;
    uint32_t email;
    content_parts parts;
};

int content_ahead_init(struct content_ahead *ahead, struct mirror *mirror,
                       void (*fetch)(void *context, uint32_t email, content_parts parts), void *context)
{
    *ahead = (struct content_ahead){.mirror = mirror, .fetch = fetch, .context = context};
    pthread_mutex_init(&ahead->lock, NULL);
    return worker_pool_new("content-ahead", AHEAD_AT_ONCE, &ahead->pool);
}

void content_ahead_stop(struct content_ahead *ahead)
{
    pthread_mutex_lock(&ahead->lock);
    ahead->is_stopping = true;
    struct worker_pool *pool = TAKE_PTR(ahead->pool);
    pthread_mutex_unlock(&ahead->lock);
    worker_pool_free(pool);
}

void content_ahead_release(struct content_ahead *ahead)
{
    content_ahead_stop(ahead);
    pthread_mutex_destroy(&ahead->lock);
}

/* ---------------------------------------------------------------- fetching */

static void fetch(struct worker_job *job)
{
    struct ahead_job *ahead_job = (struct ahead_job *)job;
    struct content_ahead *ahead = ahead_job->ahead;
    pthread_mutex_lock(&ahead->lock);
    bool goes_on = !ahead->is_stopping;
    pthread_mutex_unlock(&ahead->lock);
    if (goes_on)
        ahead->fetch(ahead->context, ahead_job->email, ahead_job->parts);
    pthread_mutex_lock(&ahead->lock);
    ahead->queued--;
    pthread_mutex_unlock(&ahead->lock);
    free(ahead_job);
}

/* False: no more for now. */
static bool submit_locked(struct content_ahead *ahead, uint32_t email, content_parts parts)
{
    if (ahead->queued >= AHEAD_QUEUE_MAX || ahead->is_stopping)
        return false;
    struct ahead_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return false;
    *job = (struct ahead_job){.job.run = fetch, .ahead = ahead, .email = email, .parts = parts};
    if (worker_pool_submit(ahead->pool, &job->job) != 0) {
        free(job);
        return false;
    }
    ahead->queued++;
    return true;
}

void content_ahead_fetch(struct content_ahead *ahead, uint32_t email, content_parts parts)
{
    pthread_mutex_lock(&ahead->lock);
    submit_locked(ahead, email, parts);
    pthread_mutex_unlock(&ahead->lock);
}

/* ---------------------------------------------------------------- runs */

static size_t distance(size_t one, size_t other)
{
    return one > other ? one - other : other - one;
}

/* The run that this place continues, or the one that was idle longest, begun anew. */
static struct reading_run *find_run_locked(struct content_ahead *ahead, uint32_t inbox, size_t place)
{
    struct reading_run *oldest = &ahead->runs[0];
    for (size_t i = 0; i < AHEAD_RUNS_MAX; i++) {
        struct reading_run *run = &ahead->runs[i];
        if (run->is_used && run->inbox == inbox && distance(run->place, place) <= STRIDE_MAX)
            return run;
        if (run->used < oldest->used)
            oldest = run;
    }
    *oldest = (struct reading_run){.is_used = true, .inbox = inbox, .place = place, .ahead = place};
    return oldest;
}

static void move_locked(struct reading_run *run, size_t place)
{
    if (place == run->place)
        return;
    int step = place > run->place ? 1 : -1;
    if (step == run->step) {
        run->len++;
        run->place = place;
        run->doubts = 0;
        return;
    }
    /* Several processes that read side by side now and then overtake each other. */
    if (run->len >= LEN_TO_BEGIN && ++run->doubts < DOUBTS_MAX)
        return;
    run->step = step;
    run->len = 1;
    run->place = place;
    run->ahead = place;
    run->doubts = 0;
}

/* How many places there are from `from` to `to`, along the run. */
static size_t places_between(const struct reading_run *run, size_t from, size_t to)
{
    bool is_ahead = run->step > 0 ? to >= from : to <= from;
    return is_ahead ? distance(from, to) : 0;
}

/* The places of a run that are to be fetched now, in `places`: how many. */
static size_t plan_locked(struct content_ahead *ahead, struct reading_run *run, size_t *ret_first)
{
    size_t reach = (size_t)run->len * EMAILS_PER_STEP;
    if (run->len < LEN_TO_BEGIN || ahead->queued >= AHEAD_MAX_EMAILS)
        return 0;
    if (reach > AHEAD_MAX_EMAILS)
        reach = AHEAD_MAX_EMAILS;
    size_t next = run->place + (size_t)run->step;
    size_t done = places_between(run, next, run->ahead);
    if (done == 0)
        run->ahead = next;
    *ret_first = run->ahead;
    return reach > done ? reach - done : 0;
}

static void fetch_ahead_locked(struct content_ahead *ahead, struct reading_run *run)
{
    uint32_t emails[AHEAD_MAX_EMAILS];
    size_t first;
    size_t places = plan_locked(ahead, run, &first);
    size_t room = AHEAD_MAX_EMAILS - ahead->queued;
    if (places > room)
        places = room;
    if (places == 0)
        return;
    size_t len = mirror_list_places(ahead->mirror, run->inbox, first, run->step, emails, places);
    for (size_t i = 0; i < len; i++)
        if (!submit_locked(ahead, emails[i], run->parts))
            return;
    /* Not beyond the start of the list, where places would wrap round. */
    run->ahead = run->step < 0 && first < places ? 0 : first + places * (size_t)run->step;
}

void content_ahead_note(struct content_ahead *ahead, uint32_t email, enum content_part part)
{
    uint32_t inbox;
    size_t place;
    if (!mirror_find_place(ahead->mirror, email, &inbox, &place))
        return;
    pthread_mutex_lock(&ahead->lock);
    struct reading_run *run = find_run_locked(ahead, inbox, place);
    bool is_more = (run->parts & (1U << part)) == 0;
    run->used = ++ahead->uses;
    run->parts |= 1U << part;
    move_locked(run, place);
    /* What was fetched without that is looked at again. */
    if (is_more)
        run->ahead = place;
    fetch_ahead_locked(ahead, run);
    pthread_mutex_unlock(&ahead->lock);
}
