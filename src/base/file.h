/* SPDX-License-Identifier: MIT */
/*
 * Whole files: read bounded, written atomically and durably. The order of a durable write is
 * write, fsync, rename, fsync of the directory; after a crash the old or the new content is there, never a
 * mix.
 */
#ifndef INBOXFS_BASE_FILE_H
#define INBOXFS_BASE_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes all of it, going on after short writes and EINTR. 0 or -errno. */
int file_write_all(int fd, const void *bytes, size_t len);
int file_pwrite_all(int fd, const void *bytes, size_t len, off_t offset);

/* Reads up to `len` bytes, going on after short reads and EINTR: the number read (less only at the end), or
 * -errno. */
ssize_t file_pread_all(int fd, void *ret_bytes, size_t len, off_t offset);

/* The whole content of an open file, NUL-terminated for convenience. -EFBIG when it is longer than
 * `max_bytes`. The caller frees *ret_bytes. */
int file_read_fd(int fd, size_t max_bytes, char **ret_bytes, size_t *ret_len);

/* The same of what may be a pipe: its end is waited for. */
int file_read_input(int fd, size_t max_bytes, char **ret_bytes, size_t *ret_len);

/* file_read_fd() by name. A symbolic link is not followed (-ELOOP). */
int file_read_at(int dir_fd, const char *name, size_t max_bytes, char **ret_bytes, size_t *ret_len);

/* Replaces (or makes) `name` with this content, atomically. Durable when it returns 0. The temporary file is
 * `name` with ".new" behind it; one left over from a crash is replaced. */
int file_replace_at(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode);

/* The same without the last step: the caller fsyncs the directory, once for several files. */
int file_replace_lazily_at(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode);

/* fsync of a directory, or of any file. 0 or -errno. */
int file_sync(int fd);

/* Lets bytes that were written set out for the disk (`len` 0: all behind `offset`), and does not wait for
 * them, so that file_sync() has less to wait for later. Promises nothing. */
void file_begin_sync(int fd, off_t offset, off_t len);

/* Opens a directory below `dir_fd`, making it (0700) and its missing parents first: the names of those that
 * it makes are durable when it returns. AT_FDCWD is allowed; then symbolic links are the user's, and are
 * followed. The descriptor (O_DIRECTORY | O_CLOEXEC), or -errno: -ELOOP for a symbolic link below `dir_fd`.
 */
int file_open_dir(int dir_fd, const char *path);

/* opendir(3) below `dir_fd`. NULL with errno. */
DIR *file_opendirat(int dir_fd, const char *path);

/* Returns true if a file or directory of this path would be in that directory, or below it, or is the
 * directory itself: by whatever links and mounts the path leads there, and where its last parts do not exist
 * yet, too. False where that cannot be found out. */
bool file_is_below(const char *path, const char *directory);

/* NULL: the open directory is this user's, and nobody else can write there. Otherwise words on what is to be
 * done. */
const char *file_why_not_private(int dir_fd);

#endif
