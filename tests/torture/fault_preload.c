/* SPDX-License-Identifier: MIT */
/*
 * The disk's side of inboxfs, for tests: loaded by LD_PRELOAD, it lets calls fail, and writes down their
 * order.
 *
 * Calls on files under spool/ fail as the file says that FAULT_PLAN names; it may come, change and go while
 * the program runs:
 *
 *   CALL NTH COUNT ERRNO
 *
 * the COUNT calls from the NTH on, counted since the plan came (COUNT 0: all of them), fail with ERRNO (a
 * number). CALL is fsync (or fdatasync), write, rename, create, unlink, or any of these; or read.
 *
 * Calls on files under the directory STEP_ROOT are appended to the file STEP_LOG, a line each once it has
 * succeeded (paths are relative to STEP_ROOT; INODE is the file's own):
 *
 *   create INODE PATH
 *   write INODE            also: truncated
 *   text INODE JSON        a write that is an envelope
 *   begin THREAD INODE PATH, end THREAD INODE PATH     fsync or fdatasync; PATH says "." for STEP_ROOT
 *   rename INODE FROM TO, exchange INODE FROM TO, link INODE FROM TO, unlink PATH
 *   send KEY               before bytes with this idempotency key go to the service
 *
 * tests/mount/durable_order.py reads it.
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long plan_inode; /* protected by lock, like all below */
static struct timespec plan_mtime;
static unsigned long calls;

/* The next definition of the function, the C library's. A cast of a pointer to a function is not in ISO C. */
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

/* ---------------------------------------------------------------- the order of steps */

/* The path below STEP_ROOT, or NULL: there is nothing to write down. */
static const char *path_to_note(int fd, char path[PATH_SIZE])
{
    const char *root = getenv("STEP_ROOT");
    if (root == NULL || !find_path(fd, path) || strncmp(path, root, strlen(root)) != 0)
        return NULL;
    const char *rest = path + strlen(root);
    return *rest == '\0' ? "." : *rest == '/' ? rest + 1 : NULL;
}

