/* SPDX-License-Identifier: MIT */
/*
 * The request loop: reading the device, the slots, and the threads. Waking a thread costs more than most
 * requests do, so after an answer the leader looks for the next request for some microseconds before it
 * sleeps.
 */
#include "fs/request_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "fs/request.h"
#include "tree/tree.h"

enum {
    BUFFER_BYTES = REQUEST_LOOP_MAX_WRITE + 4096,
    SPIN_NS = 50 * 1000,
    LAST_REQUESTS_MAX = 1000,
};

struct request_thread {
    struct request_loop *loop;
    bool leads; /* reads the device */
    _Alignas(struct fuse_in_header) char message[BUFFER_BYTES];
};

/* The message of the kernel that interrupts a request. */
struct interrupt_message {
    struct fuse_in_header header;
    struct fuse_interrupt_in body;
};

/* The message of a request that waits for a slot. */
struct set_aside {
    struct set_aside *next;
    bool is_interrupted;
    struct interrupt_message interrupt; /* where it is: not handed to libfuse yet */
    size_t len;
    char message[];
};

/* ---------------------------------------------------------------- slots */

static const struct fuse_in_header *header_of(const void *message)
{
    return message;
}

static void carry_out(const struct request_loop *loop, char *message, size_t len)
{
    const struct fuse_buf buffer = {.mem = message, .size = len};
    fuse_session_process_buf(loop->fuse, &buffer);
}

/* A request that needs a slot and takes none only makes another one wait; so this decides by what is quickly
 * known. */
static bool needs_slot(const struct fuse_in_header *header)
{
    const void *arguments = header + 1;
    switch (header->opcode) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
    case FUSE_READ:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_STATFS:
        return false;
    case FUSE_RENAME:
        return tree_waits_for_service(header->nodeid, false) ||
               tree_waits_for_service(((const struct fuse_rename_in *)arguments)->newdir, false);
    case FUSE_RENAME2:
        return tree_waits_for_service(header->nodeid, false) ||
               tree_waits_for_service(((const struct fuse_rename2_in *)arguments)->newdir, false);
    default:
        return tree_waits_for_service(header->nodeid, header->opcode == FUSE_FLUSH);
    }
}

/* Whether the leader carries it out itself. */
static bool is_answered_at_once(const char *message, size_t len)
{
    if (len < sizeof(struct fuse_in_header))
        return false;
    switch (header_of(message)->opcode) {
    case FUSE_INIT:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        return true;
    case FUSE_LOOKUP:
    case FUSE_GETATTR:
    case FUSE_OPEN:
    case FUSE_READ:
    case FUSE_RELEASE:
    case FUSE_OPENDIR:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
    case FUSE_RELEASEDIR:
        return tree_answers_at_once(header_of(message)->nodeid);
    default:
        return false;
    }
}

/* All are taken, or all threads but this one have one. Somebody has one, so that what is set aside is found.
 */
static bool must_wait_for_slot_locked(const struct request_loop *loop)
{
    return loop->slots_taken > 0 &&
           (loop->slots_taken >= REQUEST_LOOP_SLOTS || loop->slots_taken + 1 >= loop->threads);
}

/* False: there is no memory for it. */
static bool set_aside_locked(struct request_loop *loop, const char *message, size_t len)
{
    struct set_aside *aside = malloc(sizeof(*aside) + len);
    if (aside == NULL)
        return false;
    *aside = (struct set_aside){.len = len};
    memcpy(aside->message, message, len);
    *loop->aside_end = aside;
    loop->aside_end = &aside->next;
    return true;
}

static struct set_aside *unlink_locked(struct request_loop *loop, struct set_aside **link)
{
    struct set_aside *aside = *link;
    *link = aside->next;
    if (loop->aside_end == &aside->next)
        loop->aside_end = link;
    return aside;
}

/* The request in whose favour a slot is given up; NULL: nobody wants it. */
static struct set_aside *give_up_slot(struct request_loop *loop)
{
    struct set_aside *next = NULL;
    pthread_mutex_lock(&loop->lock);
    if (loop->first_aside != NULL)
        next = unlink_locked(loop, &loop->first_aside);
    else
        loop->slots_taken--;
    pthread_mutex_unlock(&loop->lock);
    return next;
}

