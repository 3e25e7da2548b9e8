/* SPDX-License-Identifier: MIT */
/*
 * Transfers. Each is a job of the pool; those who want what it brings count themselves in, and wait for its
 * end.
 */
#include "store/content_fetcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/content_file.h"
#include "store/result_errno.h"

enum {
    ATTEMPTS_MAX = 3,          /* where the service says "later" */
    LATER_MS = 500,            /* unless it says when, */
    LATER_MAX_MS = 10 * 1000,  /* and if that is not too far away */
    UNREACHABLE_MS = 2 * 1000, /* who asks within this time is told the same */
    REST_MS = 5 * 1000,        /* without fetching ahead, for a service that has too much to do */
    REST_MAX_MS = 5 * 60 * 1000,
    TOO_MANY_REQUESTS = 429,
    UNAVAILABLE = 503,
};

struct content_flight {
    struct worker_job job; /* first: the pool knows it by this */
    struct content_fetcher *fetcher;
    char name[CONTENT_NAME_SIZE];
    enum content_part part;
    char *email_id;
    char *attachment_id; /* or NULL */
    bool is_known_to_exist;
    bool must_ask;
    bool is_ahead;           /* of readers: within a bound */
    pthread_cond_t done;     /* of its own: hundreds of readers may wait for other things */
    unsigned int references; /* protected by the fetcher's lock: the job, and who waits */
    bool is_done;            /* protected by the fetcher's lock */
    int error;               /* when done */
    int fd;                  /* when done without an error */
};

int content_fetcher_init(struct content_fetcher *fetcher, struct mail_service *service, struct clock *clock,
                         struct content_cache *cache, struct contact *contact)
{
    *fetcher =
        (struct content_fetcher){.service = service, .clock = clock, .cache = cache, .contact = contact};
    cancel_init(&fetcher->cancel);
    pthread_mutex_init(&fetcher->lock, NULL);
    clock_condition_init(&fetcher->changed);
    return worker_pool_new("content", CONTENT_TRANSFERS_MAX, &fetcher->pool);
}

void content_fetcher_stop(struct content_fetcher *fetcher)
{
    pthread_mutex_lock(&fetcher->lock);
    fetcher->is_stopping = true;
    pthread_cond_broadcast(&fetcher->changed);
    const struct content_flight *flight;
    for (size_t position = 0; (flight = map_next(&fetcher->flights, &position)) != NULL;)
        pthread_cond_broadcast((pthread_cond_t *)&flight->done);
    pthread_mutex_unlock(&fetcher->lock);
    cancel_set(&fetcher->cancel);
    worker_pool_free(TAKE_PTR(fetcher->pool));
}

void content_fetcher_release(struct content_fetcher *fetcher)
{
    worker_pool_free(TAKE_PTR(fetcher->pool));
    map_release(&fetcher->flights);
    cancel_release(&fetcher->cancel);
    pthread_cond_destroy(&fetcher->changed);
    pthread_mutex_destroy(&fetcher->lock);
}

/* ---------------------------------------------------------------- one transfer */

static int write_folder(const struct email_content *content, int fd)
{
    struct content_folder folder;
    int error = content_folder_from_content(content, &folder);
    if (error != 0)
        return error;
    error = content_file_write(fd, &folder);
    content_folder_release(&folder);
    return error;
}

/* Asks once; the error of the disk, or 0. */
static int ask(const struct content_flight *flight, int fd, struct service_result *ret)
{
    struct content_fetcher *fetcher = flight->fetcher;
    struct mail_service *service = fetcher->service;
    const struct content_query query = {.email_id = flight->email_id,
                                        .is_known_to_exist = flight->is_known_to_exist,
                                        .max_bytes = flight->is_ahead ? CONTENT_AHEAD_MAX_BYTES : 0};
    const struct content_target target = {.fd = fd, .max_bytes = CONTENT_FILE_MAX_BYTES};
    uint64_t len = 0;
    if (flight->part == CONTENT_PART_FOLDER) {
        _cleanup_email_content_ struct email_content content = {0};
        service->ops->get_content(service, &query, &fetcher->cancel, &content, ret);
        return ret->outcome == SERVICE_OK ? write_folder(&content, fd) : 0;
    }
    if (flight->part == CONTENT_PART_RAW)
        service->ops->get_raw(service, &query, &target, &fetcher->cancel, &len, ret);
    else
        service->ops->get_attachment(service, &query, flight->attachment_id, &target, &fetcher->cancel, &len,
                                     ret);
    return ret->outcome == SERVICE_OK ? content_file_seal(fd, len) : 0;
}

static void wait_ms(struct content_fetcher *fetcher, int64_t delay_ms)
{
    int64_t until_ms = clock_monotonic_ms(fetcher->clock) + delay_ms;
    pthread_mutex_lock(&fetcher->lock);
    while (!fetcher->is_stopping && clock_monotonic_ms(fetcher->clock) < until_ms)
        clock_wait(fetcher->clock, &fetcher->changed, &fetcher->lock, until_ms);
    pthread_mutex_unlock(&fetcher->lock);
}

