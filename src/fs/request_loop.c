/* SPDX-License-Identifier: MIT */
/*
 * Waking a thread costs more than most requests, so the leader polls the device before it sleeps.
 */
#include "fs/request_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "tree/tree.h"

enum {
    BUFFER_BYTES = REQUEST_LOOP_MAX_WRITE + 4096,
    SPIN_NS = 50 * 1000,
    LAST_REQUESTS_MAX = 1000, /* maximum number of requests that a thread still answers at the end */
};

struct request_thread {
    struct request_loop *loop;
    _Alignas(struct fuse_in_header) char message[BUFFER_BYTES];
};

static void process_message(const struct request_loop *loop, char *message, size_t len)
{
    const struct fuse_buf buffer = {.mem = message, .size = len};
    fuse_session_process_buf(loop->fuse, &buffer);
}

static bool is_answered_at_once(const char *message, size_t len)
{
    const struct fuse_in_header *header = (const void *)message;
    if (len < sizeof(*header))
        return false;
    switch (header->opcode) {
    case FUSE_INIT:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
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
        return tree_answers_at_once(header->nodeid);
    default:
        return false;
    }
}

/* ---------------------------------------------------------------- reading */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Receives a message without waiting. Return: its length; 0 if there is none, or its request was interrupted
 * before the read; -errno if the mount has ended. Does not use libfuse, which would print an error if the
 * mount ended during the read. */
static ssize_t receive_message(struct request_thread *thread)
{
    ssize_t len = read(fuse_session_fd(thread->loop->fuse), thread->message, sizeof(thread->message));
    if (len < 0)
        return errno == EINTR || errno == EAGAIN || errno == ENOENT ? 0 : -errno;
    return len > 0 ? len : -ENODEV;
}

/* Polls for up to SPIN_NS. Return: as receive_message(). */
static ssize_t receive_message_soon(struct request_thread *thread)
{
    const struct request_loop *loop = thread->loop;
    ssize_t len = receive_message(thread);
    int64_t until_ns = len == 0 && loop->may_spin ? now_ns() + SPIN_NS : 0;
    while (len == 0 && !loop->is_ending && now_ns() < until_ns) {
        sched_yield();
        len = receive_message(thread);
    }
    return len;
}

/* Waits for a message. Return: its length; 0 if the threads are to end; -errno if the mount has ended. */
static ssize_t wait_for_message(struct request_thread *thread)
{
    const struct request_loop *loop = thread->loop;
    struct pollfd events[] = {{.fd = fuse_session_fd(loop->fuse), .events = POLLIN},
                              {.fd = loop->end_fd, .events = POLLIN}};
    ssize_t len = 0;
    while (!loop->is_ending && (len = receive_message_soon(thread)) == 0)
        if (poll(events, ARRAY_LEN(events), -1) < 0 && errno != EINTR)
            return -errno;
    return len;
}

/* ---------------------------------------------------------------- threads */

static void *run_thread(void *argument);

static int add_thread(struct request_loop *loop)
{
    pthread_t id;
    LOCK_GUARD(&loop->lock);
    if (loop->threads >= REQUEST_LOOP_THREADS_MAX)
        return -EAGAIN;
    struct request_thread *thread = malloc(sizeof(*thread));
    if (thread == NULL)
        return -ENOMEM;
    thread->loop = loop;
    int error = thread_start(&id, "fs-request", run_thread, thread);
    if (error != 0) {
        free(thread);
        return error;
    }
    pthread_detach(id);
    loop->threads++;
    return 0;
}

/* Waits until this thread leads; polls before it sleeps, since short requests often follow one another.
 * Returns false at once if REQUEST_LOOP_WAITING_MAX threads wait already. */
static bool wait_to_lead(struct request_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool is_first = !loop->is_led;
    bool waits = !is_first && loop->waiting < REQUEST_LOOP_WAITING_MAX;
    loop->is_led = true;
    if (waits)
        loop->waiting++;
    pthread_mutex_unlock(&loop->lock);
    if (!waits)
        return is_first;
    int64_t until_ns = loop->may_spin ? now_ns() + SPIN_NS : 0;
    bool is_called = sem_trywait(&loop->called) == 0;
    while (!is_called && now_ns() < until_ns) {
        sched_yield();
        is_called = sem_trywait(&loop->called) == 0;
    }
    while (!is_called)
        is_called = sem_wait(&loop->called) == 0;
    return true;
}

/* Returns false if no thread waits to lead. */
static bool hand_over_lead(struct request_loop *loop)
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

bool request_loop_is_led_by_caller(const struct request_loop *loop)
{
    return loop->leader == (uintptr_t)pthread_self();
}

/* If no thread takes over, requests stay in the kernel until a thread leads again. */
void request_loop_hand_over(struct request_loop *loop)
{
    loop->leader = 0;
    if (!hand_over_lead(loop))
        (void)add_thread(loop);
}

/* Reads messages and processes them, until a message makes this thread hand over. Returns the last result of
 * wait_for_message(); this thread still leads if the result is 0 or -errno. */
static ssize_t lead_until_hand_over(struct request_thread *thread)
{
    struct request_loop *loop = thread->loop;
    ssize_t len;
    bool leads = true;
    while (leads && (len = wait_for_message(thread)) > 0) {
        loop->leader = (uintptr_t)pthread_self();
        if (!is_answered_at_once(thread->message, (size_t)len))
            request_loop_hand_over(loop);
        process_message(loop, thread->message, (size_t)len);
        leads = request_loop_is_led_by_caller(loop);
    }
    return len;
}

static void *run_thread(void *argument)
{
    struct request_thread *thread = argument;
    struct request_loop *loop = thread->loop;
    ssize_t len = 1;
    while (len > 0 && wait_to_lead(loop))
        len = lead_until_hand_over(thread);
    if (len < 0) {
        fuse_session_exit(loop->fuse);
        end_all_threads(loop);
        if (!atomic_exchange(&loop->is_end_known, true))
            kill(getpid(), SIGTERM);
    }
    /* The device may still have requests, such as the last close of an email that is being written. */
    for (int i = 0; len == 0 && i < LAST_REQUESTS_MAX; i++) {
        ssize_t last_len = receive_message(thread);
        if (last_len <= 0)
            break;
        process_message(loop, thread->message, (size_t)last_len);
    }
    if (len <= 0)
        hand_over_lead(loop);
    free(thread);
    /* Once the lock is released, the loop may be released, too. */
    LOCK_GUARD(&loop->lock);
    loop->threads--;
    pthread_cond_broadcast(&loop->thread_ended);
    return NULL;
}

/* ---------------------------------------------------------------- the loop */

int request_loop_init(struct request_loop *loop, struct fuse_session *fuse)
{
    *loop = (struct request_loop){.fuse = fuse};
    pthread_mutex_init(&loop->lock, NULL);
    sem_init(&loop->called, 0, 0);
    clock_condition_init(&loop->thread_ended);
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

void request_loop_stop(struct request_loop *loop)
{
    loop->is_end_known = true;
    loop->is_ending = true;
    end_all_threads(loop);
    LOCK_GUARD(&loop->lock);
    while (loop->threads > 0)
        pthread_cond_wait(&loop->thread_ended, &loop->lock);
}

void request_loop_release(struct request_loop *loop)
{
    if (loop->end_fd >= 0)
        close(loop->end_fd);
    pthread_cond_destroy(&loop->thread_ended);
    sem_destroy(&loop->called);
    pthread_mutex_destroy(&loop->lock);
}