/* libfuse remembers an interrupt of a request that it has not seen, and so request_begin() learns of it. */
static void carry_out_aside(const struct request_loop *loop, struct set_aside *aside)
{
    if (aside->is_interrupted)
        carry_out(loop, (char *)&aside->interrupt, sizeof(aside->interrupt));
    carry_out(loop, aside->message, aside->len);
    free(aside);
}

static void carry_out_without_slot(struct request_loop *loop, char *message, size_t len)
{
    carry_out(loop, message, len);
    pthread_mutex_lock(&loop->lock);
    loop->without_slot--;
    pthread_mutex_unlock(&loop->lock);
}

/* The kernel gives no number twice. */
static bool was_interrupted_locked(const struct request_loop *loop, uint64_t unique)
{
    for (size_t i = 0; i < ARRAY_LEN(loop->early); i++)
        if (loop->early[i] == unique)
            return true;
    return false;
}

/* Before it is set aside, a request is looked up among the early interrupts, and an interrupt becomes an
 * early one where nothing is set aside: both with the lock held, so one of them sees the other. */
static void carry_out_in_slot(struct request_loop *loop, char *message, size_t len)
{
    pthread_mutex_lock(&loop->lock);
    bool must_wait = must_wait_for_slot_locked(loop);
    bool is_early = must_wait && loop->without_slot < REQUEST_LOOP_WITHOUT_SLOT_MAX &&
                    was_interrupted_locked(loop, header_of(message)->unique);
    bool is_set_aside = must_wait && !is_early && set_aside_locked(loop, message, len);
    if (is_early)
        loop->without_slot++;
    else if (!is_set_aside)
        loop->slots_taken++;
    pthread_mutex_unlock(&loop->lock);
    if (is_set_aside)
        return;
    if (is_early) {
        carry_out_without_slot(loop, message, len);
        return;
    }
    carry_out(loop, message, len);
    struct set_aside *aside;
    while ((aside = give_up_slot(loop)) != NULL)
        carry_out_aside(loop, aside);
}

/* Where the request of this number is set aside, or NULL. */
static struct set_aside **find_aside_locked(struct request_loop *loop, uint64_t unique)
{
    struct set_aside **link = &loop->first_aside;
    while (*link != NULL && header_of((*link)->message)->unique != unique)
        link = &(*link)->next;
    return *link == NULL ? NULL : link;
}

/* Takes out the request that is interrupted, to be carried out without a slot. NULL: it is not set aside; or
 * (*ret_is_kept) it stays so, because the signal only informs and as many as may wait on without a slot. */
static struct set_aside *interrupt_aside(struct request_loop *loop, const struct interrupt_message *interrupt,
                                         bool only_informs, bool *ret_is_kept)
{
    struct set_aside *aside = NULL;
    pthread_mutex_lock(&loop->lock);
    struct set_aside **link = find_aside_locked(loop, interrupt->body.unique);
    *ret_is_kept = link != NULL && only_informs && loop->without_slot >= REQUEST_LOOP_WITHOUT_SLOT_MAX;
    if (link != NULL) {
        (*link)->interrupt = *interrupt;
        (*link)->is_interrupted = true;
    }
    if (link == NULL)
        loop->early[loop->earlies++ % REQUEST_LOOP_EARLY_MAX] = interrupt->body.unique;
    if (link != NULL && !*ret_is_kept) {
        aside = unlink_locked(loop, link);
        loop->without_slot++;
    }
    pthread_mutex_unlock(&loop->lock);
    return aside;
}

static pid_t find_task_aside(struct request_loop *loop, uint64_t unique)
{
    pthread_mutex_lock(&loop->lock);
    struct set_aside **link = find_aside_locked(loop, unique);
    pid_t task = link == NULL ? 0 : (pid_t)header_of((*link)->message)->pid;
    pthread_mutex_unlock(&loop->lock);
    return task;
}

static void carry_out_interrupt(struct request_loop *loop, struct interrupt_message *interrupt)
{
    bool is_kept;
    pid_t task = find_task_aside(loop, interrupt->body.unique);
    bool only_informs = task > 0 && request_signals_only_inform(task);
    struct set_aside *aside = interrupt_aside(loop, interrupt, only_informs, &is_kept);
    if (is_kept)
        return;
    if (aside == NULL) {
        carry_out(loop, (char *)interrupt, sizeof(*interrupt));
        return;
    }
    carry_out_aside(loop, aside);
    pthread_mutex_lock(&loop->lock);
    loop->without_slot--;
    pthread_mutex_unlock(&loop->lock);
}

