/* SPDX-License-Identifier: MIT */
/*
 * Open files. A handle is made by tree_open() or tree_create() and consumed by tree_release(); calls on one
 * handle may come from several threads at once, tree_release() comes last.
 */
#ifndef INBOXFS_TREE_HANDLE_H
#define INBOXFS_TREE_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tree/node.h"

struct tree_handle;

/* What the kernel may do with the content between reads. */
enum tree_caching {
    TREE_CACHE_NONE,    /* every read comes here, whatever the size is said to be */
    TREE_CACHE_OPEN,    /* keep until the next open, or until size or mtime change */
    TREE_CACHE_LASTING, /* keep until the watcher is told */
    TREE_CACHE_STREAM,  /* as NONE, and offsets mean nothing: seeking succeeds, to no effect. A read of 0
                           bytes means: not yet, wait for stream_grew. One thread at a time reads */
};

/* What a read answers: bytes in memory that stay until the handle is released (or `owned` is freed), or, when
 * `fd` is not -1, `len` bytes of that file from `offset` on, fewer where it ends. */
struct tree_data {
    const void *bytes;
    size_t len;
    int fd; /* borrowed */
    off_t offset;
    void *owned;
};
void tree_data_release(struct tree_data *data);

/* `flags` as open(2); O_TRUNC is obeyed. Read-only files: -EACCES. */
int tree_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
              struct tree_handle **ret_handle);

/* open(2) with O_CREAT of a name that was not there. Counts as a lookup. -EPERM where nothing can be made. */
int tree_create(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                mode_t mode, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle);

enum tree_caching tree_handle_caching(const struct tree_handle *handle);
/* Whether it was opened for writing: else tree_flush() has nothing to do. */
bool tree_handle_is_writable(const struct tree_handle *handle);
/* Whether tree_open() may wait (as tree_may_wait()). */
bool tree_open_may_wait(struct tree *tree, uint64_t ino, int flags);
/* Whether tree_flush() and tree_release() may wait, and tree_write(); and the next tree_write() or
 * tree_allocate(). */
bool tree_handle_may_wait(const struct tree_handle *handle);
bool tree_handle_write_may_wait(const struct tree_handle *handle);
bool tree_handle_next_write_may_wait(struct tree_handle *handle);

int tree_read(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret);
/* The whole content of a file that is opened for the first time and lasts in the kernel's cache: true once
 * for each, where it is short. */
bool tree_take_first_content(struct tree_handle *handle, struct tree_data *ret);
/* Whether a read would find something: false for a stream that has nothing new. */
bool tree_is_readable(struct tree_handle *handle);
/* The number of bytes written, or -errno. */
ssize_t tree_write(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                   size_t len, off_t offset);
int tree_allocate(struct tree_handle *handle, const struct tree_caller *caller, int mode, off_t offset,
                  off_t len);
/* lseek(2) for SEEK_DATA and SEEK_HOLE: the position found, or -errno. May wait as tree_get_attributes(). */
off_t tree_seek(struct tree_handle *handle, const struct tree_caller *caller, uint64_t ino, off_t offset,
                int whence);
/* copy_file_range(2); -EOPNOTSUPP unless both are drafts. */
ssize_t tree_copy_range(struct tree_handle *from, off_t from_offset, struct tree_handle *to, off_t to_offset,
                        size_t len);
/* fsync(2). */
int tree_sync_file(struct tree_handle *handle, bool is_data_only);
/* A close(2) of a descriptor; its error is the user's to see. */
int tree_flush(struct tree_handle *handle, const struct tree_caller *caller);
/* The last one has been closed. */
void tree_release(struct tree_handle *handle);
/* Releases what is left when the filesystem is gone for good: then every file has been closed, though the
 * kernel may not have come to say so. What its writer did not close well stays for tree_abandon_handles(). */
void tree_close_handles(struct tree *tree);
/* Frees every handle and listing that is left, when the kernel is gone with files still open: what was being
 * written into the outbox does not count as closed. After outbox_stop(). */
void tree_abandon_handles(struct tree *tree);

#endif
