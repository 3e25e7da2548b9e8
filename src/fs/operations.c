/* SPDX-License-Identifier: MIT */
/*
 * The kernel's requests, one function each: what it asks for is asked of the tree, and answered. The table of
 * them, and what is agreed with the kernel at the start, stand at the end.
 */
#include "fs/operations.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "fs/reply.h"
#include "fs/request_loop.h"
#include "fs/session_state.h"
#include "tree/tree.h"

/* ---------------------------------------------------------------- the content of a first open */

/*
 * What is opened for the first time is mostly read next: the kernel is handed its content along with the
 * answer to the open, and need not ask for it. That spares a request a file, and another one later, since the
 * kernel asks for the attributes of what it has read again.
 *
 * This notification is made from within a request, as no other: it waits for nothing but the file's pages,
 * and those can only be waiting for a read of the same file. At a first open there has been no read. Should
 * another open of the file be answered meanwhile, and its reader be quicker, then another thread answers that
 * read: for at most one thread is here at a time.
 */

/* What changed before it was handed over may have been told of before, too. */
static bool is_current(struct tree_handle *handle, const struct tree_data *given)
{
    struct tree_data now;
    bool is_same = tree_read(handle, given->len, 0, &now) == 0 && now.len == given->len &&
                   memcmp(now.bytes, given->bytes, now.len) == 0;
    tree_data_release(&now);
    return is_same;
}

static void give(struct fs_session *session, fuse_ino_t ino, struct tree_handle *handle)
{
    struct tree_data data;
    if (!tree_take_first_content(handle, &data))
        return;
    struct fuse_bufvec bytes = FUSE_BUFVEC_INIT(data.len);
    bytes.buf[0].mem = (void *)(uintptr_t)data.bytes; /* libfuse only reads it */
    /* Refused: then the kernel asks. */
    if (fuse_lowlevel_notify_store(session->fuse, ino, 0, &bytes, 0) == 0 && !is_current(handle, &data))
        notifier_forget_content(&session->notifier, ino);
    tree_data_release(&data);
}

/* Before the open is answered. */
static void first_content_give(struct fs_session *session, fuse_ino_t ino, struct tree_handle *handle)
{
    if (atomic_flag_test_and_set(&session->is_giving))
        return;
    give(session, ino, handle);
    atomic_flag_clear(&session->is_giving);
}

/* ---------------------------------------------------------------- inodes */

static void look_up(struct tree *tree, const struct tree_caller *caller,
                    const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_lookup(tree, caller, arguments->ino, arguments->name, &ret->entry);
    ret->has_entry = true;
}

static void op_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct fs_session *session = session_of(request);
    const struct request_arguments arguments = {.ino = parent, .name = name};
    /* What it is to create must not be there. */
    if (announcer_is_helper(&session->announcer, fuse_req_ctx(request)->pid) && tree_is_announced(parent)) {
        reply_status(request, -ENOENT);
        return;
    }
    request_run(request, tree_lookup_may_wait(session->tree, parent, name), &arguments, look_up);
}

static void op_forget(fuse_req_t request, fuse_ino_t ino, uint64_t lookups)
{
    tree_forget(session_of(request)->tree, ino, lookups);
    fuse_reply_none(request);
}

static void op_forget_multi(fuse_req_t request, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        tree_forget(session_of(request)->tree, forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(request);
}

static void get_attributes(struct tree *tree, const struct tree_caller *caller,
                           const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_get_attributes(tree, caller, arguments->ino, &ret->attributes);
    ret->has_attributes = true;
}

static void op_getattr(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.ino = ino};
    (void)file;
    request_run(request, tree_get_attributes_may_wait(ino), &arguments, get_attributes);
}

static struct timespec time_to_set(int to_set, int field, int field_now, struct timespec given)
{
    if ((to_set & field_now) != 0)
        return (struct timespec){.tv_nsec = UTIME_NOW};
    return (to_set & field) != 0 ? given : (struct timespec){.tv_nsec = UTIME_OMIT};
}

static struct tree_change change_to_make(const struct stat *stat, int to_set)
{
    struct tree_change change = {
        .mode = stat->st_mode,
        .uid = stat->st_uid,
        .gid = stat->st_gid,
        .size = stat->st_size,
        .times = {time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, stat->st_atim),
                  time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, stat->st_mtim)},
    };
    static const struct {
        int theirs;
        unsigned int ours;
    } fields[] = {
        {FUSE_SET_ATTR_MODE, TREE_SET_MODE},   {FUSE_SET_ATTR_UID, TREE_SET_UID},
        {FUSE_SET_ATTR_GID, TREE_SET_GID},     {FUSE_SET_ATTR_SIZE, TREE_SET_SIZE},
        {FUSE_SET_ATTR_ATIME, TREE_SET_TIMES}, {FUSE_SET_ATTR_MTIME, TREE_SET_TIMES},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if ((to_set & fields[i].theirs) != 0)
            change.fields |= fields[i].ours;
    return change;
}

