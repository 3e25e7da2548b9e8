/* SPDX-License-Identifier: MIT */
/*
 * Requests that may wait. Lock order: libfuse's of a request (held in interrupted()), the room's, that of a
 * request's cancel.
 */
#include "fs/waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fs/pending_signals.h"
#include "fs/reply.h"
#include "fs/session_state.h"

enum {
    WAITING_MAX_THREADS = 64,
    CLOSING_MAX_THREADS = 16,
    SIGNAL_INTERVAL_MS = 100,
};

struct waiting_request {
    struct worker_job job; /* first: the pool knows it by this */
    struct fs_session *session;
    fuse_req_t request;
    struct cancel cancel;
    pid_t pid;
    bool is_watched; /* protected by the room's lock: interrupted, by no more than a note */
    struct request_arguments arguments; /* strings and bytes stand behind this structure */
    request_function function;
    struct waiting_request *previous; /* protected by the room's lock, as is next */
    struct waiting_request *next;
    char texts[];
};

int waiting_room_init(struct waiting_room *room)
{
    *room = (struct waiting_room){.first = NULL};
    pthread_mutex_init(&room->lock, NULL);
    clock_condition_init(&room->left);
    int error = worker_pool_new("fs-waiting", WAITING_MAX_THREADS, &room->pool);
    return error != 0 ? error : worker_pool_new("fs-closing", CLOSING_MAX_THREADS, &room->closing_pool);
}

void waiting_room_close(struct waiting_room *room)
{
    pthread_mutex_lock(&room->lock);
    room->is_closing = true;
    for (struct waiting_request *waiting = room->first; waiting != NULL; waiting = waiting->next)
        cancel_set(&waiting->cancel);
    pthread_mutex_unlock(&room->lock);
}

void waiting_room_drain(struct waiting_room *room)
{
    worker_pool_free(TAKE_PTR(room->pool));
    worker_pool_free(TAKE_PTR(room->closing_pool));
}

void waiting_room_release(struct waiting_room *room)
{
    waiting_room_drain(room);
    pthread_cond_destroy(&room->left);
    pthread_mutex_destroy(&room->lock);
}

static void enter(struct waiting_room *room, struct waiting_request *waiting)
{
    pthread_mutex_lock(&room->lock);
    waiting->next = room->first;
    if (room->first != NULL)
        room->first->previous = waiting;
    room->first = waiting;
    bool is_closing = room->is_closing;
    pthread_mutex_unlock(&room->lock);
    if (is_closing)
        cancel_set(&waiting->cancel);
}

static void leave(struct waiting_room *room, struct waiting_request *waiting)
{
    pthread_mutex_lock(&room->lock);
    if (waiting->previous != NULL)
        waiting->previous->next = waiting->next;
    else
        room->first = waiting->next;
    if (waiting->next != NULL)
        waiting->next->previous = waiting->previous;
    pthread_cond_broadcast(&room->left);
    pthread_mutex_unlock(&room->lock);
}

static void answer(fuse_req_t request, const struct request_outcome *outcome)
{
    if (outcome->error != 0)
        reply_status(request, outcome->error);
    else if (outcome->has_entry)
        reply_entry(request, &outcome->entry);
    else if (outcome->has_attributes)
        reply_attributes(request, &outcome->attributes);
    else if (outcome->opened != NULL)
        reply_open(request, outcome->opened);
    else if (outcome->opened_dir != NULL)
        reply_open_dir(request, outcome->opened_dir);
    else if (outcome->target != NULL)
        fuse_reply_readlink(request, outcome->target);
    else if (outcome->has_count)
        fuse_reply_write(request, outcome->count);
    else if (outcome->has_offset)
        fuse_reply_lseek(request, outcome->offset);
    else
        reply_status(request, 0);
    free(outcome->target);
}

/* ---------------------------------------------------------------- interrupts */

struct signal_watch {
    struct worker_job job; /* first: the pool knows it by this */
    struct waiting_room *room;
};

/* Whether any request is left to look after. */
static bool look_for_signals_locked(struct waiting_room *room)
{
    bool is_any = false;
    for (struct waiting_request *waiting = room->first; waiting != NULL; waiting = waiting->next) {
        if (!waiting->is_watched)
            continue;
        if (pending_signals_only_tell(waiting->pid)) {
            is_any = true;
        } else {
            waiting->is_watched = false;
            cancel_set(&waiting->cancel);
        }
    }
    return is_any;
}

/* The kernel tells of one signal only: whether the user's Ctrl-C follows has to be looked for. */
static void watch_signals(struct worker_job *job)
{
    struct signal_watch *watch = (struct signal_watch *)job;
    struct waiting_room *room = watch->room;
    pthread_mutex_lock(&room->lock);
    while (look_for_signals_locked(room))
        clock_wait(clock_system(), &room->left, &room->lock,
                   clock_monotonic_ms(clock_system()) + SIGNAL_INTERVAL_MS);
    room->is_watching = false;
    pthread_mutex_unlock(&room->lock);
    free(watch);
}

