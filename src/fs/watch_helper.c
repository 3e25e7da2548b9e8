/* SPDX-License-Identifier: MIT */
/*
 * The process that creates what is new, then the daemon's side: starting the process, and handing paths over.
 * NUL-terminated strings pass through the pipe, the path of each new file below the mount point.
 */
#include "fs/watch_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

enum {
    PIPE_BYTES = 4096, /* of all strings handed over at once: they go into the pipe whole, or not at all */
    QUEUE_MAX = 20 * 1000,
    FULL_PIPE_MS = 20, /* how long its end can go unnoticed while the process is behind */
    DONE_INTERVAL_MS = 1,
    RESTART_MS = 1000, /* from one start to the next: one that cannot live takes no machine's time */
};

struct announcement {
    uint64_t ino; /* whose path is to be found, and `path` is empty; 0: `path` is it */
    size_t len;   /* with the NUL */
    char path[];
};

/* ---------------------------------------------------------------- the process */

/* It may be forked from a program with threads. Nothing but system calls may be made in it then, so it
 * allocates nothing and uses no stdio. */

/* By now something else may be mounted there, or nothing: nothing may be created in it. The kernel knows the
 * device number without asking the daemon. */
static int open_root(const struct watch_helper_shared *shared)
{
    struct statx status;
    int fd = open(shared->mountpoint, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
        makedev(status.stx_dev_major, status.stx_dev_minor) == shared->device)
        return fd;
    close(fd);
    return -1;
}

/* Failures are of no interest: whoever lists the folder sees the file all the same. O_EXCL makes the kernel
 * ask for a name that it knows already from a listing, too: else it would open the file, and raise no
 * IN_CREATE.
 */
static void create(int root_fd, const char *path)
{
    int fd = path[0] == '\0' || root_fd < 0
                 ? -1
                 : openat(root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd >= 0)
        close(fd);
}

/* Takes all whole strings; the number of bytes that they were. The root is open meanwhile alone, for it keeps
 * the mount busy. */
static size_t take_strings(struct watch_helper_shared *shared, const char *bytes, size_t len)
{
    size_t taken = 0;
    unsigned long paths = 0;
    const char *end;
    int root_fd = open_root(shared);
    for (; (end = memchr(bytes + taken, '\0', len - taken)) != NULL; paths++) {
        create(root_fd, bytes + taken);
        taken = (size_t)(end - bytes) + 1;
    }
    if (root_fd >= 0)
        close(root_fd);
    atomic_fetch_add(&shared->done, paths);
    return taken;
}

static _Noreturn void run(int fd, struct watch_helper_shared *shared)
{
    char buffer[2 * PIPE_BYTES];
    size_t len = 0;
    for (;;) {
        ssize_t got = read(fd, buffer + len, sizeof(buffer) - len);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            _exit(0);
        if (got <= 0)
            continue;
        len += (size_t)got;
        size_t taken = take_strings(shared, buffer, len);
        memmove(buffer, buffer + taken, len - taken);
        len -= taken;
    }
}

/* Ends on what ends a program, and with the thread that it was started by. */
static void expect_end(pid_t daemon)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t none;
    sigaction(SIGTERM, &by_default, NULL);
    sigaction(SIGINT, &by_default, NULL);
    sigaction(SIGHUP, &by_default, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != daemon)
        _exit(0); /* it ended before it was listened for */
}

static _Noreturn void become_helper(int fd, pid_t daemon, struct watch_helper_shared *shared)
{
    if (dup2(fd, STDIN_FILENO) < 0)
        _exit(1);
    closefrom(STDERR_FILENO + 1);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    setsid(); /* what ends the daemon by the terminal lets it end this one */
    if (chdir("/") != 0)
        _exit(1);
    prctl(PR_SET_NAME, "inboxfs-watch");
    expect_end(daemon);
    run(STDIN_FILENO, shared);
}

/* ---------------------------------------------------------------- starting it */