/* By the kernel's calls: write(2) and open(2) are among those that are noted. errno stays. */
static void note(const char *line, const void *more, size_t more_len)
{
    int saved = errno;
    const char *log = getenv("STEP_LOG");
    int fd = log == NULL
                 ? -1
                 : (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    struct iovec parts[] = {{(void *)line, strlen(line)}, {(void *)more, more_len}, {(void *)"\n", 1}};
    if (fd >= 0) {
        if (syscall(SYS_writev, fd, parts, 3) < 0)
            abort();
        close(fd);
    }
    errno = saved;
}

static unsigned long inode_of(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

static void note_write(int fd, const void *bytes, size_t len)
{
    static const char envelope[] = "{\"version\":";
    char path[PATH_SIZE];
    char line[64];
    int saved = errno;
    if (getenv("STEP_LOG") != NULL && path_to_note(fd, path) != NULL) {
        bool is_text = len > sizeof(envelope) && memcmp(bytes, envelope, sizeof(envelope) - 1) == 0;
        const char *end = is_text ? memchr(bytes, '\n', len) : NULL;
        snprintf(line, sizeof(line), "%s %lu ", is_text ? "text" : "write", inode_of(fd));
        note(line, bytes, !is_text ? 0 : end == NULL ? len : (size_t)(end - (const char *)bytes));
    }
    errno = saved;
}

static void note_sync(const char *word, int fd)
{
    char path[PATH_SIZE];
    char line[PATH_SIZE + 64];
    const char *noted = getenv("STEP_LOG") == NULL ? NULL : path_to_note(fd, path);
    if (noted == NULL)
        return;
    snprintf(line, sizeof(line), "%s %ld %lu %s", word, syscall(SYS_gettid), inode_of(fd), noted);
    note(line, "", 0);
}

/* `other` may be NULL. The file is looked at under its last name. */
static void note_names(const char *word, int dir_fd, const char *name, int other_fd, const char *other)
{
    char path[2][PATH_SIZE];
    char line[3 * PATH_SIZE];
    struct stat status = {0};
    int saved = errno;
    const char *dir = getenv("STEP_LOG") == NULL ? NULL : path_to_note(dir_fd, path[0]);
    const char *other_dir = other == NULL ? "" : path_to_note(other_fd, path[1]);
    if (dir != NULL && other_dir != NULL) {
        if (strcmp(word, "unlink") == 0) {
            snprintf(line, sizeof(line), "unlink %s/%s", dir, name);
        } else if (other == NULL) {
            fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW);
            snprintf(line, sizeof(line), "%s %lu %s/%s", word, (unsigned long)status.st_ino, dir, name);
        } else {
            fstatat(other_fd, other, &status, AT_SYMLINK_NOFOLLOW);
            snprintf(line, sizeof(line), "%s %lu %s/%s %s/%s", word, (unsigned long)status.st_ino, dir, name,
                     other_dir, other);
        }
        note(line, "", 0);
    }
    errno = saved;
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

/* The error that this call is to have, or 0. */
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
    note_sync("begin", fd);
    int result = next(fd);
    if (result == 0)
        note_sync("end", fd);
    return result;
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
    ssize_t result = is_to_fail("write", fd) ? -1 : next(fd, bytes, len);
    if (result > 0)
        note_write(fd, bytes, (size_t)result);
    return result;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
    ssize_t (*next)(int, const void *, size_t, off_t);
    find_next("pwrite64", &next);
    ssize_t result = is_to_fail("write", fd) ? -1 : next(fd, bytes, len, offset);
    if (result > 0)
        note_write(fd, bytes, (size_t)result);
    return result;
}

ssize_t pread64(int fd, void *bytes, size_t len, off_t offset)
{
    ssize_t (*next)(int, void *, size_t, off_t);
    find_next("pread64", &next);
    return is_to_fail("read", fd) ? -1 : next(fd, bytes, len, offset);
}

int ftruncate64(int fd, off_t len)
{
    int (*next)(int, off_t);
    find_next("ftruncate64", &next);
    int result = next(fd, len);
    if (result == 0)
        note_write(fd, "", 0);
    return result;
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    int (*next)(int, const char *, int, const char *);
    find_next("renameat", &next);
    int result = is_to_fail("rename", to_fd) ? -1 : next(from_fd, from, to_fd, to);
    if (result == 0)
        note_names("rename", from_fd, from, to_fd, to);
    return result;
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
{
    int (*next)(int, const char *, int, const char *, unsigned int);
    find_next("renameat2", &next);
    int result = is_to_fail("rename", to_fd) ? -1 : next(from_fd, from, to_fd, to, flags);
    if (result == 0)
        note_names((flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename", from_fd, from, to_fd, to);
    return result;
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    int (*next)(int, const char *, int, const char *, int);
    find_next("linkat", &next);
    int result = next(from_fd, from, to_fd, to, flags);
    if (result == 0)
        note_names("link", from_fd, from, to_fd, to);
    return result;
}

int unlinkat(int dir_fd, const char *name, int flags)
{
    int (*next)(int, const char *, int);
    find_next("unlinkat", &next);
    int result = is_to_fail("unlink", dir_fd) ? -1 : next(dir_fd, name, flags);
    if (result == 0)
        note_names("unlink", dir_fd, name, -1, NULL);
    return result;
}

int openat64(int dir_fd, const char *name, int flags, ...)
{
    int (*next)(int, const char *, int, ...);
    struct stat status;
    mode_t mode = 0;
    if ((flags & O_CREAT) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    find_next("openat64", &next);
    if ((flags & O_CREAT) == 0)
        return next(dir_fd, name, flags, mode);
    bool is_new = fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0;
    int fd = is_to_fail("create", dir_fd) ? -1 : next(dir_fd, name, flags, mode);
    if (fd >= 0 && is_new)
        note_names("create", dir_fd, name, -1, NULL);
    else if (fd >= 0 && (flags & O_TRUNC) != 0)
        note_write(fd, "", 0);
    return fd;
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    static const char field[] = "\"idempotency_key\"";
    ssize_t (*next)(int, const void *, size_t, int);
    const char *key = getenv("STEP_LOG") == NULL ? NULL : memmem(bytes, len, field, sizeof(field) - 1);
    const char *end = (const char *)bytes + len;
    for (int quotes = 0; key != NULL && quotes < 2;
         quotes++) /* the one behind the name, the one before the key */
        key = memchr(key + 1, '"', (size_t)(end - key - 1));
    if (key != NULL && end - key > 36)
        note("send ", key + 1, 36);
    find_next("send", &next);
    return next(fd, bytes, len, flags);
}
