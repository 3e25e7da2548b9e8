/* SPDX-License-Identifier: MIT */
/*
 * Records what a program changes on the disk, for the power-cut checker (tests/torture/power_cuts.c). Loaded
 * by LD_PRELOAD, it appends each change below the directory RECORD_ROOT, and each fsync there, to the file
 * RECORD_LOG. A change is made and recorded under one lock, so that the records have the order of the
 * changes. An fsync has two records: changes before the first are on the disk at the second.
 *
 * RECORD_ROOT is a path without symbolic links. Only the folders in it that RECORD_ONLY names are recorded
 * (":spool:drafts:"). An fsync takes up to RECORD_PAUSE microseconds longer than it would, so that other
 * threads change things meanwhile.
 *
 * A record is a line; paths are relative to RECORD_ROOT and end the line, with line ends in them as "\n":
 *
 *   create INODE PATH         a new file; of O_TMPFILE without a path
 *   mkdir INODE PATH
 *   write INODE OFFSET LEN    followed by LEN bytes and a line end
 *   truncate INODE SIZE       the file becomes shorter or longer
 *   link INODE PATH           one more name
 *   rename INODE OLD/NEW      the two paths with "//" between; likewise exchange
 *   exchange INODE OLD/NEW
 *   unlink PATH, rmdir PATH
 *   begin ID INODE, end ID    fsync or fdatasync of a file or a directory (INODE 0: all of it)
 *   other WORDS               a change of another kind, which the checker refuses
 *
 * Writes through a mapping are not recorded; SQLite makes some in its -shm files, whose content is not used
 * by the next process.
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
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    PATH_SIZE = 4096,
    LINE_SIZE = 3 * PATH_SIZE
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held over a change and its record */
static unsigned long syncs;                              /* protected by lock */

/* Finds the C library's definition of the function. ISO C has no cast to a pointer to a function. */
static void find_next(const char *name, void *ret_function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(ret_function, &found, sizeof(found));
}

/* ---------------------------------------------------------------- paths */

static bool path_of_fd(int fd, char ret_path[PATH_SIZE])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, ret_path, PATH_SIZE - 1);
    ret_path[len < 0 ? 0 : len] = '\0';
    return len > 0;
}

/* Returns the part of the path below RECORD_ROOT ("." for RECORD_ROOT itself); NULL if it is not recorded. */
static const char *part_below_root(const char *path)
{
    const char *root = getenv("RECORD_ROOT");
    const char *wanted = getenv("RECORD_ONLY");
    if (root == NULL || getenv("RECORD_LOG") == NULL || strncmp(path, root, strlen(root)) != 0)
        return NULL;
    const char *part = path + strlen(root);
    if (*part == '\0')
        return ".";
    if (*part != '/')
        return NULL;
    part++;
    char top[300];
    snprintf(top, sizeof(top), ":%.*s:", (int)strcspn(part, "/"), part);
    return wanted == NULL || strstr(wanted, top) != NULL ? part : NULL;
}

static const char *part_of_fd(int fd, char path[PATH_SIZE])
{
    return path_of_fd(fd, path) ? part_below_root(path) : NULL;
}

