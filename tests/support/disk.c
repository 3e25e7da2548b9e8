/* SPDX-License-Identifier: MIT */
#include "support/disk.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    SYNCS_MAX = 1000, /* number of the newest syncs that are remembered */
};

struct sync {
    char path[400];
    ino_t inode;
    off_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sync syncs[SYNCS_MAX]; /* protected by `lock`, like all variables below */
static size_t syncs_len;             /* syncs so far; the newest is syncs[(syncs_len - 1) % SYNCS_MAX] */
static char failing[PATH_MAX];
static int error_of_syncs;
static void (*before_syncs)(int fd);
static bool is_pretending;

static void find_path(int fd, char *ret, size_t size)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, ret, size - 1);
    ret[len < 0 ? 0 : len] = '\0';
}

static void note(int fd)
{
    struct stat status;
    struct sync sync = {.inode = 0};
    find_path(fd, sync.path, sizeof(sync.path));
    if (fstat(fd, &status) == 0) {
        sync.inode = status.st_ino;
        sync.size = status.st_size;
    }
    pthread_mutex_lock(&lock);
    syncs[syncs_len++ % SYNCS_MAX] = sync;
    pthread_mutex_unlock(&lock);
}

static int sync_file(int fd, long number)
{
    char path[PATH_MAX];
    find_path(fd, path, sizeof(path));
    pthread_mutex_lock(&lock);
    void (*call)(int) = before_syncs;
    bool is_real = !is_pretending;
    int error = error_of_syncs != 0 && strstr(path, failing) != NULL ? error_of_syncs : 0;
    pthread_mutex_unlock(&lock);
    if (call != NULL)
        call(fd);
    if (error != 0) {
        errno = error;
        return -1;
    }
    int result = is_real ? (int)syscall(number, fd) : 0;
    if (result == 0)
        note(fd);
    return result;
}

int fsync(int fd)
{
    return sync_file(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_file(fd, SYS_fdatasync);
}

void disk_reset(void)
{
    disk_forget_syncs();
    disk_fail_syncs("", 0);
    disk_call_before_syncs(NULL);
    pthread_mutex_lock(&lock);
    is_pretending = false;
    pthread_mutex_unlock(&lock);
}

void disk_pretend(void)
{
    pthread_mutex_lock(&lock);
    is_pretending = true;
    pthread_mutex_unlock(&lock);
}

void disk_forget_syncs(void)
{
    pthread_mutex_lock(&lock);
    syncs_len = 0;
    pthread_mutex_unlock(&lock);
}

static size_t remembered_locked(void)
{
    return syncs_len < SYNCS_MAX ? syncs_len : SYNCS_MAX;
}

unsigned int disk_count_syncs(const char *part)
{
    unsigned int count = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < remembered_locked(); i++)
        count += strstr(syncs[i].path, part) != NULL ? 1 : 0;
    pthread_mutex_unlock(&lock);
    return count;
}

void disk_assert_synced(const char *end)
{
    bool is_found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < remembered_locked(); i++) {
        size_t len = strlen(syncs[i].path);
        is_found |= len >= strlen(end) && strcmp(syncs[i].path + len - strlen(end), end) == 0;
    }
    pthread_mutex_unlock(&lock);
    if (!is_found)
        fail_msg("%s was not made durable", end);
}

bool disk_has_newest_size(int dir_fd, const char *name)
{
    struct stat status;
    off_t size = -1;
    if (fstatat(dir_fd, name, &status, 0) != 0)
        return false;
    pthread_mutex_lock(&lock);
    for (size_t back = 1; back <= remembered_locked() && size < 0; back++) {
        const struct sync *sync = &syncs[(syncs_len - back) % SYNCS_MAX];
        size = sync->inode == status.st_ino ? sync->size : -1;
    }
    pthread_mutex_unlock(&lock);
    return size == status.st_size;
}

void disk_fail_syncs(const char *part, int error)
{
    pthread_mutex_lock(&lock);
    snprintf(failing, sizeof(failing), "%s", part);
    error_of_syncs = error;
    pthread_mutex_unlock(&lock);
}

void disk_call_before_syncs(void (*call)(int fd))
{
    pthread_mutex_lock(&lock);
    before_syncs = call;
    pthread_mutex_unlock(&lock);
}

static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

void disk_fill(size_t bytes)
{
    set_file_limit((rlim_t)bytes);
}

void disk_empty(void)
{
    set_file_limit(RLIM_INFINITY);
}