static void set_attributes(struct tree *tree, const struct tree_caller *caller,
                           const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_set_attributes(tree, caller, arguments->ino, arguments->handle, &arguments->change);
    if (ret->error == 0)
        ret->error = tree_get_attributes(tree, caller, arguments->ino, &ret->attributes);
    ret->has_attributes = true;
}

static void op_setattr(fuse_req_t request, fuse_ino_t ino, struct stat *stat, int to_set,
                       struct fuse_file_info *file)
{
    const struct request_arguments arguments = {
        .ino = ino,
        .handle = file != NULL ? (struct tree_handle *)(uintptr_t)file->fh : NULL,
        .change = change_to_make(stat, to_set),
    };
    request_run(request, tree_may_wait(ino), &arguments, set_attributes);
}

static void read_link(struct tree *tree, const struct tree_caller *caller,
                      const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->target = malloc(PATH_MAX + 1);
    ret->error = ret->target == NULL
                     ? -ENOMEM
                     : tree_read_link(tree, caller, arguments->ino, ret->target, PATH_MAX + 1);
}

static void op_readlink(fuse_req_t request, fuse_ino_t ino)
{
    const struct request_arguments arguments = {.ino = ino};
    request_run(request, tree_get_attributes_may_wait(ino), &arguments, read_link);
}

static void op_statfs(fuse_req_t request, fuse_ino_t ino)
{
    struct statvfs statistics;
    (void)ino;
    int error = tree_get_statistics(session_of(request)->tree, &statistics);
    if (error != 0)
        reply_status(request, error);
    else
        fuse_reply_statfs(request, &statistics);
}

/* ---------------------------------------------------------------- names */

static void make_dir(struct tree *tree, const struct tree_caller *caller,
                     const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_make_dir(tree, caller, arguments->ino, arguments->name, arguments->mode, &ret->entry);
    ret->has_entry = true;
}

static void op_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode)
{
    const struct request_arguments arguments = {.ino = parent, .name = name, .mode = mode};
    request_run(request, tree_may_wait(parent), &arguments, make_dir);
}

static void reply_made(fuse_req_t request, int error, const struct tree_entry *entry)
{
    if (error != 0)
        reply_status(request, error);
    else
        reply_entry(request, entry);
}

static void op_mknod(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
    struct tree_entry entry;
    (void)device;
    reply_made(request, tree_make_node(session_of(request)->tree, parent, name, mode, &entry), &entry);
}

static void op_symlink(fuse_req_t request, const char *target, fuse_ino_t parent, const char *name)
{
    struct tree_entry entry;
    reply_made(request, tree_make_symlink(session_of(request)->tree, target, parent, name, &entry), &entry);
}

static void op_link(fuse_req_t request, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
    struct tree_entry entry;
    reply_made(request, tree_make_link(session_of(request)->tree, ino, new_parent, new_name, &entry), &entry);
}

static void unlink_name(struct tree *tree, const struct tree_caller *caller,
                        const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_unlink(tree, caller, arguments->ino, arguments->name);
}

static void op_unlink(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    const struct request_arguments arguments = {.ino = parent, .name = name};
    request_run(request, tree_may_wait(parent), &arguments, unlink_name);
}

static void op_rmdir(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    reply_status(request, tree_remove_dir(session_of(request)->tree, parent, name));
}

static void rename_name(struct tree *tree, const struct tree_caller *caller,
                        const struct request_arguments *arguments, struct request_outcome *ret)
{
    ret->error = tree_rename(tree, caller, arguments->ino, arguments->name, arguments->new_parent,
                             arguments->new_name, arguments->flags);
}

static void op_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                      const char *new_name, unsigned int flags)
{
    const struct request_arguments arguments = {
        .ino = parent, .name = name, .new_parent = new_parent, .new_name = new_name, .flags = flags};
    request_run(request, tree_may_wait(parent) || tree_may_wait(new_parent), &arguments, rename_name);
}

/* ---------------------------------------------------------------- open files */

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

static void op_open(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
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

static void op_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
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

static void op_read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *file)
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

static void op_write(fuse_req_t request, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
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

static void op_fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t len,
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
static void op_lseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence,
                     struct fuse_file_info *file)
{
    const struct request_arguments arguments = {
        .ino = ino, .handle = handle_of(file), .flags = (unsigned int)whence, .offset = offset};
    request_run(request, tree_get_attributes_may_wait(ino), &arguments, seek_file);
}

