/* SPDX-License-Identifier: MIT */
/*
 * First the process that creates the files, then the daemon's side. The pipe carries paths, each with a NUL.
 */
#include "fs/watch_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <signal.h>
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

enum {
    PATH_MAX_BYTES = PIPE_BUF, /* size of a path with its NUL; a pipe may take a longer write in pieces */
    PIPE_BYTES = 1024 * 1024,  /* some ten thousand paths: the largest pipe that the kernel gives any user */
    DONE_INTERVAL_MS = 1,      /* interval between two checks of watch_helper_shared.done */
    RESTART_MS = 50,           /* minimum interval of restarts: a process that dies at once costs little */
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
        int fd = root_fd < 0
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

static _Noreturn void read_paths(int fd, struct watch_helper_shared *shared)
{
    char bytes[PATH_MAX_BYTES];
    size_t len = 0;
    for (;;) {
        ssize_t count = read(fd, bytes + len, sizeof(bytes) - len);
        if (count == 0 || (count < 0 && errno != EINTR))
            _exit(0);
        len += count > 0 ? (size_t)count : 0;
        const char *last_nul = memrchr(bytes, '\0', len);
        size_t whole_len = last_nul == NULL ? 0 : (size_t)(last_nul - bytes) + 1;
        if (whole_len > 0)
            create_files(shared, bytes, whole_len);
        len -= whole_len;
        memmove(bytes, bytes + whole_len, len);
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
    read_paths(STDIN_FILENO, shared);
}

/* ---------------------------------------------------------------- starting it */

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
    fcntl(write_end, F_SETPIPE_SZ, PIPE_BYTES);
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

void watch_helper_init_without_process(struct watch_helper *helper)
{
    *helper = (struct watch_helper){.fd = -1};
    pthread_mutex_init(&helper->lock, NULL);
    clock_condition_init(&helper->stopped);
    void *page =
        mmap(NULL, sizeof(*helper->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        abort(); /* as GLib does without memory */
    helper->shared = page;
}

int watch_helper_init(struct watch_helper *helper)
{
    watch_helper_init_without_process(helper);
    return start_process(helper);
}

void watch_helper_start(struct watch_helper *helper, dev_t device, const char *mountpoint)
{
    LOCK_GUARD(&helper->lock);
    g_strlcpy(helper->shared->mountpoint, mountpoint, sizeof(helper->shared->mountpoint));
    helper->shared->device = device;
    helper->is_running = true;
}

void watch_helper_stop(struct watch_helper *helper)
{
    LOCK_GUARD(&helper->lock);
    helper->is_running = false;
    pthread_cond_broadcast(&helper->stopped);
    kill_process(helper);
}

void watch_helper_release(struct watch_helper *helper)
{
    watch_helper_stop(helper);
    reap_process(helper);
    munmap(helper->shared, sizeof(*helper->shared));
    pthread_cond_destroy(&helper->stopped);
    pthread_mutex_destroy(&helper->lock);
}

/* ---------------------------------------------------------------- announcing */

static int write_path_locked(const struct watch_helper *helper, const char *path, size_t size)
{
    if (helper->fd < 0)
        return -EPIPE;
    return write(helper->fd, path, size) < 0 ? -errno : 0;
}

static int restart_process_locked(struct watch_helper *helper)
{
    int64_t now_ms = clock_monotonic_ms(clock_system());
    if (helper->started_ms != 0 && now_ms < helper->started_ms + RESTART_MS)
        return -EAGAIN;
    kill_process(helper);
    reap_process(helper);
    helper->shared->done = helper->announced; /* no process is left to create the files */
    helper->started_ms = now_ms;
    return start_process(helper);
}

void watch_helper_announce(struct watch_helper *helper, const char *path)
{
    size_t size = strlen(path) + 1;
    LOCK_GUARD(&helper->lock);
    if (!helper->is_running || size > PATH_MAX_BYTES)
        return;
    int error = write_path_locked(helper, path, size);
    if (error == -EPIPE && restart_process_locked(helper) == 0)
        error = write_path_locked(helper, path, size);
    if (error == 0)
        helper->announced++;
}

/* Polls, since the process counts in shared memory and wakes no thread. The pipe has an event (POLLERR) once
 * the process has died. */
void watch_helper_wait(struct watch_helper *helper, int64_t at_most_ms, struct cancel *cancel)
{
    struct clock *clock = clock_system();
    int64_t until_ms = clock_monotonic_ms(clock) + at_most_ms;
    LOCK_GUARD(&helper->lock);
    unsigned long announced = helper->announced;
    while (helper->is_running && helper->shared->done < announced && !cancel_is_set(cancel) &&
           poll(&(struct pollfd){.fd = helper->fd}, 1, 0) == 0 && clock_monotonic_ms(clock) < until_ms)
        (void)wait_until(clock, &helper->stopped, &helper->lock, clock_monotonic_ms(clock) + DONE_INTERVAL_MS,
                         cancel);
}

bool watch_helper_has_pid(const struct watch_helper *helper, pid_t pid)
{
    return pid > 0 && pid == helper->pid;
}
