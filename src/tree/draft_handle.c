/* SPDX-License-Identifier: MIT */
/*
 * Open drafts: the user's own files, passed through. What is added is the count of those who may write.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "tree/entry.h"
#include "tree/handle_type.h"
#include "tree/proc_path.h"

struct draft_handle {
    struct tree_handle base;
    struct draft_hold hold; /* so that the draft is known by whatever name it has, or none */
    int fd;
    atomic_bool is_flushed; /* closed by somebody, and not written to since */
};

static int read_draft(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    ret->fd = draft_handle_fd(handle);
    ret->len = len;
    ret->offset = offset;
    return 0;
}

/* A descriptor that goes on writing after a close(2) was a duplicate: not the last close. */
static void note_write(struct tree_handle *handle)
{
    struct draft_handle *draft = (struct draft_handle *)handle;
    if (draft->is_flushed && atomic_exchange(&draft->is_flushed, false))
        draft_node_set_flushed(&handle->tree->drafts, draft->hold.node, false);
}

static ssize_t write_draft(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                           size_t len, off_t offset)
{
    (void)caller;
    note_write(handle);
    ssize_t written = pwrite(draft_handle_fd(handle), bytes, len, offset);
    return written < 0 ? -errno : written;
}

static int set_draft_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    (void)caller;
    note_write(handle);
    return ftruncate(draft_handle_fd(handle), size) == 0 ? 0 : -errno;
}

static int allocate_draft(struct tree_handle *handle, const struct tree_caller *caller, int mode,
                          off_t offset, off_t len)
{
    (void)caller;
    note_write(handle);
    return fallocate(draft_handle_fd(handle), mode, offset, len) == 0 ? 0 : -errno;
}

/* What others write through a mapping the kernel keeps to itself for a while: it may be in a hole. */
static off_t seek_draft(struct tree_handle *handle, off_t offset, int whence)
{
    const struct draft_handle *draft = (struct draft_handle *)handle;
    unsigned int own = tree_handle_is_writable(handle) ? 1 : 0;
    if (draft_node_count_writers(&handle->tree->drafts, draft->hold.node) > own)
        return -EOPNOTSUPP;
    off_t found = lseek(draft_handle_fd(handle), offset, whence);
    return found < 0 ? -errno : found;
}

static int sync_draft(struct tree_handle *handle, bool is_data_only)
{
    int fd = draft_handle_fd(handle);
    return (is_data_only ? fdatasync(fd) : fsync(fd)) == 0 ? 0 : -errno;
}

static int flush_draft(struct tree_handle *handle, const struct tree_caller *caller)
{
    struct draft_handle *draft = (struct draft_handle *)handle;
    (void)caller;
    if (tree_handle_is_writable(handle) && !atomic_exchange(&draft->is_flushed, true))
        draft_node_set_flushed(&handle->tree->drafts, draft->hold.node, true);
    /* Closing a duplicate says what close(2) would say (EDQUOT, EIO) without closing the file itself. */
    int duplicate = fcntl(draft->fd, F_DUPFD_CLOEXEC, 0);
    return duplicate >= 0 && close(duplicate) != 0 ? -errno : 0;
}

static void release_draft(struct tree_handle *handle)
{
    struct draft_handle *draft = (struct draft_handle *)handle;
    struct draft_table *drafts = &handle->tree->drafts;
    close(draft->fd);
    if (tree_handle_is_writable(handle))
        draft_node_end_write(drafts, draft->hold.node, draft->is_flushed);
    draft_hold_release(&draft->hold);
    free(draft);
}

static const struct handle_ops draft_ops = {
    .caching = TREE_CACHE_OPEN,
    .read = read_draft,
    .write = write_draft,
    .set_size = set_draft_size,
    .allocate = allocate_draft,
    .seek = seek_draft,
    .sync = sync_draft,
    .flush = flush_draft,
    .release = release_draft,
};

int draft_handle_fd(const struct tree_handle *handle)
{
    return handle->ops == &draft_ops ? ((const struct draft_handle *)handle)->fd : -1;
}