static bool is_busy(const struct service_result *result)
{
    return result->outcome == SERVICE_RETRY &&
           (result->http_status == TOO_MANY_REQUESTS || result->http_status == UNAVAILABLE);
}

/* How long to wait before asking again; -1: that is of no use. */
static int64_t delay_of(const struct service_result *result)
{
    if (!is_busy(result) || result->retry_after_ms > LATER_MAX_MS)
        return -1;
    return result->retry_after_ms >= 0 ? result->retry_after_ms : LATER_MS;
}

static void note_reachable(struct content_fetcher *fetcher, const struct service_result *result)
{
    contact_note(fetcher->contact, result);
    bool is_unreachable = result->outcome == SERVICE_RETRY && result->error == EHOSTUNREACH;
    int64_t now_ms = clock_monotonic_ms(fetcher->clock);
    int64_t rest_ms = result->retry_after_ms > REST_MS ? result->retry_after_ms : REST_MS;
    if (rest_ms > REST_MAX_MS)
        rest_ms = REST_MAX_MS;
    pthread_mutex_lock(&fetcher->lock);
    fetcher->unreachable_until_ms = is_unreachable ? now_ms + UNREACHABLE_MS : 0;
    if (is_busy(result))
        fetcher->busy_until_ms = now_ms + rest_ms;
    pthread_mutex_unlock(&fetcher->lock);
}

static int transfer(const struct content_flight *flight, int fd)
{
    for (int attempt = 1;; attempt++) {
        struct service_result result;
        if (ftruncate(fd, 0) != 0)
            return -errno;
        int error = ask(flight, fd, &result);
        note_reachable(flight->fetcher, &result);
        int64_t delay_ms = delay_of(&result);
        if (error == 0)
            error = result_errno_of_content(&result);
        service_result_release(&result);
        if (error == 0 || delay_ms < 0 || attempt == ATTEMPTS_MAX)
            return error;
        wait_ms(flight->fetcher, delay_ms);
    }
}

static int bring(const struct content_flight *flight, int *ret_fd)
{
    struct content_cache *cache = flight->fetcher->cache;
    struct content_temporary temporary;
    /* It may have come between a look into the cache and this. */
    int fd = flight->must_ask ? -ENOENT : content_cache_open(cache, flight->name);
    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    int error = content_cache_create(cache, &temporary);
    if (error != 0)
        return error;
    error = transfer(flight, temporary.fd);
    if (error == 0)
        error = content_cache_keep(cache, &temporary, flight->name);
    if (error == 0)
        *ret_fd = TAKE_FD(temporary.fd);
    content_cache_end(cache, &temporary);
    return error;
}

/* ---------------------------------------------------------------- flights */

static void unref_locked(struct content_flight *flight)
{
    if (--flight->references > 0)
        return;
    cleanup_close(&flight->fd);
    pthread_cond_destroy(&flight->done);
    free(flight->email_id);
    free(flight->attachment_id);
    free(flight);
}

static void fly(struct worker_job *job)
{
    struct content_flight *flight = (struct content_flight *)job;
    struct content_fetcher *fetcher = flight->fetcher;
    int fd = -1;
    int error = bring(flight, &fd);
    pthread_mutex_lock(&fetcher->lock);
    flight->is_done = true;
    flight->error = error;
    flight->fd = fd;
    map_remove(&fetcher->flights, flight->name);
    pthread_cond_broadcast(&flight->done);
    unref_locked(flight);
    pthread_mutex_unlock(&fetcher->lock);
}

static char *copy_text(const char *text)
{
    return text == NULL ? NULL : strdup(text);
}

static struct content_flight *new_flight(struct content_fetcher *fetcher, const struct content_wish *wish,
                                         const char *name)
{
    struct content_flight *flight = calloc(1, sizeof(*flight));
    if (flight == NULL)
        return NULL;
    *flight = (struct content_flight){
        .job.run = fly,
        .fetcher = fetcher,
        .part = wish->part,
        .email_id = strdup(wish->email_id),
        .attachment_id = copy_text(wish->attachment_id),
        .is_known_to_exist = wish->is_known_to_exist,
        .must_ask = wish->must_ask,
        .references = 1,
        .fd = -1,
    };
    clock_condition_init(&flight->done);
    memcpy(flight->name, name, sizeof(flight->name));
    if (flight->email_id == NULL || (wish->attachment_id != NULL && flight->attachment_id == NULL)) {
        unref_locked(flight);
        return NULL;
    }
    return flight;
}

