/* SPDX-License-Identifier: MIT */
/*
 * Makes disk calls of inboxfs fail, for tests; loaded by LD_PRELOAD.
 *
 * The file named by FAULT_PLAN decides which calls on files under spool/ fail. It may appear, change and
 * disappear while the program runs:
 *
 *   CALL NTH COUNT ERRNO
 *
 * COUNT calls from the NTH on (COUNT 0: all of them), counted since the plan appeared or changed, fail with
 * ERRNO (a number). CALL is fsync (for fdatasync as well), write, rename, create, unlink, read, or `any` (of
 * all but read).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long plan_inode; /* protected by lock, like all variables below */
static struct timespec plan_mtime;
static unsigned long calls;

/* Finds the C library's definition of the function. ISO C has no cast to a pointer to a function. */
static void find_next(const char *name, void *ret_function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(ret_function, &found, sizeof(found));
}

enum {
    PATH_SIZE = 4096
};

static bool find_path(int fd, char ret_path[PATH_SIZE])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, ret_path, PATH_SIZE - 1);
    if (len < 0)
        return false;
    ret_path[len] = '\0';
    return true;
}

/* ---------------------------------------------------------------- faults */

static bool is_in_spool(int fd)
{
    char path[PATH_SIZE];
    if (!find_path(fd, path))
        return false;
    const char *spool = strstr(path, "/spool");
    return spool != NULL && (spool[6] == '\0' || spool[6] == '/');
}

/* Returns the error that this call gets, or 0. */
static int count_locked(const char *call, const struct stat *status, FILE *plan)
{
    char wanted[16];
    unsigned long first, count;
    int error;
    if (fscanf(plan, "%15s %lu %lu %d", wanted, &first, &count, &error) != 4)
        return 0;
    if (status->st_ino != plan_inode || status->st_mtim.tv_sec != plan_mtime.tv_sec ||
        status->st_mtim.tv_nsec != plan_mtime.tv_nsec) {
        plan_inode = status->st_ino;
        plan_mtime = status->st_mtim;
        calls = 0;
    }
    bool is_any = strcmp(wanted, "any") == 0 && strcmp(call, "read") != 0;
    if (!is_any && strcmp(wanted, call) != 0)
        return 0;
    calls++;
    return calls >= first && (count == 0 || calls < first + count) ? error : 0;
}

static bool is_to_fail(const char *call, int fd)
{
    struct stat status;
    const char *path = getenv("FAULT_PLAN");
    int saved = errno;
    int error = 0;
    FILE *plan = path == NULL || !is_in_spool(fd) ? NULL : fopen(path, "re");
    if (plan != NULL) {
        pthread_mutex_lock(&lock);
        if (fstat(fileno(plan), &status) == 0)
            error = count_locked(call, &status, plan);
        pthread_mutex_unlock(&lock);
        fclose(plan);
    }
    errno = error != 0 ? error : saved;
    return error != 0;
}

/* ---------------------------------------------------------------- the calls */

static int sync_file(const char *name, int fd)
{
    int (*next)(int);
    find_next(name, &next);
    if (is_to_fail("fsync", fd))
        return -1;
    return next(fd);
}

int fsync(int fd)
{
    return sync_file("fsync", fd);
}

int fdatasync(int fd)
{
    return sync_file("fdatasync", fd);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    ssize_t (*next)(int, const void *, size_t);
    find_next("write", &next);
    return is_to_fail("write", fd) ? -1 : next(fd, bytes, len);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
    ssize_t (*next)(int, const void *, size_t, off_t);
    find_next("pwrite64", &next);
    return is_to_fail("write", fd) ? -1 : next(fd, bytes, len, offset);
}

ssize_t pread64(int fd, void *bytes, size_t len, off_t offset)
{
    ssize_t (*next)(int, void *, size_t, off_t);
    find_next("pread64", &next);
    return is_to_fail("read", fd) ? -1 : next(fd, bytes, len, offset);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    int (*next)(int, const char *, int, const char *);
    find_next("renameat", &next);
    return is_to_fail("rename", to_fd) ? -1 : next(from_fd, from, to_fd, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
{
    int (*next)(int, const char *, int, const char *, unsigned int);
    find_next("renameat2", &next);
    return is_to_fail("rename", to_fd) ? -1 : next(from_fd, from, to_fd, to, flags);
}

int unlinkat(int dir_fd, const char *name, int flags)
{
    int (*next)(int, const char *, int);
    find_next("unlinkat", &next);
    return is_to_fail("unlink", dir_fd) ? -1 : next(dir_fd, name, flags);
}

int openat64(int dir_fd, const char *name, int flags, ...)
{
    int (*next)(int, const char *, int, ...);
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    find_next("openat64", &next);
    bool is_to_make = (flags & O_CREAT) != 0;
    return is_to_make && is_to_fail("create", dir_fd) ? -1 : next(dir_fd, name, flags, mode);
}