static bool watch_locked(struct waiting_room *room, struct waiting_request *waiting)
{
    if (!room->is_watching) {
        struct signal_watch *watch = calloc(1, sizeof(*watch));
        if (watch == NULL)
            return false;
        *watch = (struct signal_watch){.job.run = watch_signals, .room = room};
        if (worker_pool_submit(room->closing_pool, &watch->job) != 0) {
            free(watch);
            return false;
        }
    }
    room->is_watching = true;
    waiting->is_watched = true;
    return true;
}

static void interrupted(fuse_req_t request, void *context)
{
    struct waiting_request *waiting = context;
    struct waiting_room *room = &waiting->session->waiting;
    (void)request;
    bool goes_on = pending_signals_only_tell(waiting->pid);
    if (goes_on) {
        pthread_mutex_lock(&room->lock);
        goes_on = !room->is_closing && watch_locked(room, waiting);
        pthread_mutex_unlock(&room->lock);
    }
    if (!goes_on)
        cancel_set(&waiting->cancel);
}

/* ---------------------------------------------------------------- carrying out */

static void free_waiting(struct waiting_request *waiting)
{
    cancel_release(&waiting->cancel);
    free(waiting);
}

static void run_waiting(struct worker_job *job)
{
    struct waiting_request *waiting = (struct waiting_request *)job;
    const struct tree_caller caller = {.pid = waiting->pid, .cancel = &waiting->cancel};
    struct request_outcome outcome = {.error = 0};

    fuse_req_interrupt_func(waiting->request, interrupted, waiting);
    waiting->function(waiting->session->tree, &caller, &waiting->arguments, &outcome);
    if (outcome.must_be_seen)
        notifier_wait(&waiting->session->notifier, &waiting->cancel);
    if (outcome.must_be_announced)
        announcer_wait(&waiting->session->announcer, &waiting->cancel);
    /* Waits until an interrupt that is being delivered has been: it looks at what is freed below. */
    fuse_req_interrupt_func(waiting->request, NULL, NULL);
    leave(&waiting->session->waiting, waiting);
    answer(waiting->request, &outcome);
    free_waiting(waiting);
}

/* Copies behind the structure what lives only as long as the request's buffer. */
static struct waiting_request *new_waiting(const struct request_arguments *arguments)
{
    size_t name_size = arguments->name != NULL ? strlen(arguments->name) + 1 : 0;
    size_t new_name_size = arguments->new_name != NULL ? strlen(arguments->new_name) + 1 : 0;
    size_t bytes_len = arguments->bytes != NULL ? arguments->len : 0;
    struct waiting_request *waiting = calloc(1, sizeof(*waiting) + name_size + new_name_size + bytes_len);
    if (waiting == NULL)
        return NULL;

    char *end = waiting->texts;
    waiting->arguments = *arguments;
    if (name_size > 0)
        waiting->arguments.name = memcpy(end, arguments->name, name_size);
    end += name_size;
    if (new_name_size > 0)
        waiting->arguments.new_name = memcpy(end, arguments->new_name, new_name_size);
    end += new_name_size;
    if (bytes_len > 0)
        waiting->arguments.bytes = memcpy(end, arguments->bytes, bytes_len);
    cancel_init(&waiting->cancel);
    return waiting;
}

static bool submit(fuse_req_t request, struct worker_pool *pool, const struct request_arguments *arguments,
                   request_function function)
{
    struct fs_session *session = session_of(request);
    struct waiting_request *waiting = new_waiting(arguments);
    if (waiting == NULL)
        return false;
    waiting->job.run = run_waiting;
    waiting->session = session;
    waiting->request = request;
    waiting->pid = fuse_req_ctx(request)->pid;
    waiting->function = function;
    enter(&session->waiting, waiting);
    if (worker_pool_submit(pool, &waiting->job) == 0)
        return true;
    leave(&session->waiting, waiting);
    free_waiting(waiting);
    return false;
}

/* Without memory or threads it is carried out here all the same: it must not get lost (a release), and other
 * threads still answer. With -s there is no other: the notifier is not waited for. */
static void run_here(fuse_req_t request, const struct request_arguments *arguments, request_function function)
{
    const struct tree_caller caller = {.pid = fuse_req_ctx(request)->pid};
    struct request_outcome outcome = {.error = 0};
    function(session_of(request)->tree, &caller, arguments, &outcome);
    answer(request, &outcome);
}

void request_run(fuse_req_t request, bool may_wait, const struct request_arguments *arguments,
                 request_function function)
{
    if (!may_wait || !submit(request, session_of(request)->waiting.pool, arguments, function))
        run_here(request, arguments, function);
}

void request_run_closing(fuse_req_t request, bool may_wait, const struct request_arguments *arguments,
                         request_function function)
{
    if (!may_wait || !submit(request, session_of(request)->waiting.closing_pool, arguments, function))
        run_here(request, arguments, function);
}
