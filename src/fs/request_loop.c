/* SPDX-License-Identifier: MIT */
/*
 * The request loop. Waking a thread costs more than most requests do, so after an answer one thread looks for
 * the next request for some microseconds before it sleeps.
 */
#include "fs/request_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/thread.h"

enum {
    SPIN_NS = 50 * 1000,
    LAST_REQUESTS_MAX = 1000,
};

int request_loop_init(struct request_loop *loop, struct fuse_session *fuse, void (*ended)(void *context),
                      void *context)
{
    *loop = (struct request_loop){.fuse = fuse, .ended = ended, .context = context};
    atomic_flag_clear(&loop->is_spinning);
    atomic_flag_clear(&loop->has_told);
    loop->may_spin = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    loop->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return loop->end_fd < 0 ? -errno : 0;
}

/* An epoll of its own for each thread: EPOLLEXCLUSIVE wakes one of them for a request, not all. */
static int open_epoll(const struct request_loop *loop)
{
    struct epoll_event request = {.events = EPOLLIN | EPOLLEXCLUSIVE};
    struct epoll_event end = {.events = EPOLLIN};
    _cleanup_close_ int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, fuse_session_fd(loop->fuse), &request) != 0 ||
        epoll_ctl(fd, EPOLL_CTL_ADD, loop->end_fd, &end) != 0)
        return -errno;
    return TAKE_FD(fd);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Receives a request without waiting: 1, 0 (none is there, or it was interrupted before it was read), or
 * -errno: the mount has ended. Not by libfuse, which prints an error where a mount ends in the middle. */
static int receive(const struct request_loop *loop, struct fuse_buf *buffer)
{
    ssize_t len = read(fuse_session_fd(loop->fuse), buffer->mem, REQUEST_LOOP_BUFFER_BYTES);
    if (len < 0)
        return errno == EINTR || errno == EAGAIN || errno == ENOENT ? 0 : -errno;
    buffer->size = (size_t)len;
    return len > 0 ? 1 : -ENODEV;
}

/* The same, with patience: at most one thread at a time spins. Work that is there goes before work that may
 * come, so others are let run between two looks; the kernel wakes one of those who sleep on the device all
 * the same. */
static int receive_soon(struct request_loop *loop, struct fuse_buf *buffer)
{
    int count = receive(loop, buffer);
    if (count != 0 || !loop->may_spin || atomic_flag_test_and_set(&loop->is_spinning))
        return count;
    int64_t until_ns = now_ns() + SPIN_NS;
    while ((count = receive(loop, buffer)) == 0 && !loop->is_ending && now_ns() < until_ns)
        sched_yield();
    atomic_flag_clear(&loop->is_spinning);
    return count;
}

static void serve(struct request_loop *loop, int epoll_fd, struct fuse_buf *buffer)
{
    struct epoll_event event;
    while (!loop->is_ending) {
        int count = receive_soon(loop, buffer);
        if (count > 0)
            fuse_session_process_buf(loop->fuse, buffer);
        if (count < 0) {
            fuse_session_exit(loop->fuse);
            return;
        }
        if (count == 0 && epoll_wait(epoll_fd, &event, 1, -1) < 0 && errno != EINTR)
            return;
    }
    /* What waits already may be the last close of a message. */
    for (int i = 0; i < LAST_REQUESTS_MAX && receive(loop, buffer) > 0; i++)
        fuse_session_process_buf(loop->fuse, buffer);
}

static void wake_all(const struct request_loop *loop)
{
    uint64_t one = 1;
    if (write(loop->end_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
        log_error("cannot end the request loop: eventfd");
}

static void *work(void *argument)
{
    struct request_loop *loop = argument;
    struct fuse_buf buffer = {.mem = malloc(REQUEST_LOOP_BUFFER_BYTES)};
    _cleanup_close_ int epoll_fd = open_epoll(loop);
    if (epoll_fd >= 0 && buffer.mem != NULL)
        serve(loop, epoll_fd, &buffer);
    free(buffer.mem);

    wake_all(loop);
    if (!loop->is_end_expected && !atomic_flag_test_and_set(&loop->has_told))
        loop->ended(loop->context);
    return NULL;
}

int request_loop_start(struct request_loop *loop, unsigned int threads)
{
    int fd = fuse_session_fd(loop->fuse);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return -errno;
    while (loop->threads_len < threads && loop->threads_len < REQUEST_LOOP_MAX_THREADS) {
        int error = thread_start(&loop->threads[loop->threads_len], "fs-loop", work, loop);
        if (error != 0)
            return error;
        loop->threads_len++;
    }
    return 0;
}

void request_loop_expect_end(struct request_loop *loop)
{
    loop->is_end_expected = true;
}

void request_loop_stop(struct request_loop *loop)
{
    loop->is_end_expected = true;
    loop->is_ending = true;
    wake_all(loop);
    for (unsigned int i = 0; i < loop->threads_len; i++)
        pthread_join(loop->threads[i], NULL);
    loop->threads_len = 0;
}

void request_loop_release(struct request_loop *loop)
{
    if (loop->end_fd >= 0)
        close(loop->end_fd);
}
