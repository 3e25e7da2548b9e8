/* SPDX-License-Identifier: MIT */
/*
 * The process that creates what is new, and the queue to it. Where the process is forked from a program with
 * threads, nothing but system calls may be made in it, so it allocates nothing and uses no stdio.
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
#include "base/log.h"
#include "base/thread.h"

enum {
    BUFFER_BYTES = 2 * WATCH_HELPER_MAX_BYTES
};

/* ---------------------------------------------------------------- the process */

struct helper_state {
    char mountpoint[WATCH_HELPER_MAX_BYTES];
    uint64_t device;
    unsigned int told; /* of the two strings that come first */
    int root_fd;       /* open while there is something to do, for it keeps the mount busy */
    atomic_ulong *done;
};

static uint64_t parse_number(const char *text)
{
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    return number;
}

/* By now something else may be mounted there, or nothing: nothing may be created in it. The kernel knows the
 * device number without asking the daemon. */
static int open_root(const struct helper_state *state)
{
    struct statx status;
    int fd = open(state->mountpoint, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
        makedev(status.stx_dev_major, status.stx_dev_minor) == state->device)
        return fd;
    close(fd);
    return -1;
}

/* Failures are of no interest: whoever lists the folder sees the file all the same. */
static void create(struct helper_state *state, const char *path)
{
    if (state->root_fd < 0)
        state->root_fd = open_root(state);
    if (state->root_fd < 0)
        return;
    int fd = openat(state->root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd >= 0)
        close(fd);
}

/* The number of paths that it was: 0 for what comes first. */
static unsigned long take_string(struct helper_state *state, const char *string)
{
    if (state->told == 0)
        state->device = parse_number(string);
    else if (state->told == 1)
        memcpy(state->mountpoint, string, strlen(string) + 1);
    else
        create(state, string);
    if (state->told == 2)
        return 1;
    state->told++;
    return 0;
}

/* Takes all whole strings; the number of bytes that they were. */
static size_t take_strings(struct helper_state *state, const char *bytes, size_t len)
{
    size_t taken = 0;
    unsigned long paths = 0;
    const char *end;
    while ((end = memchr(bytes + taken, '\0', len - taken)) != NULL) {
        paths += take_string(state, bytes + taken);
        taken = (size_t)(end - bytes) + 1;
    }
    if (state->root_fd >= 0)
        close(state->root_fd);
    state->root_fd = -1;
    atomic_fetch_add(state->done, paths);
    return taken;
}