/* Does part_below_root() for a path that need not exist. Follows symbolic links in its folders. */
static const char *part_of_name(int dir_fd, const char *name, char path[PATH_SIZE])
{
    char parent[PATH_SIZE];
    const char *slash = strrchr(name, '/');
    const char *last = slash == NULL ? name : slash + 1;
    size_t len = slash == NULL ? 0 : (size_t)(slash - name);
    if (len >= sizeof(parent) || *last == '\0')
        return NULL;
    if (slash == NULL)
        strcpy(parent, ".");
    else
        snprintf(parent, sizeof(parent), "%.*s/", (int)len, name);
    int saved = errno;
    int fd = (int)syscall(SYS_openat, dir_fd, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool is_found = fd >= 0 && path_of_fd(fd, path);
    if (fd >= 0)
        close(fd);
    errno = saved;
    size_t at = strlen(path);
    if (!is_found || at + 1 + strlen(last) >= PATH_SIZE)
        return NULL;
    snprintf(path + at, PATH_SIZE - at, "/%s", last);
    return part_below_root(path);
}

/* ---------------------------------------------------------------- records */

/* Uses system calls, because write(2) and open(2) are recorded functions. Keeps errno. */
static void record(const char *line, const struct iovec *bytes, int bytes_len)
{
    int saved = errno;
    struct iovec parts[70] = {{(void *)line, strlen(line)}, {(void *)"\n", 1}};
    int len = 2;
    for (int i = 0; i < bytes_len && i < 64; i++)
        parts[len++] = bytes[i];
    if (bytes_len > 0)
        parts[len++] = (struct iovec){(void *)"\n", 1};
    int fd = (int)syscall(SYS_openat, AT_FDCWD, getenv("RECORD_LOG"),
                          O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || bytes_len > 64 || syscall(SYS_writev, fd, parts, len) < 0)
        abort();
    close(fd);
    errno = saved;
}

static void escape(const char *path, char ret[PATH_SIZE])
{
    size_t len = 0;
    for (; *path != '\0' && len + 3 < PATH_SIZE; path++) {
        if (*path == '\n' || *path == '\\')
            ret[len++] = '\\';
        ret[len++] = *path == '\n' ? 'n' : *path;
    }
    ret[len] = '\0';
}

static unsigned long inode_of(int dir_fd, const char *name)
{
    struct stat status;
    int flags = AT_SYMLINK_NOFOLLOW | (*name == '\0' ? AT_EMPTY_PATH : 0);
    int saved = errno;
    bool is_there = fstatat(dir_fd, name, &status, flags) == 0;
    errno = saved;
    return is_there ? status.st_ino : 0;
}

static void record_name(const char *word, unsigned long inode, const char *part)
{
    char line[LINE_SIZE];
    char escaped[PATH_SIZE];
    escape(part, escaped);
    if (inode == 0)
        snprintf(line, sizeof(line), "%s %s", word, escaped);
    else
        snprintf(line, sizeof(line), "%s %lu %s", word, inode, escaped);
    record(line, NULL, 0);
}

static void record_other(const char *call, const char *part)
{
    char line[LINE_SIZE];
    snprintf(line, sizeof(line), "other %s %s", call, part);
    record(line, NULL, 0);
}

static void record_write(int fd, off_t offset, const struct iovec *bytes, int bytes_len, ssize_t written)
{
    char line[128];
    struct iovec parts[64];
    size_t left = (size_t)written;
    int len = 0;
    for (; len < bytes_len && len < 64 && left > 0; len++) {
        parts[len] = bytes[len];
        parts[len].iov_len = bytes[len].iov_len < left ? bytes[len].iov_len : left;
        left -= parts[len].iov_len;
    }
    if (left > 0)
        abort();
    snprintf(line, sizeof(line), "write %lu %lld %zd", inode_of(fd, ""), (long long)offset, written);
    record(line, parts, len);
}

static void record_size(int fd, off_t size)
{
    char line[128];
    snprintf(line, sizeof(line), "truncate %lu %lld", inode_of(fd, ""), (long long)size);
    record(line, NULL, 0);
}

/* ---------------------------------------------------------------- fsync */

static void pause_at_random(void)
{
    const char *longest = getenv("RECORD_PAUSE");
    unsigned long most = longest == NULL ? 0 : strtoul(longest, NULL, 10);
    if (most > 0)
        usleep((useconds_t)(random() % (long)most));
}

static unsigned long record_begin(unsigned long inode)
{
    char line[128];
    pthread_mutex_lock(&lock);
    unsigned long id = (unsigned long)getpid() * 1000000 + ++syncs;
    snprintf(line, sizeof(line), "begin %lu %lu", id, inode);
    record(line, NULL, 0);
    pthread_mutex_unlock(&lock);
    return id;
}

static void record_end(unsigned long id)
{
    char line[128];
    pthread_mutex_lock(&lock);
    snprintf(line, sizeof(line), "end %lu", id);
    record(line, NULL, 0);
    pthread_mutex_unlock(&lock);
}

static int sync_file(const char *name, int fd)
{
    int (*next)(int);
    char path[PATH_SIZE];
    find_next(name, &next);
    if (part_of_fd(fd, path) == NULL)
        return next(fd);
    unsigned long id = record_begin(strcmp(name, "syncfs") == 0 ? 0 : inode_of(fd, ""));
    pause_at_random();
    int result = next(fd);
    if (result == 0)
        record_end(id);
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

int syncfs(int fd)
{
    return sync_file("syncfs", fd);
}

/* ---------------------------------------------------------------- bytes */

/* `offset` is -1 for the descriptor's own offset. `call` makes the system call. */
static ssize_t write_recorded(int fd, off_t offset, const struct iovec *bytes, int bytes_len)
{
    char path[PATH_SIZE];
    if (part_of_fd(fd, path) == NULL)
        return offset < 0 ? syscall(SYS_writev, fd, bytes, bytes_len)
                          : syscall(SYS_pwritev, fd, bytes, bytes_len, offset, 0);
    pthread_mutex_lock(&lock);
    ssize_t written = offset < 0 ? syscall(SYS_writev, fd, bytes, bytes_len)
                                 : syscall(SYS_pwritev, fd, bytes, bytes_len, offset, 0);
    if (written > 0)
        record_write(fd, offset < 0 ? lseek(fd, 0, SEEK_CUR) - written : offset, bytes, bytes_len, written);
    pthread_mutex_unlock(&lock);
    return written;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    return write_recorded(fd, -1, &(struct iovec){(void *)bytes, len}, 1);
}

ssize_t writev(int fd, const struct iovec *bytes, int bytes_len)
{
    return write_recorded(fd, -1, bytes, bytes_len);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t offset)
{
    return write_recorded(fd, offset, &(struct iovec){(void *)bytes, len}, 1);
}

ssize_t pwritev64(int fd, const struct iovec *bytes, int bytes_len, off_t offset)
{
    return write_recorded(fd, offset, bytes, bytes_len);
}

int ftruncate64(int fd, off_t size)
{
    int (*next)(int, off_t);
    char path[PATH_SIZE];
    find_next("ftruncate64", &next);
    if (part_of_fd(fd, path) == NULL)
        return next(fd, size);
    pthread_mutex_lock(&lock);
    int result = next(fd, size);
    if (result == 0)
        record_size(fd, size);
    pthread_mutex_unlock(&lock);
    return result;
}

int truncate64(const char *name, off_t size)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CLOEXEC, 0);
    int result = fd < 0 ? -1 : ftruncate64(fd, size);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
    return result;
}