/* Offsets come from the kernel, which appends by itself: with O_APPEND, pwrite(2) would not heed them. */
static int flags_for_file(int flags)
{
    return (flags & (O_ACCMODE | O_TRUNC | O_EXCL | O_SYNC | O_DSYNC)) | O_NOFOLLOW | O_CLOEXEC;
}

static bool may_change(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
}

/* Takes over the hold and `fd`, also when it fails. */
static int new_draft_handle(struct tree *tree, struct draft_hold *hold, int fd, int flags,
                            struct tree_handle **ret_handle)
{
    struct draft_handle *draft = handle_new(tree, &draft_ops, sizeof(*draft), flags);
    if (draft == NULL) {
        close(fd);
        return -ENOMEM;
    }
    draft->hold = *hold;
    draft->fd = fd;
    hold->table = NULL;
    *ret_handle = &draft->base;
    return 0;
}

static int open_held(struct tree *tree, struct draft_hold *hold, int flags, struct tree_handle **ret_handle)
{
    char path[PROC_PATH_MAX_BYTES];
    proc_path(hold->fd, path);
    int fd = open(path, flags_for_file(flags) & ~(O_NOFOLLOW | O_EXCL));
    return fd < 0 ? -errno : new_draft_handle(tree, hold, fd, flags, ret_handle);
}

int draft_open(struct tree *tree, struct draft_node *node, int flags, struct tree_handle **ret_handle)
{
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    int error = draft_hold(&tree->drafts, node, &hold);
    if (error == 0 && may_change(flags))
        error = draft_node_begin_write(&tree->drafts, node);
    if (error != 0)
        return error;
    error = open_held(tree, &hold, flags, ret_handle);
    /* O_RDONLY | O_TRUNC has done all its writing. */
    if (may_change(flags) && (error != 0 || (flags & O_ACCMODE) == O_RDONLY))
        draft_node_end_write(&tree->drafts, node, false);
    return error;
}

/* The mode is set apart, for this process has a umask of its own, and the kernel has applied the caller's. */
static int create_file(int dir_fd, const char *name, mode_t mode, int flags)
{
    int fd = openat(dir_fd, name, flags_for_file(flags) | O_CREAT | O_EXCL, mode & 07777);
    if (fd < 0 && errno == EEXIST && (flags & O_EXCL) == 0)
        fd = openat(dir_fd, name, flags_for_file(flags));
    else if (fd >= 0)
        fchmod(fd, mode & 07777);
    return fd < 0 ? -errno : fd;
}

/* Takes over `fd`. */
static int open_created(struct tree *tree, struct draft_node *node, int fd, int flags,
                        struct tree_handle **ret_handle)
{
    _cleanup_close_ int owned_fd = fd;
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    bool is_writer = (flags & O_ACCMODE) != O_RDONLY;
    int error = draft_hold(&tree->drafts, node, &hold);
    if (error == 0 && is_writer)
        error = draft_node_begin_write(&tree->drafts, node);
    if (error != 0)
        return error;
    error = new_draft_handle(tree, &hold, TAKE_FD(owned_fd), flags, ret_handle);
    if (error != 0 && is_writer)
        draft_node_end_write(&tree->drafts, node, false);
    return error;
}

int draft_create(struct tree *tree, struct draft_node *parent, const char *name, mode_t mode, int flags,
                 struct tree_entry *ret_entry, struct tree_handle **ret_handle)
{
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    struct draft_node *node = NULL;
    struct stat stat;
    int error = draft_hold(&tree->drafts, parent, &folder);
    if (error != 0)
        return error;
    _cleanup_close_ int fd = create_file(folder.fd, name, mode, flags);
    if (fd < 0)
        return fd;
    error = draft_table_find(&tree->drafts, parent, name, &node, &stat);
    if (error != 0)
        return error;
    error = open_created(tree, node, TAKE_FD(fd), flags, ret_handle);
    if (error != 0) {
        draft_node_unref(&tree->drafts, node, 1);
        return error;
    }
    entry_of_draft(draft_node_ino(&tree->drafts, node), &stat, ret_entry);
    return 0;
}
