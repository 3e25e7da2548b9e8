/* SPDX-License-Identifier: MIT */
/*
 * Whole files: reads are bounded, and writes are atomic and durable. A durable write is write, fsync, rename,
 * fsync of the directory, in this order: after a crash the file has its old or its new content, never a mix.
 * Unless said otherwise, functions return 0, or -errno of the system call that failed.
 */
#ifndef INBOXFS_BASE_FILE_H
#define INBOXFS_BASE_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Write all `len` bytes: short writes and EINTR are continued. */
int file_write_all(int fd, const void *bytes, size_t len);
int file_pwrite_all(int fd, const void *bytes, size_t len, off_t offset);

/* Reads `len` bytes; short reads and EINTR are continued. Return: the number of bytes read, which is smaller
 * than `len` only at the end of the file; or -errno. */
ssize_t file_pread_all(int fd, void *ret_bytes, size_t len, off_t offset);

/* Reads the whole content of an open file, and puts a NUL behind it. The caller frees *ret_bytes. Return: 0;
 * -EFBIG when the file is longer than `max_bytes`; -ENOMEM; or -errno. */
int file_read_fd(int fd, size_t max_bytes, char **ret_bytes, size_t *ret_len);

/* Does the same for a file or a pipe. Waits until the writer closes the pipe. */
int file_read_input(int fd, size_t max_bytes, char **ret_bytes, size_t *ret_len);

/* Does file_read_fd() by name. Return: also -ELOOP when the name is a symbolic link. */
int file_read_at(int dir_fd, const char *name, size_t max_bytes, char **ret_bytes, size_t *ret_len);

/* Replaces or makes the file `name` atomically; it is durable when 0 is returned. The temporary file is
 * NAME.new; one left over from a crash is overwritten. Return: also -ENAMETOOLONG when NAME.new is too long.
 */
int file_replace_at(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode);

/* Does the same without the last step: the caller fsyncs the directory, once for several files. */
int file_replace_lazily_at(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode);

/* Does fsync(2) of a file or directory. */
int file_sync(int fd);

/* Starts the write-back of `len` bytes from `offset` on (`len` 0: up to the end) and does not wait for it, so
 * that a later file_sync() waits less. Failures are ignored; nothing is durable before file_sync(). */
void file_begin_sync(int fd, off_t offset, off_t len);

/* Opens a directory below `dir_fd`, after making it (0700) and its missing parents; the names of new ones are
 * durable when it returns. With AT_FDCWD, symbolic links are followed, since they are the user's own. Return:
 * the descriptor, which the caller closes; -ELOOP when a link is on the path below another `dir_fd`; -errno.
 */
int file_open_dir(int dir_fd, const char *path);

/* Does opendir(3) below `dir_fd`. Returns NULL and sets errno on failure. */
DIR *file_opendirat(int dir_fd, const char *path);

/* Returns true if `path` is the directory or lies below it, or would after its missing last parts are made.
 * Links and mounts on the path are followed. Returns false if the answer cannot be found out. */
bool file_is_below(const char *path, const char *directory);

/* Returns NULL if the directory belongs to this user and no other user can write to it; otherwise a static
 * sentence on how to repair that. */
const char *file_why_not_private(int dir_fd);

#endif
