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

/* Write all `len` bytes; both continue after short writes and EINTR. */
int file_write_all(int fd, const void *bytes, size_t len);
int file_pwrite_all(int fd, const void *bytes, size_t len, off_t offset);

/* Reads `len` bytes; continues after short reads and EINTR. Return: the number of bytes, less than `len` only
 * at the end of the file; or -errno. */
ssize_t file_pread_all(int fd, void *ret_bytes, size_t len, off_t offset);

/* Reads the whole content of an open file, or of a pipe until its writers have closed it, and puts a NUL
 * after the content. The caller frees *ret_bytes. Return: 0; -EFBIG when the file is longer than `max_bytes`;
 * -ENOMEM; or -errno. */
int file_read_fd(int fd, size_t max_bytes, char **ret_bytes, size_t *ret_len);

/* Opens a file and does file_read_fd(). Return: also -ELOOP when the name is a symbolic link. */
int file_read_at(int dir_fd, const char *name, size_t max_bytes, char **ret_bytes, size_t *ret_len);

/* Replaces or makes the file `name` atomically; the file is durable when the function returns 0. Overwrites
 * the temporary file NAME.new. Return: also -ENAMETOOLONG when NAME.new is too long. */
int file_replace_at(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode);

/* Like file_replace_at(), but leaves the fsync of the directory to the caller: once for several files. */
int file_replace_lazily_at(int dir_fd, const char *name, const void *bytes, size_t len, mode_t mode);

int file_sync(int fd);

/* Starts the write-back of `len` bytes at `offset` (0: up to the end), so that a later file_sync() waits
 * less. Does not wait, and ignores failures; nothing is durable before file_sync(). */
void file_begin_sync(int fd, off_t offset, off_t len);

/* Opens a directory. Makes missing directories of the path (0700), with durable names. Follows symbolic links
 * only if `dir_fd` is AT_FDCWD, since the user chose such a path. Return: the descriptor, which the caller
 * closes; -ELOOP when a link is on the path and `dir_fd` is a descriptor; or -errno. */
int file_open_dir(int dir_fd, const char *path);

/* Like opendir(3), for a path below `dir_fd`. */
DIR *file_opendirat(int dir_fd, const char *path);

/* Returns true if `path`, whose last parts may be missing, is the directory or lies below it. Follows
 * symbolic links. Returns false also on failure. */
bool file_is_below(const char *path, const char *directory);

/* Returns NULL if the directory belongs to this user and no other user can write to it; otherwise a static
 * text that says what is wrong and what the user can do. */
const char *file_why_not_private(int dir_fd);

#endif
