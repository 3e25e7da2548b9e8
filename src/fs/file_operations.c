/* SPDX-License-Identifier: MIT */
/*
 * Requests about open files.
 */
#include <errno.h>
#include <poll.h>

#include "fs/first_content.h"
#include "fs/operations.h"
#include "fs/reply.h"
#include "fs/session_state.h"
#include "tree/tree.h"

static struct tree_handle *handle_of(const struct fuse_file_info *file)
{
    return (struct tree_handle *)(uintptr_t)file->fh;
}

static struct tree_caller caller_of(fuse_req_t request)
{
    return (struct tree_caller){.pid = fuse_req_ctx(request)->pid};
}

static void open_file(struct tree *tree, const struct tree_caller *caller,
                      const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_open(tree, caller, arguments->ino, (int)arguments->flags, &ret->opened);
}

void op_open(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.ino = ino, .flags = (unsigned int)file->flags};
    struct fs_session *session = session_of(request);
    const struct tree_caller caller = caller_of(request);
    struct request_outcome outcome = {.error = 0};
    if (tree_open_may_wait(session->tree, ino, file->flags)) {
        request_run(request, true, &arguments, open_file);
        return;
    }
    open_file(session->tree, &caller, &arguments, &outcome);
    if (outcome.error != 0) {
        reply_status(request, outcome.error);
        return;
    }
    first_content_give(session, ino, outcome.opened);
    reply_open(request, outcome.opened);
}

void op_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *file)
{
    const struct tree_caller caller = caller_of(request);
    struct fs_session *session = session_of(request);
    struct tree_handle *handle = NULL;
    struct tree_entry entry;
    int error;
    if (announcer_is_helper(&session->announcer, caller.pid))
        error = tree_create_announced(session->tree, parent, name, &entry, &handle);
    else
        error = tree_create(session->tree, &caller, parent, name, mode, file->flags, &entry, &handle);
    if (error != 0)
        reply_status(request, error);
    else
        reply_create(request, &entry, handle, file);
}

void op_read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *file)
{
    struct tree_handle *handle = handle_of(file);
    struct tree_data data;
    (void)ino;
    if (tree_handle_caching(handle) == TREE_CACHE_STREAM) {
        stream_read(request, handle, size, file->flags);
        return;
    }
    int error = tree_read(handle, size, offset, &data);
    if (error != 0)
        reply_status(request, error);
    else
        reply_data(request, &data);
}

static void write_file(struct tree *tree, const struct tree_caller *caller,
                       const struct request_arguments *arguments, struct request_outcome *ret)
{
    (void)tree;
    ssize_t written =
        tree_write(arguments->handle, caller, arguments->bytes, arguments->len, arguments->offset);
    if (written < 0) {
        ret->error = (int)written;
    } else {
        ret->count = (size_t)written;
        ret->has_count = true;
    }
    /* After `echo sync >ctl`, `ls` lists what the sync brought, and a watcher knows. */
    ret->must_be_seen = tree_handle_write_may_wait(arguments->handle);
    ret->must_be_announced = ret->must_be_seen;
}

void op_write(fuse_req_t request, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
              struct fuse_file_info *file)
{
    struct tree_handle *handle = handle_of(file);
    const struct request_arguments arguments = {
        .handle = handle, .bytes = bytes, .len = size, .offset = offset};
    (void)ino;
    request_run(request, tree_handle_next_write_may_wait(handle), &arguments, write_file);
}

static void allocate_file(struct tree *tree, const struct tree_caller *caller,
                          const struct request_arguments *arguments, struct request_outcome *ret)
{
    (void)tree;
    ret->error = tree_allocate(arguments->handle, caller, (int)arguments->flags, arguments->offset,
                               (off_t)arguments->len);
}

void op_fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t len,
                  struct fuse_file_info *file)
{
    struct tree_handle *handle = handle_of(file);
    const struct request_arguments arguments = {
        .handle = handle, .flags = (unsigned int)mode, .offset = offset, .len = (size_t)len};
    (void)ino;
    request_run(request, tree_handle_next_write_may_wait(handle), &arguments, allocate_file);
}

static void seek_file(struct tree *tree, const struct tree_caller *caller,
                      const struct request_arguments *arguments, struct request_outcome *ret)
{
    (void)tree;
    ret->offset =
        tree_seek(arguments->handle, caller, arguments->ino, arguments->offset, (int)arguments->flags);
    ret->error = ret->offset < 0 ? (int)ret->offset : 0;
    ret->has_offset = true;
}

/* The kernel asks for data and holes alone. */
void op_lseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {
        .ino = ino, .handle = handle_of(file), .flags = (unsigned int)whence, .offset = offset};
    request_run(request, tree_get_attributes_may_wait(ino), &arguments, seek_file);
}

void op_copy_file_range(fuse_req_t request, fuse_ino_t ino_in, off_t offset_in,
                        struct fuse_file_info *file_in, fuse_ino_t ino_out, off_t offset_out,
                        struct fuse_file_info *file_out, size_t len, int flags)
{
    (void)ino_in;
    (void)ino_out;
    (void)flags;
    ssize_t copied = tree_copy_range(handle_of(file_in), offset_in, handle_of(file_out), offset_out, len);
    if (copied < 0)
        reply_status(request, (int)copied);
    else
        fuse_reply_write(request, (size_t)copied);
}

static void flush_file(struct tree *tree, const struct tree_caller *caller,
                       const struct request_arguments *arguments, struct request_outcome *ret)
{
    (void)tree;
    ret->error = tree_flush(arguments->handle, caller);
}

void op_flush(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.handle = handle_of(file)};
    (void)ino;
    request_run_closing(request, tree_handle_may_wait(arguments.handle), &arguments, flush_file);
}

static void sync_file(struct tree *tree, const struct tree_caller *caller,
                      const struct request_arguments *arguments, struct request_outcome *ret)
{
    (void)tree;
    (void)caller;
    ret->error = tree_sync_file(arguments->handle, arguments->flags != 0);
}

void op_fsync(fuse_req_t request, fuse_ino_t ino, int is_data_only, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.handle = handle_of(file), .flags = is_data_only != 0};
    (void)ino;
    request_run(request, true, &arguments, sync_file);
}

static void release_file(struct tree *tree, const struct tree_caller *caller,
                         const struct request_arguments *arguments, struct request_outcome *ret)
{
    (void)tree;
    (void)caller;
    (void)ret;
    tree_release(arguments->handle);
}

void op_release(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.handle = handle_of(file)};
    (void)ino;
    if (tree_handle_caching(arguments.handle) == TREE_CACHE_STREAM)
        stream_forget(&session_of(request)->readers, arguments.handle);
    request_run_closing(request, tree_handle_may_wait(arguments.handle), &arguments, release_file);
}

void op_poll(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file, struct fuse_pollhandle *poll)
{
    struct tree_handle *handle = handle_of(file);
    (void)ino;
    if (tree_handle_caching(handle) == TREE_CACHE_STREAM) {
        stream_poll(request, handle, poll);
        return;
    }
    if (poll != NULL)
        fuse_pollhandle_destroy(poll);
    fuse_reply_poll(request, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM);
}