int fallocate64(int fd, int mode, off_t offset, off_t len)
{
    int (*next)(int, int, off_t, off_t);
    char path[PATH_SIZE];
    find_next("fallocate64", &next);
    const char *part = part_of_fd(fd, path);
    if (part == NULL)
        return next(fd, mode, offset, len);
    pthread_mutex_lock(&lock);
    int result = next(fd, mode, offset, len);
    struct stat status;
    if (result == 0 && mode != 0 && mode != FALLOC_FL_KEEP_SIZE)
        record_other("fallocate", part);
    else if (result == 0 && fstat(fd, &status) == 0)
        record_size(fd, status.st_size);
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t len,
                        unsigned int flags)
{
    char path[PATH_SIZE];
    char bytes[65536];
    ssize_t (*next)(int, off_t *, int, off_t *, size_t, unsigned int);
    find_next("copy_file_range", &next);
    if (part_of_fd(to, path) == NULL)
        return next(from, from_offset, to, to_offset, len, flags);
    if (from_offset == NULL || to_offset == NULL) {
        errno = EINVAL;
        return -1;
    }
    ssize_t got = pread(from, bytes, len < sizeof(bytes) ? len : sizeof(bytes), *from_offset);
    ssize_t done = got <= 0 ? got : pwrite64(to, bytes, (size_t)got, *to_offset);
    if (done > 0) {
        *from_offset += done;
        *to_offset += done;
    }
    return done;
}

ssize_t splice(int from, off_t *from_offset, int to, off_t *to_offset, size_t len, unsigned int flags)
{
    char path[PATH_SIZE];
    const char *part = part_of_fd(to, path);
    if (part != NULL)
        record_other("splice", part);
    return syscall(SYS_splice, from, from_offset, to, to_offset, len, flags);
}

/* ---------------------------------------------------------------- names */