static _Noreturn void run(int fd, atomic_ulong *done)
{
    struct helper_state state = {.root_fd = -1, .done = done};
    char buffer[BUFFER_BYTES];
    size_t len = 0;
    for (;;) {
        ssize_t got = read(fd, buffer + len, sizeof(buffer) - len);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            _exit(0);
        if (got <= 0)
            continue;
        len += (size_t)got;
        size_t taken = take_strings(&state, buffer, len);
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

static _Noreturn void become_helper(int fd, pid_t daemon, atomic_ulong *done)
{
    if (dup2(fd, STDIN_FILENO) < 0)
        _exit(1);
    closefrom(STDERR_FILENO + 1);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    if (chdir("/") != 0)
        _exit(1);
    prctl(PR_SET_NAME, "inboxfs-watch");
    expect_end(daemon);
    run(STDIN_FILENO, done);
}

/* ---------------------------------------------------------------- the daemon's side */

static int share_counter(struct watch_helper *helper)
{
    if (helper->done != NULL)
        return 0;
    void *page = mmap(NULL, sizeof(*helper->done), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    helper->done = page;
    return 0;
}

int watch_helper_start(struct watch_helper *helper)
{
    int ends[2];
    pid_t daemon = getpid();
    int error = share_counter(helper);
    if (error != 0)
        return error;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    _cleanup_close_ int read_end = ends[0];
    _cleanup_close_ int write_end = ends[1];
    if (fcntl(write_end, F_SETFL, O_NONBLOCK) != 0)
        return -errno;
    /* What is in the pipe is lost with the process. */
    fcntl(write_end, F_SETPIPE_SZ, WATCH_HELPER_MAX_BYTES);
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        become_helper(read_end, daemon, helper->done);
    helper->pid = pid;
    helper->fd = TAKE_FD(write_end);
    return 0;
}

int watch_helper_send(const struct watch_helper *helper, const char *strings, size_t len)
{
    if (helper->fd < 0)
        return -EPIPE;
    ssize_t sent = write(helper->fd, strings, len);
    return sent < 0 ? -errno : 0;
}

void watch_helper_end(struct watch_helper *helper)
{
    cleanup_close(&helper->fd);
    helper->fd = -1;
    if (helper->pid > 0)
        kill(helper->pid, SIGKILL);
}

void watch_helper_reap(struct watch_helper *helper)
{
    if (helper->pid <= 0)
        return;
    while (waitpid(helper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    helper->pid = 0;
}

void watch_helper_release(struct watch_helper *helper)
{
    if (helper->done != NULL)
        munmap(helper->done, sizeof(*helper->done));
    helper->done = NULL;
}

enum {
    QUEUE_MAX = 20 * 1000,
    FULL_PIPE_MS = 20, /* how long its end can go unnoticed while the helper is behind */
    DONE_INTERVAL_MS = 1,
    RESTART_MS =
        1000, /* from one start of a helper to the next: one that cannot live takes no machine's time */
};

struct announcement {
    struct announcement *next;
    size_t len; /* with the NUL */
    char path[];
};

void announcer_init(struct announcer *announcer, struct watch_helper *helper)
{
    *announcer = (struct announcer){.helper = helper};
    announcer->end = &announcer->first;
    pthread_mutex_init(&announcer->lock, NULL);
    clock_condition_init(&announcer->changed);
}

void announcer_release(struct announcer *announcer)
{
    while (announcer->first != NULL) {
        struct announcement *next = announcer->first->next;
        free(announcer->first);
        announcer->first = next;
    }
    free(announcer->greeting);
    pthread_cond_destroy(&announcer->changed);
    pthread_mutex_destroy(&announcer->lock);
}

/* ---------------------------------------------------------------- the helper */

static bool is_ending(struct announcer *announcer)
{
    pthread_mutex_lock(&announcer->lock);
    bool is_it = announcer->is_ending;
    pthread_mutex_unlock(&announcer->lock);
    return is_it;
}

/* 0; -EPIPE: the helper died; -ECANCELED: this is the end. */
static int send_whole(struct announcer *announcer, const char *strings, size_t len)
{
    int error;
    while ((error = watch_helper_send(announcer->helper, strings, len)) == -EAGAIN) {
        struct pollfd room = {.fd = announcer->helper->fd, .events = POLLOUT};
        if (is_ending(announcer))
            return -ECANCELED;
        /* A pipe with some room counts as writable before these bytes fit: then this waits by the clock. */
        if (poll(&room, 1, FULL_PIPE_MS) > 0 && (room.revents & POLLOUT) != 0)
            poll(NULL, 0, 1);
    }
    return error;
}

/* Whatever was taken so far is told of or lost. */
static void set_all_done(struct announcer *announcer)
{
    if (announcer->done != NULL)
        *announcer->done = announcer->taken;
}

static void lose_helper(struct announcer *announcer)
{
    announcer->helper_pid = 0;
    watch_helper_end(announcer->helper);
    watch_helper_reap(announcer->helper);
    set_all_done(announcer);
}

static int start_helper(struct announcer *announcer)
{
    announcer->started_ms = clock_monotonic_ms(clock_system());
    int error = watch_helper_start(announcer->helper);
    if (error == 0) {
        announcer->helper_pid = announcer->helper->pid;
        error = send_whole(announcer, announcer->greeting, announcer->greeting_len);
    }
    return error;
}

static int restart_helper(struct announcer *announcer)
{
    int64_t until_ms = announcer->started_ms + RESTART_MS;
    lose_helper(announcer);
    pthread_mutex_lock(&announcer->lock);
    while (!announcer->is_ending && clock_monotonic_ms(clock_system()) < until_ms)
        clock_wait(clock_system(), &announcer->changed, &announcer->lock, until_ms);
    bool is_end = announcer->is_ending;
    pthread_mutex_unlock(&announcer->lock);
    return is_end ? -ECANCELED : start_helper(announcer);
}

static void hand_over(struct announcer *announcer, const char *strings, size_t len, unsigned long paths)
{
    int error = send_whole(announcer, strings, len);
    while (error == -EPIPE)
        error = restart_helper(announcer) == 0 ? send_whole(announcer, strings, len) : -ECANCELED;
    announcer->taken += paths;
    if (error != 0)
        set_all_done(announcer);
}

/* ---------------------------------------------------------------- the thread */

/* As many as go into the pipe at once. */
static size_t pop_locked(struct announcer *announcer, char ret_strings[WATCH_HELPER_MAX_BYTES],
                         unsigned long *ret_paths)
{
    size_t len = 0;
    *ret_paths = 0;
    struct announcement *announcement;
    while ((announcement = announcer->first) != NULL && len + announcement->len <= WATCH_HELPER_MAX_BYTES) {
        memcpy(ret_strings + len, announcement->path, announcement->len);
        len += announcement->len;
        announcer->first = announcement->next;
        announcer->len--;
        ++*ret_paths;
        free(announcement);
    }
    if (announcer->first == NULL)
        announcer->end = &announcer->first;
    return len;
}

static void *work(void *argument)
{
    struct announcer *announcer = argument;
    char strings[WATCH_HELPER_MAX_BYTES];
    if (announcer->helper->pid != 0)
        send_whole(announcer, announcer->greeting, announcer->greeting_len);
    pthread_mutex_lock(&announcer->lock);
    while (!announcer->is_ending) {
        unsigned long paths;
        size_t len = pop_locked(announcer, strings, &paths);
        if (len == 0) {
            pthread_cond_wait(&announcer->changed, &announcer->lock);
            continue;
        }
        pthread_mutex_unlock(&announcer->lock);
        hand_over(announcer, strings, len, paths);
        pthread_mutex_lock(&announcer->lock);
    }
    pthread_mutex_unlock(&announcer->lock);
    return NULL;
}

int announcer_start(struct announcer *announcer, dev_t device, const char *mountpoint)
{
    if (announcer->helper == NULL)
        return 0;
    int len = asprintf(&announcer->greeting, "%ju%c%s", (uintmax_t)device, '\0', mountpoint);
    if (len < 0) {
        announcer->greeting = NULL;
        return -ENOMEM;
    }
    announcer->greeting_len = (size_t)len + 1;
    if (announcer->greeting_len > WATCH_HELPER_MAX_BYTES)
        return -ENAMETOOLONG;
    announcer->helper_pid = announcer->helper->pid;
    announcer->done = announcer->helper->done;
    int error = thread_start(&announcer->thread, "fs-announcer", work, announcer);
    announcer->is_running = error == 0;
    return error;
}

void announcer_stop(struct announcer *announcer)
{
    if (!announcer->is_running)
        return;
    pthread_mutex_lock(&announcer->lock);
    announcer->is_ending = true;
    pthread_cond_broadcast(&announcer->changed);
    pthread_mutex_unlock(&announcer->lock);
    pthread_join(announcer->thread, NULL);
    announcer->is_running = false;
    watch_helper_end(announcer->helper);
}

void announcer_push(struct announcer *announcer, const char *path)
{
    size_t len = strlen(path) + 1;
    struct announcement *announcement = NULL;
    if (announcer->helper == NULL)
        return;
    pthread_mutex_lock(&announcer->lock);
    if (!announcer->is_ending && announcer->len < QUEUE_MAX && len <= WATCH_HELPER_MAX_BYTES)
        announcement = malloc(sizeof(*announcement) + len);
    if (announcement != NULL) {
        announcement->next = NULL;
        announcement->len = len;
        memcpy(announcement->path, path, len);
        *announcer->end = announcement;
        announcer->end = &announcement->next;
        announcer->len++;
        announcer->pushed++;
        pthread_cond_broadcast(&announcer->changed);
    }
    pthread_mutex_unlock(&announcer->lock);
}

void announcer_wait(struct announcer *announcer, struct cancel *cancel)
{
    struct clock *clock = clock_system();
    int64_t until_ms = clock_monotonic_ms(clock) + ANNOUNCER_WAIT_MS;
    if (announcer->done == NULL)
        return;
    cancel_bind(cancel, &announcer->changed, &announcer->lock);
    pthread_mutex_lock(&announcer->lock);
    unsigned long pushed = announcer->pushed;
    while (*announcer->done < pushed && !announcer->is_ending && !cancel_is_set(cancel) &&
           clock_monotonic_ms(clock) < until_ms)
        clock_wait(clock, &announcer->changed, &announcer->lock,
                   clock_monotonic_ms(clock) + DONE_INTERVAL_MS);
    pthread_mutex_unlock(&announcer->lock);
    cancel_unbind(cancel);
}

bool announcer_is_helper(struct announcer *announcer, pid_t pid)
{
    int helper = announcer->helper_pid;
    return helper > 0 && pid == helper;
}