static void op_copy_file_range(fuse_req_t request, fuse_ino_t ino_in, off_t offset_in,
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

static void op_flush(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
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

static void op_fsync(fuse_req_t request, fuse_ino_t ino, int is_data_only, struct fuse_file_info *file)
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

static void op_release(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.handle = handle_of(file)};
    (void)ino;
    if (tree_handle_caching(arguments.handle) == TREE_CACHE_STREAM)
        stream_forget(&session_of(request)->readers, arguments.handle);
    request_run_closing(request, tree_handle_may_wait(arguments.handle), &arguments, release_file);
}

static void op_poll(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file,
                    struct fuse_pollhandle *poll)
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

/* ---------------------------------------------------------------- listings */

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

static void op_opendir(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
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

static void op_readdir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                       struct fuse_file_info *file)
{
    (void)ino;
    read_dir(request, size, offset, file, false);
}

static void op_readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                           struct fuse_file_info *file)
{
    (void)ino;
    read_dir(request, size, offset, file, true);
}

static void op_releasedir(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file)
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

static void op_fsyncdir(fuse_req_t request, fuse_ino_t ino, int is_data_only, struct fuse_file_info *file)
{
    const struct request_arguments arguments = {.ino = ino};
    (void)is_data_only;
    (void)file;
    request_run(request, true, &arguments, sync_folder);
}

/* ---------------------------------------------------------------- the table */

static void want(struct fuse_conn_info *connection, unsigned int capability, bool is_wanted)
{
    if (is_wanted && (connection->capable & capability) != 0)
        connection->want |= capability;
    else
        connection->want &= ~capability;
}

static void op_init(void *context, struct fuse_conn_info *connection)
{
    const struct fs_session *session = context;
    connection->max_read = session->max_read;
    if (connection->max_write > REQUEST_LOOP_MAX_WRITE)
        connection->max_write = REQUEST_LOOP_MAX_WRITE;
    /* Several reads of one file at a time, and lookups and listings of one folder side by side. */
    want(connection, FUSE_CAP_ASYNC_READ, true);
    want(connection, FUSE_CAP_PARALLEL_DIROPS, true);
    /* Attributes always come with a listing: find and stat loops list first and ask later, so asking by
     * demand would decide against it. */
    want(connection, FUSE_CAP_READDIRPLUS, true);
    want(connection, FUSE_CAP_READDIRPLUS_AUTO, false);
    /* A truncating open is one request: replacing a file is seen as one thing. */
    want(connection, FUSE_CAP_ATOMIC_O_TRUNC, true);
    /* What is cached goes when size or mtime change; listings too. */
    want(connection, FUSE_CAP_AUTO_INVAL_DATA, true);
    /* Sizes must be exact and every byte here when a file is closed: the kernel may not write behind. */
    want(connection, FUSE_CAP_WRITEBACK_CACHE, false);
    /* Records are small and in memory: a pipe costs more than the copy that it saves. */
    want(connection, FUSE_CAP_SPLICE_READ, false);
    want(connection, FUSE_CAP_SPLICE_WRITE, false);
    want(connection, FUSE_CAP_SPLICE_MOVE, false);
    /* Inode numbers of drafts are good only while the kernel holds them. */
    want(connection, FUSE_CAP_EXPORT_SUPPORT, false);
    /* The kernel clears set-user-id bits itself, by a SETATTR: as root, the filesystem below would not. */
    want(connection, FUSE_CAP_HANDLE_KILLPRIV, false);
    want(connection, FUSE_CAP_IOCTL_DIR, false);
}

const struct fuse_lowlevel_ops *operations(void)
{
    static const struct fuse_lowlevel_ops table = {
        .init = op_init,
        .lookup = op_lookup,
        .forget = op_forget,
        .forget_multi = op_forget_multi,
        .getattr = op_getattr,
        .setattr = op_setattr,
        .readlink = op_readlink,
        .statfs = op_statfs,
        .mkdir = op_mkdir,
        .mknod = op_mknod,
        .symlink = op_symlink,
        .link = op_link,
        .unlink = op_unlink,
        .rmdir = op_rmdir,
        .rename = op_rename,
        .open = op_open,
        .create = op_create,
        .read = op_read,
        .write = op_write,
        .fallocate = op_fallocate,
        .lseek = op_lseek,
        .copy_file_range = op_copy_file_range,
        .flush = op_flush,
        .fsync = op_fsync,
        .release = op_release,
        .poll = op_poll,
        .opendir = op_opendir,
        .readdir = op_readdir,
        .readdirplus = op_readdirplus,
        .releasedir = op_releasedir,
        .fsyncdir = op_fsyncdir,
    };
    return &table;
}