static int open_recorded(int dir_fd, const char *name, int flags, mode_t mode)
{
    char path[PATH_SIZE];
    bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
    const char *part =
        is_nameless || (flags & (O_CREAT | O_TRUNC)) != 0 ? part_of_name(dir_fd, name, path) : NULL;
    if (part == NULL)
        return (int)syscall(SYS_openat, dir_fd, name, flags, mode);
    pthread_mutex_lock(&lock);
    bool is_new = is_nameless || inode_of(dir_fd, name) == 0;
    int fd = (int)syscall(SYS_openat, dir_fd, name, flags, mode);
    if (fd >= 0 && is_new)
        record_name("create", inode_of(fd, ""), is_nameless ? "" : part);
    else if (fd >= 0 && (flags & O_TRUNC) != 0)
        record_size(fd, 0);
    if (fd >= 0 && (flags & (O_SYNC | O_DSYNC)) != 0)
        record_other("O_SYNC", part);
    pthread_mutex_unlock(&lock);
    return fd;
}

static mode_t mode_of(int flags, va_list arguments)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

int open64(const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_recorded(AT_FDCWD, name, flags, mode);
}

int openat64(int dir_fd, const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_recorded(dir_fd, name, flags, mode);
}

static volatile bool is_loaded; /* volatile: clang runs constructors when it compiles */

__attribute__((constructor)) static void note_loaded(void)
{
    is_loaded = true;
}

/* AddressSanitizer calls this to make the folder of its log, before functions such as snprintf() work. */
int mkdirat(int dir_fd, const char *name, mode_t mode)
{
    char path[PATH_SIZE];
    const char *part = is_loaded ? part_of_name(dir_fd, name, path) : NULL;
    if (part == NULL)
        return (int)syscall(SYS_mkdirat, dir_fd, name, mode);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_mkdirat, dir_fd, name, mode);
    if (result == 0)
        record_name("mkdir", inode_of(dir_fd, name), part);
    pthread_mutex_unlock(&lock);
    return result;
}

int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}

static void record_move(const char *word, unsigned long inode, const char *from, const char *to)
{
    char line[LINE_SIZE];
    char escaped[2][PATH_SIZE];
    escape(from, escaped[0]);
    escape(to, escaped[1]);
    snprintf(line, sizeof(line), "%s %lu %s//%s", word, inode, escaped[0], escaped[1]);
    record(line, NULL, 0);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
{
    int (*next)(int, const char *, int, const char *, unsigned int);
    char path[2][PATH_SIZE];
    find_next("renameat2", &next);
    const char *source = part_of_name(from_fd, from, path[0]);
    const char *target = part_of_name(to_fd, to, path[1]);
    if (source == NULL && target == NULL)
        return next(from_fd, from, to_fd, to, flags);
    pthread_mutex_lock(&lock);
    int result = next(from_fd, from, to_fd, to, flags);
    if (result == 0 && (source == NULL || target == NULL))
        record_other("rename", source == NULL ? target : source);
    else if (result == 0)
        record_move((flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename", inode_of(to_fd, to), source,
                    target);
    pthread_mutex_unlock(&lock);
    return result;
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return renameat2(from_fd, from, to_fd, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    int (*next)(int, const char *, int, const char *, int);
    char path[PATH_SIZE];
    find_next("linkat", &next);
    const char *part = part_of_name(to_fd, to, path);
    if (part == NULL)
        return next(from_fd, from, to_fd, to, flags);
    pthread_mutex_lock(&lock);
    int result = next(from_fd, from, to_fd, to, flags);
    if (result == 0)
        record_name("link", inode_of(to_fd, to), part);
    pthread_mutex_unlock(&lock);
    return result;
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int dir_fd, const char *name, int flags)
{
    int (*next)(int, const char *, int);
    char path[PATH_SIZE];
    find_next("unlinkat", &next);
    const char *part = part_of_name(dir_fd, name, path);
    if (part == NULL)
        return next(dir_fd, name, flags);
    pthread_mutex_lock(&lock);
    int result = next(dir_fd, name, flags);
    if (result == 0)
        record_name((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", 0, part);
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

int rmdir(const char *name)
{
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}