static void take_message(struct request_loop *loop, char *message, size_t len)
{
    bool has_header = len >= sizeof(struct fuse_in_header);
    if (has_header && header_of(message)->opcode == FUSE_INTERRUPT && len >= sizeof(struct interrupt_message))
        carry_out_interrupt(loop, (struct interrupt_message *)(void *)message);
    else if (has_header && needs_slot(header_of(message)))
        carry_out_in_slot(loop, message, len);
    else
        carry_out(loop, message, len);
}

/* ---------------------------------------------------------------- reading */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Receives a message without waiting: its length, 0 (none is there, or the request was interrupted before it
 * was read), or -errno: the mount has ended. Not by libfuse, which prints an error where a mount ends in the
 * middle. */
static ssize_t receive(struct request_thread *thread)
{
    ssize_t len = read(fuse_session_fd(thread->loop->fuse), thread->message, sizeof(thread->message));
    if (len < 0)
        return errno == EINTR || errno == EAGAIN || errno == ENOENT ? 0 : -errno;
    return len > 0 ? len : -ENODEV;
}

/* The same, for some time. Work that is there goes before work that may come, so others are let run between
 * two attempts. */
static ssize_t receive_soon(struct request_thread *thread)
{
    const struct request_loop *loop = thread->loop;
    ssize_t len = receive(thread);
    int64_t until_ns = len == 0 && loop->may_spin ? now_ns() + SPIN_NS : 0;
    while (len == 0 && !loop->is_ending && now_ns() < until_ns) {
        sched_yield();
        len = receive(thread);
    }
    return len;
}

/* The next message: its length; 0: the threads are to end; -errno: the mount has ended. */
static ssize_t await_message(struct request_thread *thread)
{
    const struct request_loop *loop = thread->loop;
    struct pollfd events[] = {{.fd = fuse_session_fd(loop->fuse), .events = POLLIN},
                              {.fd = loop->end_fd, .events = POLLIN}};
    ssize_t len = 0;
    while (!loop->is_ending && (len = receive_soon(thread)) == 0)
        if (poll(events, ARRAY_LEN(events), -1) < 0 && errno != EINTR)
            return -errno;
    return len;
}

/* ---------------------------------------------------------------- threads */

static void *run_thread(void *argument);

/* The loop may be released from now on. */
static void leave(struct request_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->threads--;
    pthread_cond_broadcast(&loop->thread_ended);
    pthread_mutex_unlock(&loop->lock);
}

static int start_thread(struct request_loop *loop)
{
    pthread_t id;
    struct request_thread *thread = malloc(sizeof(*thread));
    if (thread == NULL)
        return -ENOMEM;
    thread->loop = loop;
    thread->leads = false;
    int error = thread_start(&id, "fs-request", run_thread, thread);
    if (error == 0)
        pthread_detach(id);
    else
        free(thread);
    return error;
}

/* One more thread. 0, -EAGAIN: there are as many as there may be, or another -errno. */
static int add_thread(struct request_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool may_start = loop->threads < REQUEST_LOOP_THREADS_MAX;
    if (may_start)
        loop->threads++;
    pthread_mutex_unlock(&loop->lock);
    int error = may_start ? start_thread(loop) : -EAGAIN;
    if (may_start && error != 0)
        leave(loop);
    return error;
}

/* Before it sleeps it waits for a moment, too: of requests that are quickly carried out one follows another.
 */
static void await_call(struct request_loop *loop)
{
    int64_t until_ns = loop->may_spin ? now_ns() + SPIN_NS : 0;
    bool is_called = false;
    while (!(is_called = sem_trywait(&loop->called) == 0) && now_ns() < until_ns)
        sched_yield();
    while (!is_called)
        is_called = sem_wait(&loop->called) == 0;
}

/* Waits until this thread is to lead. False: it is one too many. */
static bool lead(struct request_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool is_first = !loop->is_led;
    bool waits = !is_first && loop->waiting < REQUEST_LOOP_WAITING_MAX;
    loop->is_led = true;
    if (waits)
        loop->waiting++;
    pthread_mutex_unlock(&loop->lock);
    if (waits)
        await_call(loop);
    return is_first || waits;
}