/* The flight of this wish, with a reference more; *ret_is_new: it has yet to start. */
static int join_locked(struct content_fetcher *fetcher, const struct content_wish *wish,
                       struct content_flight **ret_flight, bool *ret_is_new)
{
    char name[CONTENT_NAME_SIZE];
    content_cache_name(wish->part, wish->email_id, wish->attachment_id, name);
    struct content_flight *flight = map_find(&fetcher->flights, name);
    *ret_is_new = flight == NULL;
    if (fetcher->is_stopping)
        return -EINTR;
    if (flight == NULL) {
        if (clock_monotonic_ms(fetcher->clock) < fetcher->unreachable_until_ms)
            return -EHOSTUNREACH;
        flight = new_flight(fetcher, wish, name);
        if (flight == NULL)
            return -ENOMEM;
        if (map_set(&fetcher->flights, flight->name, flight) != 0) {
            unref_locked(flight);
            return -ENOMEM;
        }
    }
    flight->references++;
    *ret_flight = flight;
    return 0;
}

static int start_locked(struct content_flight *flight)
{
    struct content_fetcher *fetcher = flight->fetcher;
    int error = worker_pool_submit(fetcher->pool, &flight->job);
    if (error != 0) {
        map_remove(&fetcher->flights, flight->name);
        unref_locked(flight);
    }
    return error;
}

static int wait_locked(struct content_flight *flight, int64_t until_ms, struct cancel *cancel, int *ret_fd)
{
    struct content_fetcher *fetcher = flight->fetcher;
    while (!flight->is_done && !fetcher->is_stopping && !cancel_is_set(cancel) &&
           clock_monotonic_ms(fetcher->clock) < until_ms)
        clock_wait(fetcher->clock, &flight->done, &fetcher->lock, until_ms);
    if (flight->is_done && flight->error != 0)
        return flight->error;
    if (!flight->is_done)
        return fetcher->is_stopping || cancel_is_set(cancel) ? -EINTR : -ETIMEDOUT;
    int fd = fcntl(flight->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

/* Gives a reference back, with the lock not held. What nobody waits for any more and has not begun need not
 * begin: else those who lose patience with a slow service leave behind a queue that grows and grows. */
static void leave(struct content_flight *flight)
{
    struct content_fetcher *fetcher = flight->fetcher;
    pthread_mutex_lock(&fetcher->lock);
    bool is_last = flight->references == 2 && !flight->is_done && !fetcher->is_stopping;
    if (is_last && worker_pool_withdraw(fetcher->pool, &flight->job)) {
        map_remove(&fetcher->flights, flight->name);
        unref_locked(flight);
    }
    unref_locked(flight);
    pthread_mutex_unlock(&fetcher->lock);
}

/* *ret_is_ahead: what it says is of a flight that was ahead of readers. */
static int fetch_once(struct content_fetcher *fetcher, const struct content_wish *wish, int64_t until_ms,
                      struct cancel *cancel, int *ret_fd, bool *ret_is_ahead)
{
    struct content_flight *flight = NULL;
    bool is_new;
    *ret_is_ahead = false;
    pthread_mutex_lock(&fetcher->lock);
    int error = join_locked(fetcher, wish, &flight, &is_new);
    if (error == 0 && is_new && (error = start_locked(flight)) != 0)
        unref_locked(flight);
    pthread_mutex_unlock(&fetcher->lock);
    if (error != 0)
        return error;

    cancel_bind(cancel, &flight->done, &fetcher->lock);
    pthread_mutex_lock(&fetcher->lock);
    error = wait_locked(flight, until_ms, cancel, ret_fd);
    pthread_mutex_unlock(&fetcher->lock);
    cancel_unbind(cancel);
    *ret_is_ahead = flight->is_ahead;
    leave(flight);
    return error;
}

int content_fetch(struct content_fetcher *fetcher, const struct content_wish *wish, int64_t timeout_ms,
                  struct cancel *cancel, int *ret_fd)
{
    int64_t until_ms = clock_monotonic_ms(fetcher->clock) + timeout_ms;
    bool is_ahead;
    int error;
    do /* what is too big to be fetched ahead is not too big for a reader */
        error = fetch_once(fetcher, wish, until_ms, cancel, ret_fd, &is_ahead);
    while (error == -EFBIG && is_ahead);
    return error;
}

int content_fetch_here(struct content_fetcher *fetcher, const struct content_wish *wish, int *ret_fd)
{
    struct content_flight *flight = NULL;
    bool is_new;
    pthread_mutex_lock(&fetcher->lock);
    bool is_resting = clock_monotonic_ms(fetcher->clock) < fetcher->busy_until_ms;
    int error = is_resting ? -EAGAIN : join_locked(fetcher, wish, &flight, &is_new);
    if (error == 0 && is_new)
        flight->is_ahead = true;
    pthread_mutex_unlock(&fetcher->lock);
    if (error != 0)
        return error;
    if (is_new)
        fly(&flight->job);
    pthread_mutex_lock(&fetcher->lock);
    error = wait_locked(flight, CLOCK_FOREVER, NULL, ret_fd);
    pthread_mutex_unlock(&fetcher->lock);
    leave(flight);
    return error;
}