/* By the thread that is to live on; it may have other threads beside it. */
static int start_process(struct watch_helper *helper)
{
    int ends[2];
    pid_t daemon = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    _cleanup_close_ int read_end = ends[0];
    _cleanup_close_ int write_end = ends[1];
    if (fcntl(write_end, F_SETFL, O_NONBLOCK) != 0)
        return -errno;
    /* What is in the pipe is lost with the process. */
    fcntl(write_end, F_SETPIPE_SZ, PIPE_BYTES);
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        become_helper(read_end, daemon, helper->shared);
    helper->pid = pid;
    helper->fd = TAKE_FD(write_end);
    return 0;
}

static void tell_process_to_end(struct watch_helper *helper)
{
    cleanup_close(&helper->fd);
    helper->fd = -1;
    if (helper->pid > 0)
        kill(helper->pid, SIGKILL);
}

static void reap(struct watch_helper *helper)
{
    int pid = atomic_exchange(&helper->pid, 0);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int watch_helper_init_without_process(struct watch_helper *helper, watch_helper_find_path find_path,
                                      void *context)
{
    *helper = (struct watch_helper){.fd = -1, .find_path = find_path, .context = context};
    pthread_mutex_init(&helper->lock, NULL);
    clock_condition_init(&helper->changed);
    void *page =
        mmap(NULL, sizeof(*helper->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    helper->shared = page;
    return 0;
}

int watch_helper_init(struct watch_helper *helper)
{
    int error = watch_helper_init_without_process(helper, NULL, NULL);
    return error != 0 ? error : start_process(helper);
}

/* ---------------------------------------------------------------- handing over */

static bool is_ending(struct watch_helper *helper)
{
    LOCK_GUARD(&helper->lock);
    return helper->is_ending;
}

/* 0; -EPIPE: the process died; -ECANCELED: this is the end. */
static int send_whole(struct watch_helper *helper, const char *strings, size_t len)
{
    if (helper->fd < 0)
        return -EPIPE;
    while (write(helper->fd, strings, len) < 0) {
        struct pollfd pipe = {.fd = helper->fd, .events = POLLOUT};
        if (errno != EAGAIN)
            return -errno;
        if (is_ending(helper))
            return -ECANCELED;
        /* A pipe with some space counts as writable before these bytes fit: then this waits by the clock. */
        if (poll(&pipe, 1, FULL_PIPE_MS) > 0 && (pipe.revents & POLLOUT) != 0)
            poll(NULL, 0, 1);
    }
    return 0;
}

/* Once at the start, and then by the thread: to be waited for by nobody any more. */
static void count_all_done(struct watch_helper *helper)
{
    helper->shared->done = helper->taken;
}

static int restart_process(struct watch_helper *helper)
{
    struct clock *clock = clock_system();
    int64_t until_ms = helper->started_ms + RESTART_MS;
    int error = 0;
    tell_process_to_end(helper);
    reap(helper);
    count_all_done(helper);
    pthread_mutex_lock(&helper->lock);
    while (!helper->is_ending && error == 0)
        error = wait_until(clock, &helper->changed, &helper->lock, until_ms, NULL);
    pthread_mutex_unlock(&helper->lock);
    if (error == 0)
        return -ECANCELED;
    helper->started_ms = clock_monotonic_ms(clock);
    return start_process(helper);
}

static void hand_over(struct watch_helper *helper, const char *strings, size_t len, unsigned long paths)
{
    int error = send_whole(helper, strings, len);
    while (error == -EPIPE)
        error = restart_process(helper) == 0 ? send_whole(helper, strings, len) : -ECANCELED;
    helper->taken += paths;
    if (error != 0)
        count_all_done(helper);
}

/* Takes as many paths as go into the pipe at once; one inode number, where its path is to be found. */
static size_t pop_locked(struct watch_helper *helper, char ret_strings[PIPE_BYTES], unsigned long *ret_paths,
                         uint64_t *ret_ino)
{
    size_t len = 0;
    *ret_paths = 0;
    *ret_ino = 0;
    struct announcement *announcement;
    while ((announcement = g_queue_peek_head(&helper->queue)) != NULL &&
           len + announcement->len <= PIPE_BYTES && *ret_ino == 0) {
        *ret_ino = announcement->ino;
        memcpy(ret_strings + len, announcement->path, announcement->len);
        len += announcement->len;
        ++*ret_paths;
        free(g_queue_pop_head(&helper->queue));
    }
    return len;
}

/* An inode that has no path goes through the pipe as an empty one, at which the process does nothing: so it
 * is counted in its turn, and watch_helper_wait() waits for all that came before it. */
static size_t find_path(const struct watch_helper *helper, uint64_t ino, char ret_path[PIPE_BYTES])
{
    if (helper->find_path(helper->context, ino, ret_path, PIPE_BYTES) != 0)
        ret_path[0] = '\0';
    return strlen(ret_path) + 1;
}

static void *work(void *argument)
{
    struct watch_helper *helper = argument;
    char strings[PIPE_BYTES];
    pthread_mutex_lock(&helper->lock);
    while (!helper->is_ending) {
        unsigned long paths;
        uint64_t ino;
        size_t len = pop_locked(helper, strings, &paths, &ino);
        if (len == 0) {
            pthread_cond_wait(&helper->changed, &helper->lock);
            continue;
        }
        pthread_mutex_unlock(&helper->lock);
        if (ino != 0)
            len = find_path(helper, ino, strings);
        hand_over(helper, strings, len, paths);
        pthread_mutex_lock(&helper->lock);
    }
    pthread_mutex_unlock(&helper->lock);
    return NULL;
}

/* ---------------------------------------------------------------- for others */

int watch_helper_start(struct watch_helper *helper, dev_t device, const char *mountpoint)
{
    if (helper->shared == NULL)
        return 0;
    size_t size = strlen(mountpoint) + 1;
    if (size > sizeof(helper->shared->mountpoint))
        return -ENAMETOOLONG;
    memcpy(helper->shared->mountpoint, mountpoint, size);
    helper->shared->device = device;
    int error = thread_start(&helper->thread, "fs-announce", work, helper);
    helper->is_running = error == 0;
    return error;
}

void watch_helper_stop(struct watch_helper *helper)
{
    if (!helper->is_running)
        return;
    pthread_mutex_lock(&helper->lock);
    helper->is_ending = true;
    pthread_cond_broadcast(&helper->changed);
    pthread_mutex_unlock(&helper->lock);
    pthread_join(helper->thread, NULL);
    helper->is_running = false;
    tell_process_to_end(helper);
}

void watch_helper_release(struct watch_helper *helper)
{
    watch_helper_stop(helper);
    tell_process_to_end(helper);
    reap(helper);
    g_queue_clear_full(&helper->queue, free);
    if (helper->shared != NULL)
        munmap(helper->shared, sizeof(*helper->shared));
    pthread_cond_destroy(&helper->changed);
    pthread_mutex_destroy(&helper->lock);
}

static void queue(struct watch_helper *helper, uint64_t ino, const char *path)
{
    size_t len = strlen(path) + 1;
    if (helper->shared == NULL)
        return;
    LOCK_GUARD(&helper->lock);
    if (helper->is_ending || helper->queue.length >= QUEUE_MAX || len > PIPE_BYTES)
        return;
    struct announcement *announcement = g_malloc(sizeof(*announcement) + len);
    announcement->ino = ino;
    announcement->len = len;
    memcpy(announcement->path, path, len);
    g_queue_push_tail(&helper->queue, announcement);
    helper->queued++;
    pthread_cond_broadcast(&helper->changed);
}

void watch_helper_announce(struct watch_helper *helper, const char *path)
{
    queue(helper, 0, path);
}

void watch_helper_announce_inode(struct watch_helper *helper, uint64_t ino)
{
    queue(helper, ino, "");
}

/* The process counts in shared memory, and wakes nobody. */
void watch_helper_wait(struct watch_helper *helper, int64_t at_most_ms, struct cancel *cancel)
{
    struct clock *clock = clock_system();
    int64_t until_ms = clock_monotonic_ms(clock) + at_most_ms;
    if (helper->shared == NULL)
        return;
    LOCK_GUARD(&helper->lock);
    unsigned long queued = helper->queued;
    while (helper->shared->done < queued && !helper->is_ending && !cancel_is_set(cancel) &&
           clock_monotonic_ms(clock) < until_ms)
        (void)wait_until(clock, &helper->changed, &helper->lock, clock_monotonic_ms(clock) + DONE_INTERVAL_MS,
                         cancel);
}

bool watch_helper_is(const struct watch_helper *helper, pid_t pid)
{
    int process = helper->pid;
    return process > 0 && pid == process;
}
