/* SPDX-License-Identifier: MIT */
/*
 * Requests about listings.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "fs/operations.h"
#include "fs/reply.h"
#include "fs/session_state.h"
#include "tree/tree.h"

/* A part of a listing, as the kernel wants it. */
struct listing_buffer {
    fuse_req_t request;
    char *bytes;
    size_t size;
    size_t used;
    bool has_attributes; /* READDIRPLUS */
};

static struct tree_dir *dir_of(const struct fuse_file_info *file)
{
    return (struct tree_dir *)(uintptr_t)file->fh;
}

static void open_dir(struct tree *tree, const struct tree_caller *caller,
                     const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_open_dir(tree, caller, arguments->ino, &ret->opened_dir);
}

void op_opendir(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.ino = ino};
    (void)file;
    request_run(request, tree_open_dir_may_wait(session_of(request)->tree, ino), &arguments, open_dir);
}

static bool put_entry(void *context, const char *name, const struct tree_entry *entry, uint64_t next)
{
    struct listing_buffer *buffer = context;
    char *end = buffer->bytes + buffer->used;
    size_t room = buffer->size - buffer->used;
    struct fuse_entry_param parameters;
    size_t needed;
    if (buffer->has_attributes) {
        fill_entry(entry, &parameters);
        needed = fuse_add_direntry_plus(buffer->request, end, room, name, &parameters, (off_t)next);
    } else {
        needed = fuse_add_direntry(buffer->request, end, room, name, &entry->attributes.stat, (off_t)next);
    }
    if (needed > room)
        return false;
    buffer->used += needed;
    return true;
}

static void read_dir(fuse_req_t request, size_t size, off_t offset, const struct fuse_file_info *file,
                     bool has_attributes)
{
    _cleanup_free_ char *bytes = malloc(size);
    struct listing_buffer buffer = {
        .request = request, .bytes = bytes, .size = size, .has_attributes = has_attributes};
    if (bytes == NULL) {
        reply_status(request, -ENOMEM);
        return;
    }
    int error = tree_read_dir(dir_of(file), (uint64_t)offset, put_entry, &buffer);
    /* What was put already is answered; the error comes with the next call. */
    if (error != 0 && buffer.used == 0)
        reply_status(request, error);
    else
        fuse_reply_buf(request, bytes, buffer.used);
}

void op_readdir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *file)
{
    (void)ino;
    read_dir(request, size, offset, file, false);
}

void op_readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *file)
{
    (void)ino;
    read_dir(request, size, offset, file, true);
}

void op_releasedir(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    (void)ino;
    tree_release_dir(dir_of(file));
    reply_status(request, 0);
}

static void sync_folder(struct tree *tree, const struct tree_caller *caller,
                        const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_sync_folder(tree, caller, arguments->ino);
    ret->must_be_announced = tree_is_barrier(arguments->ino);
}

void op_fsyncdir(fuse_req_t request, fuse_ino_t ino, int is_data_only, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.ino = ino};
    (void)is_data_only;
    (void)file;
    request_run(request, true, &arguments, sync_folder);
}
