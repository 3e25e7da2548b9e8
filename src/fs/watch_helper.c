/* SPDX-License-Identifier: MIT */
/*
 * First the process that creates the files, then the daemon's side. The pipe carries packets of paths, each
 * path with a NUL.
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
    PACKET_MAX_BYTES = PIPE_BUF, /* size of a packet; one write(2) and one read(2) transfer it whole */
    QUEUE_MAX = 20 * 1000,
    FULL_PIPE_MS = 20,    /* interval between two checks of is_ending while the pipe is full */
    DONE_INTERVAL_MS = 1, /* interval between two checks of watch_helper_shared.done */
    RESTART_MS = 1000,    /* minimum interval of restarts: a process that dies at once costs little */
};

struct announcement {
    uint64_t ino; /* 0 if `path` is set; else `path` is "", and tree_find_announced() finds the path */
    size_t len;   /* length of `path` with its NUL */
    char path[];
};

/* ---------------------------------------------------------------- the process */

/* A program with threads may fork the process. So the process only makes system calls: it neither allocates
 * nor uses stdio. */

/* Opens the mount point. Return: a descriptor (the caller closes it); -1 if the mount has ended, even if
 * another filesystem is mounted there now. */
static int open_root(const struct watch_helper_shared *shared)
{
    struct statx status;
    _cleanup_close_ int fd = open(shared->mountpoint, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool is_ours = fd >= 0 && statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
                   makedev(status.stx_dev_major, status.stx_dev_minor) == shared->device;
    return is_ours ? TAKE_FD(fd) : -1;
}

/* Creates the files. The root is open only during this call, since it keeps the mount busy. Ignores failures,
 * since listings show the files all the same. */
static void create_files(struct watch_helper_shared *shared, const char *paths, size_t len)
{
    unsigned long count = 0;
    int root_fd = open_root(shared);
    for (const char *path = paths; path < paths + len; path += strlen(path) + 1) {
        /* O_EXCL makes the kernel send a request even for a name that it knows from a listing; otherwise it
         * would open the file without IN_CREATE. */
        int fd = root_fd < 0 || *path == '\0'
                     ? -1
                     : openat(root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
        if (fd >= 0)
            close(fd);
        count++;
    }
    if (root_fd >= 0)
        close(root_fd);
    atomic_fetch_add(&shared->done, count);
}

static _Noreturn void read_packets(int fd, struct watch_helper_shared *shared)
{
    char paths[PACKET_MAX_BYTES];
    for (;;) {
        ssize_t len = read(fd, paths, sizeof(paths));
        if (len > 0)
            create_files(shared, paths, (size_t)len);
        else if (len == 0 || errno != EINTR)
            _exit(0);
    }
}

static _Noreturn void run_process(int fd, pid_t daemon, struct watch_helper_shared *shared)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t none;
    if (dup2(fd, STDIN_FILENO) < 0)
        _exit(1);
    closefrom(STDERR_FILENO + 1);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    setsid(); /* a signal from the terminal reaches the daemon alone, whose end then ends this process */
    if (chdir("/") != 0)
        _exit(1);
    prctl(PR_SET_NAME, "inboxfs-watch");
    sigaction(SIGTERM, &by_default, NULL);
    sigaction(SIGINT, &by_default, NULL);
    sigaction(SIGHUP, &by_default, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* when the thread ends that called fork(2) */
    if (getppid() != daemon)
        _exit(0); /* the daemon ended before prctl(2) */
    read_packets(STDIN_FILENO, shared);
}

/* ---------------------------------------------------------------- starting it */

static int start_process(struct watch_helper *helper)
{
    int ends[2];
    pid_t daemon = getpid();
    if (pipe2(ends, O_CLOEXEC | O_DIRECT) != 0)
        return -errno;
    _cleanup_close_ int read_end = ends[0];
    _cleanup_close_ int write_end = ends[1];
    if (fcntl(write_end, F_SETFL, O_NONBLOCK) != 0)
        return -errno;
    /* Room for one packet: what is in the pipe is lost if the process dies. */
    fcntl(write_end, F_SETPIPE_SZ, PACKET_MAX_BYTES);
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        run_process(read_end, daemon, helper->shared);
    helper->pid = pid;
    helper->fd = TAKE_FD(write_end);
    return 0;
}

static void kill_process(struct watch_helper *helper)
{
    cleanup_close(&helper->fd);
    helper->fd = -1;
    if (helper->pid > 0)
        kill(helper->pid, SIGKILL);
}

static void reap_process(struct watch_helper *helper)
{
    int pid = atomic_exchange(&helper->pid, 0);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int watch_helper_init_without_process(struct watch_helper *helper, struct tree *tree)
{
    *helper = (struct watch_helper){.fd = -1, .tree = tree};
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
    int error = watch_helper_init_without_process(helper, NULL);
    return error != 0 ? error : start_process(helper);
}

/* ---------------------------------------------------------------- handing over */

/* Return: 0; -EPIPE if there is no process; -ECANCELED if the thread is to end; another -errno. */
static int send_packet(struct watch_helper *helper, const char *paths, size_t len)
{
    if (helper->fd < 0)
        return -EPIPE;
    while (write(helper->fd, paths, len) < 0) {
        struct pollfd pipe = {.fd = helper->fd, .events = POLLOUT};
        if (errno != EAGAIN)
            return -errno;
        pthread_mutex_lock(&helper->lock);
        bool is_ending = helper->is_ending;
        pthread_mutex_unlock(&helper->lock);
        if (is_ending)
            return -ECANCELED;
        poll(&pipe, 1, FULL_PIPE_MS);
    }
    return 0;
}

static int restart_process(struct watch_helper *helper)
{
    struct clock *clock = clock_system();
    int64_t until_ms = helper->started_ms + RESTART_MS;
    int error = 0;
    kill_process(helper);
    reap_process(helper);
    helper->shared->done = helper->taken; /* no process is left to create the files */
    pthread_mutex_lock(&helper->lock);
    while (!helper->is_ending && error == 0)
        error = wait_until(clock, &helper->changed, &helper->lock, until_ms, NULL);
    pthread_mutex_unlock(&helper->lock);
    if (error == 0)
        return -ECANCELED;
    helper->started_ms = clock_monotonic_ms(clock);
    return start_process(helper);
}

static void deliver_packet(struct watch_helper *helper, const char *paths, size_t len, unsigned long count)
{
    int error = send_packet(helper, paths, len);
    while (error == -EPIPE)
        error = restart_process(helper) == 0 ? send_packet(helper, paths, len) : -ECANCELED;
    helper->taken += count;
    if (error != 0)
        helper->shared->done = helper->taken;
}

/* Takes as many paths as fit into one packet, or one inode number whose path is to be found. Returns the
 * length of the paths, 0 if the queue is empty. */
static size_t pop_packet_locked(struct watch_helper *helper, char ret_paths[PACKET_MAX_BYTES],
                                unsigned long *ret_count, uint64_t *ret_ino)
{
    size_t len = 0;
    *ret_count = 0;
    *ret_ino = 0;
    struct announcement *announcement;
    while ((announcement = g_queue_peek_head(&helper->queue)) != NULL &&
           len + announcement->len <= PACKET_MAX_BYTES && *ret_ino == 0) {
        *ret_ino = announcement->ino;
        memcpy(ret_paths + len, announcement->path, announcement->len);
        len += announcement->len;
        ++*ret_count;
        free(g_queue_pop_head(&helper->queue));
    }
    return len;
}

static void *run_thread(void *argument)
{
    struct watch_helper *helper = argument;
    char paths[PACKET_MAX_BYTES];
    pthread_mutex_lock(&helper->lock);
    while (!helper->is_ending) {
        unsigned long count;
        uint64_t ino;
        size_t len = pop_packet_locked(helper, paths, &count, &ino);
        if (len == 0) {
            pthread_cond_wait(&helper->changed, &helper->lock);
            continue;
        }
        pthread_mutex_unlock(&helper->lock);
        if (ino != 0) {
            /* The process only counts an empty path. */
            if (tree_find_announced(helper->tree, ino, paths, sizeof(paths)) != 0)
                paths[0] = '\0';
            len = strlen(paths) + 1;
        }
        deliver_packet(helper, paths, len, count);
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
    int error = thread_start(&helper->thread, "fs-announce", run_thread, helper);
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
    kill_process(helper);
}

void watch_helper_release(struct watch_helper *helper)
{
    watch_helper_stop(helper);
    kill_process(helper);
    reap_process(helper);
    g_queue_clear_full(&helper->queue, free);
    if (helper->shared != NULL)
        munmap(helper->shared, sizeof(*helper->shared));
    pthread_cond_destroy(&helper->changed);
    pthread_mutex_destroy(&helper->lock);
}

void watch_helper_announce(struct watch_helper *helper, const char *path, uint64_t ino)
{
    const char *queued_path = path != NULL ? path : "";
    size_t len = strlen(queued_path) + 1;
    if (helper->shared == NULL)
        return;
    LOCK_GUARD(&helper->lock);
    if (helper->is_ending || helper->queue.length >= QUEUE_MAX || len > PACKET_MAX_BYTES)
        return;
    struct announcement *announcement = g_malloc(sizeof(*announcement) + len);
    announcement->ino = path != NULL ? 0 : ino;
    announcement->len = len;
    memcpy(announcement->path, queued_path, len);
    g_queue_push_tail(&helper->queue, announcement);
    helper->queued++;
    pthread_cond_broadcast(&helper->changed);
}

/* Polls, since the process counts in shared memory and wakes no thread. */
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

bool watch_helper_has_pid(const struct watch_helper *helper, pid_t pid)
{
    int process = helper->pid;
    return process > 0 && pid == process;
}
