/* SPDX-License-Identifier: MIT */
/*
 * Answers to the kernel.
 */
#include "fs/reply.h"

#include <errno.h>

#include "fs/session_state.h"

/* The kernel is told when something changes (notifier.h). */
static const double lasting_seconds = 24 * 60 * 60;

enum {
    ERRNO_MAX = 511 /* the kernel takes nothing beyond for an answer, and the request would hang */
};

void reply_status(fuse_req_t request, int error)
{
    if (error > 0 || error < -ERRNO_MAX)
        error = -EIO;
    fuse_reply_err(request, -error);
}

void fill_entry(const struct tree_entry *entry, struct fuse_entry_param *ret)
{
    *ret = (struct fuse_entry_param){
        .ino = entry->ino,
        .attr = entry->attributes.stat,
        .entry_timeout = entry->is_name_lasting ? lasting_seconds : 0,
        .attr_timeout = entry->attributes.is_lasting ? lasting_seconds : 0,
    };
}

void reply_entry(fuse_req_t request, const struct tree_entry *entry)
{
    struct fs_session *session = session_of(request);
    struct fuse_entry_param parameters;
    fill_entry(entry, &parameters);
    if (fuse_reply_entry(request, &parameters) != 0)
        tree_forget(session->tree, entry->ino, 1);
}

void reply_attributes(fuse_req_t request, const struct tree_attributes *attributes)
{
    fuse_reply_attr(request, &attributes->stat, attributes->is_lasting ? lasting_seconds : 0);
}

void reply_data(fuse_req_t request, struct tree_data *data)
{
    if (data->fd >= 0) {
        struct fuse_bufvec bytes = FUSE_BUFVEC_INIT(data->len);
        bytes.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
        bytes.buf[0].fd = data->fd;
        bytes.buf[0].pos = data->offset;
        fuse_reply_data(request, &bytes, 0);
    } else {
        /* Written from where it is: nothing is copied on this side. */
        fuse_reply_buf(request, data->bytes, data->len);
    }
    tree_data_release(data);
}

static void fill_file(const struct tree_handle *handle, struct fuse_file_info *file)
{
    enum tree_caching caching = tree_handle_caching(handle);
    file->fh = (uint64_t)(uintptr_t)handle;
    file->keep_cache = caching == TREE_CACHE_LASTING;
    file->direct_io = caching == TREE_CACHE_NONE || caching == TREE_CACHE_STREAM;
    file->noflush = !tree_handle_is_writable(handle);
}

void reply_open(fuse_req_t request, struct tree_handle *handle)
{
    struct fuse_file_info file = {.flags = 0};
    fill_file(handle, &file);
    if (fuse_reply_open(request, &file) != 0)
        tree_release(handle);
}

void reply_open_dir(fuse_req_t request, struct tree_dir *dir)
{
    const struct fuse_file_info file = {
        .fh = (uint64_t)(uintptr_t)dir,
        .cache_readdir = tree_dir_is_lasting(dir),
        .keep_cache = tree_dir_is_lasting(dir),
    };
    if (fuse_reply_open(request, &file) != 0)
        tree_release_dir(dir);
}

void reply_create(fuse_req_t request, const struct tree_entry *entry, struct tree_handle *handle,
                  struct fuse_file_info *file)
{
    struct fs_session *session = session_of(request);
    struct fuse_entry_param parameters;
    fill_entry(entry, &parameters);
    fill_file(handle, file);
    if (fuse_reply_create(request, &parameters, file) != 0) {
        tree_release(handle);
        tree_forget(session->tree, entry->ino, 1);
    }
}