/* The leader leads no more. False: nobody waits to do it. */
static bool call_next(struct request_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool is_called = loop->waiting > 0;
    if (is_called)
        loop->waiting--;
    else
        loop->is_led = false;
    pthread_mutex_unlock(&loop->lock);
    if (is_called)
        sem_post(&loop->called);
    return is_called;
}

static void end_all_threads(const struct request_loop *loop)
{
    uint64_t one = 1;
    if (write(loop->end_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
        log_error("cannot end the request loop: eventfd");
}

static void report_end(struct request_loop *loop)
{
    fuse_session_exit(loop->fuse);
    end_all_threads(loop);
    if (!loop->is_end_expected && !atomic_flag_test_and_set(&loop->is_end_reported))
        loop->ended(loop->context);
}

/* Another thread leads from now on; where there is none and none can be started, requests wait in the kernel
 * until this one is done. */
static void hand_lead_on(void *context)
{
    struct request_thread *thread = context;
    if (!thread->leads)
        return;
    thread->leads = false;
    if (!call_next(thread->loop))
        (void)add_thread(thread->loop);
}

/* Leads: reads messages and carries them out, until one may wait, or does. The result is that of
 * await_message(); where it is not above 0, this thread leads still. */
static ssize_t take_messages(struct request_thread *thread)
{
    ssize_t len = 0;
    thread->leads = true;
    while (thread->leads && (len = await_message(thread)) > 0) {
        if (is_answered_at_once(thread->message, (size_t)len)) {
            carry_out(thread->loop, thread->message, (size_t)len);
        } else {
            hand_lead_on(thread);
            take_message(thread->loop, thread->message, (size_t)len);
        }
    }
    return len;
}

/* What the kernel has handed out already may be the last close of a message. */
static void take_last_messages(struct request_thread *thread)
{
    ssize_t len;
    for (int i = 0; i < LAST_REQUESTS_MAX && (len = receive(thread)) > 0; i++)
        take_message(thread->loop, thread->message, (size_t)len);
}

static void *run_thread(void *argument)
{
    struct request_thread *thread = argument;
    struct request_loop *loop = thread->loop;
    ssize_t len = 1;
    thread_set_before_wait(hand_lead_on, thread);
    while (len > 0 && lead(loop))
        len = take_messages(thread);
    thread_set_before_wait(NULL, NULL);
    if (len <= 0)
        call_next(loop);
    if (len == 0)
        take_last_messages(thread);
    free(thread);
    if (len < 0)
        report_end(loop);
    leave(loop);
    return NULL;
}

/* ---------------------------------------------------------------- the loop */

int request_loop_init(struct request_loop *loop, struct fuse_session *fuse, void (*ended)(void *context),
                      void *context)
{
    *loop = (struct request_loop){.fuse = fuse, .ended = ended, .context = context};
    atomic_flag_clear(&loop->is_end_reported);
    pthread_mutex_init(&loop->lock, NULL);
    sem_init(&loop->called, 0, 0);
    clock_condition_init(&loop->thread_ended);
    loop->aside_end = &loop->first_aside;
    loop->may_spin = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    loop->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return loop->end_fd < 0 ? -errno : 0;
}

int request_loop_start(struct request_loop *loop)
{
    int fd = fuse_session_fd(loop->fuse);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return -errno;
    return add_thread(loop);
}

void request_loop_expect_end(struct request_loop *loop)
{
    loop->is_end_expected = true;
}

void request_loop_stop(struct request_loop *loop)
{
    loop->is_end_expected = true;
    loop->is_ending = true;
    end_all_threads(loop);
    pthread_mutex_lock(&loop->lock);
    while (loop->threads > 0)
        pthread_cond_wait(&loop->thread_ended, &loop->lock);
    pthread_mutex_unlock(&loop->lock);
}

void request_loop_release(struct request_loop *loop)
{
    if (loop->end_fd >= 0)
        close(loop->end_fd);
    pthread_cond_destroy(&loop->thread_ended);
    sem_destroy(&loop->called);
    pthread_mutex_destroy(&loop->lock);
}
