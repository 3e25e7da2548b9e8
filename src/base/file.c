/* SPDX-License-Identifier: MIT */
/*
 * Bounded reads and atomic, durable writes of whole files.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

int file_write_all(int fd, const void *bytes, size_t len)
{
    const char *from = bytes;
    while (len > 0) {
        ssize_t written = TEMP_FAILURE_RETRY(write(fd, from, len));
        if (written < 0)
            return -errno;
        from += written;
        len -= (size_t)written;
    }
    return 0;
}

int file_pwrite_all(int fd, const void *bytes, size_t len, off_t offset)
{
    const char *from = bytes;
    while (len > 0) {
        ssize_t written = TEMP_FAILURE_RETRY(pwrite(fd, from, len, offset));
        if (written < 0)
            return -errno;
        from += written;
        offset += written;
        len -= (size_t)written;
    }
    return 0;
}

ssize_t file_pread_all(int fd, void *ret_bytes, size_t len, off_t offset)
{
    char *to = ret_bytes;
    size_t done = 0;
    while (done < len) {
        ssize_t got = TEMP_FAILURE_RETRY(pread(fd, to + done, len - done, offset + (off_t)done));
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/* Waits for the writers of a pipe, also if it was opened with O_NONBLOCK. */
static ssize_t read_pipe(int fd, char *ret_bytes, size_t len)
{
    size_t done = 0;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        return -errno;
    while (done < len) {
        ssize_t got = TEMP_FAILURE_RETRY(read(fd, ret_bytes + done, len - done));
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int file_read_fd(int fd, size_t max_bytes, char **ret_bytes, size_t *ret_len)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -errno;
    bool is_pipe = S_ISFIFO(status.st_mode);
    if (!is_pipe && (status.st_size < 0 || (size_t)status.st_size > max_bytes))
        return -EFBIG;

    size_t size = is_pipe ? max_bytes + 1 : (size_t)status.st_size;
    char *bytes = malloc(size + 1);
    if (bytes == NULL)
        return -ENOMEM;
    ssize_t got = is_pipe ? read_pipe(fd, bytes, size) : file_pread_all(fd, bytes, size, 0);
    if (got < 0 || (size_t)got > max_bytes) {
        explicit_bzero(bytes, size); /* the bytes may be a key */
        free(bytes);
        return got < 0 ? (int)got : -EFBIG;
    }
    bytes[got] = '\0';
    *ret_bytes = bytes;
    *ret_len = (size_t)got;
    return 0;
}

int file_read_at(int dir_fd, const char *name, size_t max_bytes, char **ret_bytes, size_t *ret_len)
{
    _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return fd < 0 ? -errno : file_read_fd(fd, max_bytes, ret_bytes, ret_len);
}

int file_sync(int fd)
{
    return fsync(fd) == 0 ? 0 : -errno;
}

void file_begin_sync(int fd, off_t offset, off_t len)
{
    (void)sync_file_range(fd, offset, len, SYNC_FILE_RANGE_WRITE); /* fsync(2) reports a failure again */
}

int file_replace_lazily_at(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode)
{
    char temporary[NAME_MAX + 1];
    int length = snprintf(temporary, sizeof(temporary), "%s.new", name);
    if (length < 0 || (size_t)length >= sizeof(temporary))
        return -ENAMETOOLONG;

    _cleanup_close_ int fd =
        openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    int error = fd < 0 ? -errno : file_write_all(fd, bytes, len);
    if (error == 0)
        error = file_sync(fd);
    if (error == 0 && renameat(dir_fd, temporary, dir_fd, name) != 0)
        error = -errno;
    if (error != 0)
        unlinkat(dir_fd, temporary, 0);
    return error;
}

int file_replace_at(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode)
{
    int error = file_replace_lazily_at(dir_fd, name, bytes, len, mode);
    return error != 0 ? error : file_sync(dir_fd);
}

/* Makes a missing directory. Makes its name durable, unless the user may not read the parent. */
static int make_dir(int dir_fd, const char *path)
{
    char parent[PATH_MAX + sizeof("/..")];
    if (mkdirat(dir_fd, path, 0700) != 0)
        return errno == EEXIST ? 0 : -errno;
    snprintf(parent, sizeof(parent), "%s/..", path);
    _cleanup_close_ int fd = openat(dir_fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? file_sync(fd) : errno == EACCES ? 0 : -errno;
}

int file_open_dir(int dir_fd, const char *path)
{
    char part[PATH_MAX];
    struct stat status;
    size_t len = strlen(path);
    if (len == 0)
        return -ENOENT;
    if (len >= sizeof(part))
        return -ENAMETOOLONG;
    memcpy(part, path, len + 1);

    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char end = part[i];
        part[i] = '\0';
        int error = make_dir(dir_fd, part);
        if (error != 0)
            return error;
        if (dir_fd != AT_FDCWD && fstatat(dir_fd, part, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(status.st_mode))
            return -ELOOP;
        part[i] = end;
    }
    int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

DIR *file_opendirat(int dir_fd, const char *path)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (directory == NULL)
        cleanup_close(&fd);
    return directory;
}

bool file_is_below(const char *path, const char *directory)
{
    char copy[PATH_MAX];
    char real[PATH_MAX];
    char real_directory[PATH_MAX];
    const char *existing = copy; /* the path up to its last part that exists */
    size_t len = strlen(path);
    if (len >= sizeof(copy) || realpath(directory, real_directory) == NULL)
        return false;
    memcpy(copy, path, len + 1);
    while (realpath(existing, real) == NULL) {
        if ((errno != ENOENT && errno != ENOTDIR) || strcmp(existing, ".") == 0)
            return false;
        existing = dirname(copy);
    }
    size_t directory_len = strcmp(real_directory, "/") == 0 ? 0 : strlen(real_directory);
    return strncmp(real, real_directory, directory_len) == 0 &&
           (real[directory_len] == '/' || real[directory_len] == '\0');
}

const char *file_why_not_private(int dir_fd)
{
    struct stat status;
    if (fstat(dir_fd, &status) != 0)
        return "it cannot be looked at";
    if (status.st_uid != geteuid())
        return "it belongs to another user: name another one";
    if ((status.st_mode & 022) != 0)
        return "others can write to it: chmod go-w it, and look at what is in it";
    return NULL;
}
